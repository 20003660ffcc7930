"""The one way in which a partition's log grows: room, index, offsets, producers' numbers, high watermark."""

import asyncio
from collections.abc import Iterator
from typing import Any

from typing_extensions import Buffer

from tidelog._speed.log.batch import Header
from tidelog._speed.log.index_interval import IndexInterval
from tidelog._speed.log.request_metrics import RequestMetrics

VERDICT_GAP: int
VERDICT_NUMBERS_USED_AGAIN: int
VERDICT_OLDER_EPOCH: int
VERDICT_EPOCH_NOT_FROM_ZERO: int
VERDICT_OUTSIDE_OF_TRANSACTION: int

class Descriptor:
    _fd: int

class NativeSegment:
    base: int
    size: int
    reserved: int
    end: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    created_ms: int
    age_ms_max: int
    """By the clock, of a segment whose batches have no time."""
    roll_at: int
    """Only a timestamp above this can make the segment too old."""
    index_full: bool
    used: bool
    interval: IndexInterval
    _file: Any
    _recent: dict[int, int]

class NativeGroupAppend:
    owner: Any
    future: asyncio.Future[None]
    segment: Any
    pieces: list[bytes]
    size: int
    end: int
    answers: Any
    """Those of the produce shortcut that wait for it."""

class NativeSegments:
    active: Any
    """The last segment: the one that is appended to."""

class NativeLogState:
    start: int
    end: int
    next: int
    queued: int
    """Group appends on their way to the disk."""
    segments: Any
    producers: Any
    epochs: Any
    durability: Any
    volume: Any
    name: Any

class NativeAppender:
    log: Any
    segment_bytes: int
    queueing: bool
    """Appends are queued: the topic asks for a sync of each, or earlier ones still wait for theirs."""
    group: Any
    """The group append that takes what is appended now."""

    def append(
        self,
        data: Buffer,
        base: int,
        last: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        epoch: int,
    ) -> asyncio.Future[None] | None:
        """As `NativeLog.append`."""

    def room_for(self, data: Buffer, base: int, last: int, max_timestamp: int) -> Any:
        """The segment that takes these batches: the active one, or a new one that begins with them."""

class NativeLog:
    state: Any
    appender: Any
    def __init__(self, state: NativeLogState, appender: NativeAppender) -> None: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def next(self) -> int: ...
    @property
    def epochs(self) -> Any: ...
    @property
    def producers(self) -> Any: ...
    def append(
        self,
        data: Buffer,
        base: int,
        last: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        epoch: int,
    ) -> asyncio.Future[None] | None:
        """Whole batches of one leader epoch, stamped, from `base` (not below `next`) to `last`.

        None: they are in the page cache, `end` has moved.  A future: the topic asks for a sync, and it is
        done when `end` has moved and all is on disk.  A full or failing disk raises KafkaStorageError and
        changes nothing."""

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

class NativeProducer:
    id: int
    epoch: int
    coordinator_epoch: int
    next_sequence: int
    timestamp: int
    transaction_start: int
    batches: Any
    def keep(self, batch: KeptBatch) -> None: ...

class NativeProducers:
    _producers: dict[int, Any]
    _open: dict[int, int]
    def check(self, header: Header) -> KeptBatch | None:
        """Whether a producer's batch may be appended: None if so, the first copy if it is one of the last five
        again, and otherwise the error that the producer must get."""

    def appended(self, header: Header, base: int) -> None:
        """The batch with this header is in the log at `base` (the header may have been read before it was
        stamped).  Batches without a producer and control batches are none of this method's business."""

class NativePartition:
    leader: Any
    log: Any
    state: Any
    commit_waits: Any
    fetch_waits: dict[Any, None]
    follower_waits: dict[Any, None]
    topic: str
    _after_ms_max: int
    _batch_bytes_max: int
    _plain: bool
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    replicated_in: int
    """Bytes that came from leaders."""

    def accepts_appends(self, by_all: bool) -> bool:
        """Whether this node leads and, for what is acknowledged by all replicas, has enough of them in sync."""

    def append_led(
        self, data: Buffer, header: Header, max_timestamp_at: int, now_ms: int
    ) -> asyncio.Future[None] | None:
        """Stamps and appends one sound batch, which this node's rules allow: the sync that it waits for, if its topic asks
        for one.  Then the caller tells `wrote` after the sync."""

    def append_made(self, data: bytearray) -> asyncio.Future[None] | None:
        """As `append_led`, for a batch that this broker made itself, which counts as nobody's."""

    def append_unannounced(self, data: bytearray) -> asyncio.Future[None] | None:
        """As `append_made`; nobody is told that the log grew before the caller tells `wrote`."""

    def fetched(self, tally: RequestMetrics, offset: int, end: int, size: int, now_ms: int) -> None:
        """A consumer gets the records from `offset` to before `end`."""

def sum_counts(held: dict[Any, Any]) -> tuple[int, int, int, int, int]:
    """(messages in, bytes in, messages out, bytes out, bytes replicated) of all partitions, of which each is there by name
    and by id."""
