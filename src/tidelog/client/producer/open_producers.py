"""Blocking producers that were not closed: their records are delivered when the program ends.

The interpreter's end would stop the clients' thread in the middle of its work, so an exit handler waits for
deliveries.  Records of transactions are not waited for, and a forked child does not wait for its parent's producers.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import time

from tidelog import errors
from tidelog.client.blocking.loop_thread import LoopThread
from tidelog.client.producer.producer import Producer

# Without a handler of its own, so that it is printed whether the application has set up logging or not.
log = logging.getLogger("tidelog.exit")

WAIT_S_MAX = 5.0

_open: dict[Producer, LoopThread] = {}


def opened(producer: Producer, thread: LoopThread) -> None:
    _open[producer] = thread


def closed(producer: Producer) -> None:
    _open.pop(producer, None)


def deliver() -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    for producer, thread in list(_open.items()):
        sender = producer.sender
        if producer._transactions is not None or not sender.waiting_records:
            continue
        with contextlib.suppress(errors.TidelogError, RuntimeError):
            thread.run(producer.flush(max(0.0, deadline - time.monotonic())))
        if sender.waiting_records:
            log.error(
                "%s records were not delivered before the program ended: close the producer, or use `with`",
                sender.waiting_records,
            )


atexit.register(deliver)
os.register_at_fork(after_in_child=_open.clear)
