"""How a log grows, in lists and dictionaries: where a batch goes, what indexes and producers know of it, what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog._speed.log.batch import Header, walk
from tidelog.config import TopicConfig

OFFSETS_MAX = SEQUENCE_MAX = (1 << 31) - 1
BATCHES_KEPT = 5


def batches_with_entries(sizes: list[int], interval_bytes: int) -> list[int]:
    """The numbers of the batches that the indexes of a segment have entries of, from the sizes of all its batches."""
    numbers, since = [], 0
    for number, size in enumerate(sizes):
        if since > interval_bytes:
            numbers.append(number)
            since = 0
        since += size
    return numbers


@dataclass
class ReferenceSegment:
    base: int
    created_ms: int
    data: bytearray = field(default_factory=bytearray)
    end: int = 0
    first_timestamp: int = -1
    max_timestamp: int = -1
    max_timestamp_offset: int = 0
    since_index: int = 0
    index: list[tuple[int, int]] = field(default_factory=list)
    time_index: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.end = self.max_timestamp_offset = self.base

    def index_is_full(self, config: TopicConfig) -> bool:
        rooms = [(self.index, 8), (self.time_index, 12)]
        return any(len(entries) >= max(2, config.segment_index_bytes // size) - 1 for entries, size in rooms)

    def offset_index_is_full(self, config: TopicConfig) -> bool:
        return len(self.index) >= max(2, config.segment_index_bytes // 8) - 1

    def note_time(self) -> None:
        if self.max_timestamp > (self.time_index[-1][0] if self.time_index else -1):
            self.time_index.append((self.max_timestamp, self.max_timestamp_offset))

    def place(self, data: bytes, max_timestamp: int, max_timestamp_offset: int, config: TopicConfig) -> None:
        position, headers, interval = len(self.data), walk(data), config.index_interval_bytes
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, max_timestamp_offset
        due = self.since_index > interval
        if due:
            self.index.append((headers[0].base_offset, position))
            self.since_index = 0
        if len(headers) == 1 or not (due or len(data) > interval):
            self.since_index += len(data)
        else:
            for header in headers:
                if self.since_index > interval and header.position and not self.offset_index_is_full(config):
                    self.index.append((header.base_offset, position + header.position))
                    self.since_index = 0
                self.since_index += header.size
        if due:
            self.note_time()
        if not self.data or self.first_timestamp < 0:
            self.first_timestamp = max_timestamp
        self.data += data
        self.end = headers[-1].last_offset + 1


@dataclass
class ReferenceProducer:
    epoch: int
    next_sequence: int = 0
    transaction_start: int = -1
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)


class ReferenceAppends:
    def __init__(self, config: TopicConfig, now_ms: int) -> None:
        self.config = config
        self.now_ms = now_ms
        self.next = 0
        self.segments = [ReferenceSegment(0, now_ms)]
        self.epochs: list[tuple[int, int]] = []
        self.producers: dict[int, ReferenceProducer] = {}

    def verdict(self, header: Header) -> str | int:
        """new, the offset of the first copy, or why it is refused."""
        producer, first = self.producers.get(header.producer_id), header.base_sequence
        if producer is None:
            return "new"
        if header.producer_epoch < producer.epoch:
            return "older epoch"
        if header.producer_epoch > producer.epoch:
            if first != 0:
                return "gap"
        elif first != producer.next_sequence:
            copies = [batch[2] for batch in producer.batches if batch[:2] == (first, header.last_sequence)]
            if not copies:
                return "gap"
            if header.transactional and not 0 <= producer.transaction_start <= copies[0]:
                return "numbers used again"
            return copies[0]
        if producer.transaction_start >= 0 and not header.transactional:
            return "outside of the transaction"
        return "new"

    def append(self, data: bytes, max_timestamp: int, max_timestamp_offset: int, epoch: int) -> str | None:
        """Stamped batches of one epoch; why they are refused."""
        headers = walk(data)
        if headers[0].size > self.config.segment_bytes:
            return "too large"
        last = headers[-1].last_offset
        if self._is_full(len(data), last, max_timestamp):
            self.segments[-1].note_time()
            self.segments.append(ReferenceSegment(headers[0].base_offset, self.now_ms))
        if not self.epochs or self.epochs[-1][0] != epoch:
            self.epochs.append((epoch, headers[0].base_offset))
        self.segments[-1].place(data, max_timestamp, max_timestamp_offset, self.config)
        self.next = last + 1
        return None

    def led(self, epoch: int) -> None:
        """An epoch without records leaves nothing."""
        self.epochs = [known for known in self.epochs if known[1] < self.next] + [(epoch, self.next)]

    def produced(self, header: Header, base: int) -> None:
        producer = self.producers.setdefault(header.producer_id, ReferenceProducer(header.producer_epoch))
        if producer.epoch != header.producer_epoch:
            producer.epoch, producer.batches = header.producer_epoch, []
        last = header.last_sequence
        kept = (header.base_sequence, last, base, base + header.last_offset_delta)
        producer.batches = [*producer.batches, kept][-BATCHES_KEPT:]
        producer.next_sequence = (last + 1) & SEQUENCE_MAX
        if header.transactional and producer.transaction_start < 0:
            producer.transaction_start = base

    def _is_full(self, added: int, last: int, max_timestamp: int) -> bool:
        segment, config = self.segments[-1], self.config
        if last - segment.base > OFFSETS_MAX:
            return True
        if not segment.data:
            return False
        if len(segment.data) + added > config.segment_bytes or segment.index_is_full(config):
            return True
        if segment.first_timestamp >= 0:
            return max_timestamp - segment.first_timestamp > config.segment_ms
        return self.now_ms - segment.created_ms > config.segment_ms
