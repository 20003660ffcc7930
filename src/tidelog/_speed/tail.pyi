"""What an append in the common case reads and changes, as fields that native code reaches without Python."""

import asyncio
from collections.abc import Iterator
from typing import Any

from tidelog._speed.tally import Tally

class Descriptor:
    _fd: int

class SegmentTail:
    base: int
    size: int
    reserved: int
    end: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    roll_at: int
    used: bool
    _interval_bytes: int
    _since_index: int
    _file: Any
    _recent: dict[int, int]

class Gathering:
    owner: Any
    future: asyncio.Future[None]
    segment: Any
    pieces: list[bytes]
    size: int
    end: int
    answers: Any  # those of the shortcut

class LogTail:
    start: int
    end: int
    next: int
    epochs: Any
    producers: Any
    _active: Any
    _durability: Any
    _gathering: Any
    _queueing: bool
    _queued: int
    _segment_bytes: int
    _volume: Any

class KeptBatch:
    """A batch that a log has seen of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    def __init__(
        self, first_sequence: int, last_sequence: int, base_offset: int, last_offset: int, timestamp: int
    ) -> None: ...
    def __iter__(self) -> Iterator[int]: ...

class ProducerTail:
    id: int
    epoch: int
    coordinator_epoch: int
    next_sequence: int
    timestamp: int
    transaction_start: int
    batches: Any

class ProducerTable:
    _producers: dict[int, Any]

class PartitionTail:
    leader: Any
    log: Any
    state: Any
    commit_waits: Any
    fetch_waits: dict[Any, None]
    follower_waits: dict[Any, None]
    topic: str
    _after_ms_max: int
    _batch_bytes_max: int
    _in_sync_min: int
    _plain: bool
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    replicated_in: int
    """Bytes that came from leaders."""

    def produced(self, first: int, end: int, size: int, now_ms: int) -> None:
        """A producer's batch with the offsets from `first` to before `end`."""

    def fetched(self, tally: Tally, offset: int, end: int, size: int, now_ms: int) -> None:
        """A consumer gets the records from `offset` to before `end`."""

def sum_counts(held: dict[Any, Any]) -> tuple[int, int, int, int, int]:
    """(messages in, bytes in, messages out, bytes out, bytes replicated) of all partitions, of which each is there by name
    and by id."""
