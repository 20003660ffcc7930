"""The hot requests and answers, decoded and encoded natively: Produce 3-13, Fetch 4-18."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import Buffer

def request_header(frame: Buffer, flexible: bool) -> tuple[str | None, int]:
    """(client id, where the body starts); raises ValueError on bytes that are no header."""

class ProduceAsk:
    transactional_id: str | None
    acks: int
    timeout_ms: int
    # What the low bytes of the batches' attributes have, all of them together.
    attributes: int
    # (name, or the 16 bytes of the topic id from version 13 on; [(partition, where its records start, their size or -1)])
    topics: list[tuple[str | bytes, list[tuple[int, int, int]]]]

def decode_produce(frame: Buffer, at: int, version: int) -> ProduceAsk: ...

class ProduceAnswer:
    """What became of a producer's batch; -1 where nothing is known."""

    index: int
    error: int
    base_offset: int
    append_time_ms: int
    log_start: int
    message: str | None
    leader: tuple[int, int] | None
    """(node, epoch)."""
    bad_records: Sequence[tuple[int, str | None]]
    """(index, why) of records at fault."""
    def __init__(
        self,
        index: int,
        error: int,
        base_offset: int = -1,
        append_time_ms: int = -1,
        log_start: int = -1,
        message: str | None = None,
        leader: tuple[int, int] | None = None,
        bad_records: Sequence[tuple[int, str | None]] = (),
    ) -> None: ...

# (node, host, port, rack)
Endpoint = tuple[int, str, int, str | None]

def encode_produce(
    version: int,
    correlation_id: int,
    topics: list[tuple[str | bytes, list[ProduceAnswer]]],
    throttle_ms: int,
    endpoints: Sequence[Endpoint] = (),
) -> bytes:
    """A whole frame, length included."""

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
