"""Answers to produce requests that wait: for the sync of a group commit, for the in-sync replicas, within their time-out."""

import asyncio
from collections.abc import Callable
from typing import Any

from tidelog._speed.log.commit_waits import CommitWait

class DelayedProduce(CommitWait):
    """A future of an answer, as far as a connection needs it."""

    partition: Any
    durable: asyncio.Future[None] | None
    """The sync that it waits for, or waited for."""
    session: Any
    topic: str | bytes
    index: int
    version: int
    correlation_id: int
    acks: int
    """As asked, or -1 where only the in-sync set can vouch for the records."""
    base: int
    epoch: int
    """Of the leader when the records were appended."""
    def wait_for_all(self) -> None:
        """For the in-sync set, which has to vouch for the records from now on."""

    @property
    def client_id(self) -> str | None: ...
    def done(self) -> bool: ...
    def result(self) -> bytes: ...
    def cancel(self) -> None: ...
    def add_done_callback(self, callback: Callable[[DelayedProduce], object]) -> None:
        """One, called as soon as it is done."""

    def acknowledge(self) -> None:
        """All is well."""

    def finish(self, outcome: bytes) -> None:
        """Another answer; nothing happens when it has one."""

# An answer that cannot be acknowledged as it is, and whether it is to be given now, whatever it is.
Refuse = Callable[[DelayedProduce, bool], None]

class DelayedProduces:
    def __init__(self, refuse: Refuse, lease_proven: Callable[[], bool]) -> None: ...
    @property
    def waiting_count(self) -> int: ...
