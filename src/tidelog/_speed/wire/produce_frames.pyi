"""Produce 3-13: requests decoded and responses encoded natively."""

from collections.abc import Sequence

from typing_extensions import Buffer

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
