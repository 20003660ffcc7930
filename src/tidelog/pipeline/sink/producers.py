"""The producers of this process, kept from task to task: one per transactional id, and one without transactions."""

from __future__ import annotations

import atexit
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog import errors
from tidelog.client.blocking.producer import Producer
from tidelog.pipeline.clients import patient
from tidelog.pipeline.options.sink import SinkOptions
from tidelog.pipeline.options.text import PipelineError

KEPT_MAX = 32
RETRY_MS = 10
REQUEST_TIMEOUT_MS = 30_000

_kept: OrderedDict[tuple[SinkOptions, str | None], Producer] = OrderedDict()


@contextmanager
def producer_of(options: SinkOptions, transactional_id: str | None) -> Iterator[Producer]:
    """A producer for one task; a task that fails does not leave it to the next task."""
    place = options, transactional_id
    producer = _kept.pop(place, None)
    if producer is None:
        # In local mode Spark does not retry a task: so the task itself waits for brokers that cannot be reached.
        producer = patient(lambda: new_producer(options, transactional_id), options.connection.timeout_ms)
    try:
        yield producer
    except BaseException:
        drop(producer)
        raise
    _kept[place] = producer
    while len(_kept) > KEPT_MAX:
        drop(_kept.popitem(last=False)[1])


def new_producer(options: SinkOptions, transactional_id: str | None) -> Producer:
    connection = options.connection
    try:
        return Producer(
            bootstrap_servers=connection.bootstrap,
            client_id=connection.client_id,
            compression_type=options.compression,
            transactional_id=transactional_id,
            transaction_timeout_ms=options.transaction_timeout_ms,
            max_block_ms=connection.timeout_ms,
            request_timeout_ms=min(REQUEST_TIMEOUT_MS, connection.timeout_ms),
            delivery_timeout_ms=connection.timeout_ms,
            retry_backoff_ms=RETRY_MS,
            security=connection.security(),
        )
    except errors.InvalidTransactionTimeout:
        raise PipelineError(
            f"the brokers do not allow transactions of {options.transaction_timeout_ms} ms: set option "
            "transactionTimeoutMs to at most their transaction.max.timeout.ms"
        ) from None


def drop(producer: Producer) -> None:
    """Closes the producer without waiting for undelivered records: its task has already failed."""
    try:
        producer.close(timeout=0)
    except errors.TidelogError:
        pass


def _forked() -> None:
    _kept.clear()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def close_all() -> None:
    while _kept:
        drop(_kept.popitem()[1])
