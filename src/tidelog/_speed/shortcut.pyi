"""A produce request in the common case, from its frame to its answer, without leaving native code."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from typing_extensions import Buffer

from tidelog._speed.session import SessionState
from tidelog._speed.tail import PartitionTail

class SyncedAnswer:
    """A future of the answer to a request whose records wait for a sync, as far as a connection needs it."""

    topic: str | bytes
    index: int
    version: int
    correlation_id: int
    acks: int
    base: int
    end: int
    def done(self) -> bool: ...
    def result(self) -> bytes: ...
    def cancel(self) -> None: ...
    def add_done_callback(self, callback: Callable[[SyncedAnswer], object]) -> None:
        """One, called as soon as it is done."""

    def acknowledge(self) -> None:
        """All is well."""

    def finish(self, outcome: bytes) -> None:
        """Another answer; nothing happens when it has one."""

# An answer that cannot be acknowledged as it is: its partition, the job's future, and whether its time has passed.
Late = Callable[[SyncedAnswer, Any, asyncio.Future[None], bool], None]

class ProduceShortcut:
    def __init__(
        self,
        held: Mapping[tuple[str | bytes, int], PartitionTail],
        node: int,
        now_ms: Callable[[], int],
        late: Late,
        reserved: Collection[str],
    ) -> None:
        """`held` by topic name, and by topic id; topics that are `reserved` are left alone."""

    def produce(
        self, frame: Buffer, version: int, correlation_id: int, session: SessionState
    ) -> bytes | SyncedAnswer | None:
        """The answer, empty when the client wants none; None when nothing was done: it is not the common case, or the gate
        has not decided yet that `session` may write there, or its quota has to be asked again."""

def all_plain(
    topics: list[tuple[str | bytes, list[tuple[int, int, int]]]],
    held: Mapping[tuple[str | bytes, int], PartitionTail],
) -> bool:
    """Whether all partitions of a produce request are open here, and their topics take batches as they are, unopened."""

def append_own(partition: PartitionTail, data: bytearray) -> bool:
    """Stamps and writes a batch that this node made, for a partition that it leads and may write to; false when nothing
    was done: it is not the common case."""
