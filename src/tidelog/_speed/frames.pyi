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

# (partition, error, base offset, append time, log start, message, (leader, epoch) or None,
#  [(index, why)] of records at fault) of each partition, in their topics
ProduceAnswer = tuple[
    int, int, int, int, int, str | None, tuple[int, int] | None, Sequence[tuple[int, str | None]]
]

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

# (partition, error, committed, last stable, log start, (diverging epoch, its end) or None, (leader, epoch) or None,
#  [(producer id, first offset)] of aborted transactions or None, preferred replica, records: bytes, a slice, or None)
FetchAnswer = tuple[
    int,
    int,
    int,
    int,
    int,
    tuple[int, int] | None,
    tuple[int, int] | None,
    list[tuple[int, int]] | None,
    int,
    Any,
]

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
