"""Fetch 4-18: requests decoded and responses encoded natively, around slices of files."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import Buffer

from tidelog._speed.wire.produce_frames import Endpoint

class FetchAsk:
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    session_id: int
    session_epoch: int
    # (topic, [(partition, current leader epoch, offset, last fetched epoch, log start, bytes max)])
    topics: list[tuple[str | bytes, list[tuple[int, int, int, int, int, int]]]]
    forgotten: list[tuple[str | bytes, list[int]]]
    rack: str

def decode_fetch(frame: Buffer, at: int, version: int) -> FetchAsk: ...

class FetchAnswer:
    """What one partition gives to a fetch; -1 where nothing is known or to be told."""

    index: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    preferred_replica: int
    diverging: tuple[int, int] | None
    """(epoch, where it ended): the follower's log parts from the leader's."""
    leader: tuple[int, int] | None
    """(node, epoch)."""
    aborted: list[tuple[int, int]] | None
    """(producer id, first offset) of aborted transactions."""
    records: Any
    """Bytes, a slice of a file, or None."""
    def __init__(
        self,
        index: int,
        error: int = 0,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start: int = -1,
    ) -> None: ...

def fetch_answer(
    index: int, high_watermark: int, last_stable_offset: int, log_start: int, records: Any
) -> FetchAnswer:
    """The answer of a partition that has no more to tell: cheaper than the constructor."""

def encode_fetch(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    error: int,
    session_id: int,
    topics: list[tuple[str | bytes, list[FetchAnswer]]],
    endpoints: Sequence[Endpoint] = (),
) -> list[Any]:
    """The pieces of a whole frame: bytes, and the slices as they were given."""
