"""Which batches a leader takes from a producer, and in what form they go into the log.

Pure: bytes, settings and the time in; bytes or an error out.  Records are walked natively when they are not
compressed; compressed ones are opened only where a setting depends on what is inside (keys of a compacted topic,
limits on timestamps, schemas, another codec).  Decompression stops at the bytes that the topic's rules allow, so that a
small batch cannot take much memory or time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog import errors
from tidelog._speed.log.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_SIZE,
    LENGTH_AT,
    MAGIC_AT,
    PREFIX_SIZE,
    Header,
    crc_ok,
    header_at,
    stamp_append_time,
)
from tidelog._speed.log.crc32c import crc32c
from tidelog._speed.log.records import check, keyless, untimely
from tidelog._speed.log.writer import replace_records
from tidelog.config import TopicConfig
from tidelog.record.codecs import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    ExpandsFurther,
    codec_named,
    compress,
    decompress,
)
from tidelog.record.conditions import Expectation, expectations

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = 2
EXPANSION_MAX = 32
"""What records may expand to, in max.message.bytes of their topic..."""
EXPANDED_BYTES_MIN = 32 << 20
"""...and what they may expand to in any case.  Kafka has no such bound, and opens every batch on a thread of its own."""
RECORDS_TOLD_MAX = 1000  # records at fault that an answer lists: a batch may have millions
RECORD_BYTES_MIN = 7
_CODEC_BITS = 0x07
OLD_SIZE_MIN = 14  # of a message in the formats before batches
_CODEC_LAST = 4
_LOG_APPEND_TIME = 0x08
_MAX_TIMESTAMP_AT = 35
_NO_LIMIT = (1 << 63) - 1
NO_TIMESTAMP = -1


class Rules(NamedTuple):
    """A topic's settings in the form the check needs, worked out once and not for every batch."""

    batch_bytes_max: int
    append_time: bool
    keys_required: bool
    codec: Codec | None  # None: as the producer made it
    codec_level: int | None
    before_ms_max: int
    after_ms_max: int
    validated: bool = False
    """Schemas are checked before batches come here: not by a way that leaves that out."""
    expanded_bytes_max: int = DECOMPRESSED_BYTES_MAX
    admissions: int = 0
    """The number of share groups that may refuse batches, because the topic is their queue of bounded length."""
    conditional: bool = False
    """Headers of records say what the partition has to be like."""

    @staticmethod
    def of(config: TopicConfig) -> Rules:
        name = config.compression_type
        level: int | None = getattr(config, f"compression_{name}_level", None)
        codec = None if name == "producer" else codec_named("none" if name == "uncompressed" else name)
        batch_bytes_max = config.max_message_bytes
        expanded_bytes_max = min(
            max(EXPANSION_MAX * batch_bytes_max, EXPANDED_BYTES_MIN), DECOMPRESSED_BYTES_MAX
        )
        return Rules(
            batch_bytes_max=batch_bytes_max,
            append_time=config.message_timestamp_type == "LogAppendTime",
            keys_required="compact" in config.cleanup_policy,
            codec=codec,
            codec_level=level,
            before_ms_max=config.message_timestamp_before_max_ms,
            after_ms_max=config.message_timestamp_after_max_ms,
            validated=config.confluent_key_schema_validation or config.confluent_value_schema_validation,
            # Stored without compression, the batch must still be within its own bound.
            expanded_bytes_max=batch_bytes_max if codec is Codec.NONE else expanded_bytes_max,
            admissions=len(set(config.queue_groups)) if config.queue_overflow == "reject-publish" else 0,
            conditional=config.conditional_append_enable,
        )

    @property
    def plain(self) -> bool:
        """Nothing is changed, and nothing inside compressed batches matters: `sound` alone can say yes."""
        return (
            not self.append_time
            and not self.keys_required
            and self.codec is None
            and self.before_ms_max == _NO_LIMIT
            and not self.validated
            and not self.admissions
            and not self.conditional
        )

    def opens(self, codec: int) -> bool:
        """Whether batches under this codec are opened."""
        return bool(codec) and (
            self.keys_required
            or self.before_ms_max != _NO_LIMIT
            or self.validated
            or self.conditional
            or self.recodes(codec)
        )

    def recodes(self, codec: int) -> bool:
        return self.codec is not None and self.codec != codec


class KeylessRecords(errors.InvalidRecord):
    """`records` says which ones of the batch, and why, for the answer to the producer."""

    def __init__(self, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(message)
        self.records = records


class UntimelyRecords(errors.InvalidTimestamp):
    """As `KeylessRecords`; `records` is empty when the batch was not opened."""

    def __init__(self, message: str, records: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.records = list(records)


class Accepted(NamedTuple):
    data: memoryview
    header: Header
    max_timestamp_at: int
    expected: Sequence[Expectation] = ()
    """What each record expects, where the topic looks at that."""


def accept(
    data: memoryview,
    rules: Rules,
    now_ms: int,
    expanded_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    look: Callable[[Buffer, int], None] | None = None,
) -> Accepted:
    """The one batch of a produce request, checked, and changed where the topic's settings ask for it.

    `data` is written to: log-append time is stamped in place, and so is the largest timestamp of the records where
    the producer told another.  ExpandsFurther: nothing was changed, and the records expand to more than
    `expanded_bytes_max`, though the topic may allow it.  `look` is shown the records of a batch that is opened, and how
    many there are.

    For topics whose rules are `plain`, `_speed.acceptance.sound` says the same of good batches, faster."""
    header = _sound_header(data, rules)
    codec = header.compression
    max_timestamp, max_timestamp_at = header.max_timestamp, header.last_offset_delta
    packed = data[HEADER_SIZE:]
    section: bytes | memoryview = packed
    expected: Sequence[Expectation] = ()
    if codec == 0 or rules.opens(codec):
        if codec:
            section = _expanded(packed, header, rules, expanded_bytes_max)
        largest, max_timestamp_at, smallest = check(section, header.count, False)
        max_timestamp = header.base_timestamp + largest
        if look is not None:
            look(section, header.count)
        if rules.keys_required:
            _check_keys(section, header)
        if rules.conditional:
            if header.transactional:
                raise errors.InvalidRecord("a topic with conditional.append.enable takes no transactions")
            expected = expectations(section, header.count)
        if not rules.append_time and not _timely(header, smallest, largest, rules, now_ms):
            raise _untimely(section, header, rules, now_ms)
    elif not rules.append_time and header.max_timestamp - now_ms > rules.after_ms_max:
        raise UntimelyRecords(f"timestamp {header.max_timestamp} is too far ahead of the broker's time")
    if rules.recodes(codec):
        data, header = _in_codec(data, section, header, rules)
    if rules.append_time:
        stamp_append_time(data, 0, now_ms)
        fresh = header_at(data)
        assert fresh is not None
        return Accepted(data, fresh, header.last_offset_delta, expected)
    if header.log_append_time or header.max_timestamp != max_timestamp:
        header = _stamp_create_time(data, max(min(max_timestamp, _NO_LIMIT), -_NO_LIMIT))
    return Accepted(data, header, max_timestamp_at, expected)


def _expanded(packed: memoryview, header: Header, rules: Rules, bytes_max: int) -> bytes | memoryview:
    limit = rules.expanded_bytes_max
    if header.count > limit // RECORD_BYTES_MIN:
        raise errors.InvalidRecord(f"{header.count} records do not fit into {limit} bytes")
    try:
        return decompress(header.compression, packed, min(limit, bytes_max))
    except ExpandsFurther:
        if bytes_max < limit:
            raise
        allowed = (
            "the topic's own codec is none, and its"
            if rules.codec is Codec.NONE
            else f"{EXPANSION_MAX} times max.message.bytes, or {EXPANDED_BYTES_MIN}, is allowed:"
        )
        raise errors.MessageTooLarge(
            f"the records of a batch of {header.size} bytes expand to more than {limit} bytes; "
            f"{allowed} max.message.bytes is {rules.batch_bytes_max}: send smaller batches"
        ) from None


def _sound_header(data: memoryview, rules: Rules) -> Header:
    header = header_at(data)
    if header is None or header.size > len(data) or header.magic != MAGIC:
        raise _no_batch(data)
    if header.size < len(data):
        raise errors.InvalidRecord("more than one batch for a partition in a produce request")
    if header.size > rules.batch_bytes_max:
        raise errors.MessageTooLarge(
            f"a batch of {header.size} bytes: max.message.bytes of the topic is {rules.batch_bytes_max}"
        )
    if not crc_ok(data):
        raise errors.CorruptMessage("the checksum of the batch does not match its bytes")
    if header.base_offset != 0:
        raise errors.InvalidRecord(
            f"the base offset is {header.base_offset}: producers send 0, the broker sets it"
        )
    if header.count <= 0 or header.last_offset_delta != header.count - 1:
        raise errors.InvalidRecord(
            f"{header.count} records announced, but the last offset is {header.last_offset_delta} past the first"
        )
    if header.control:
        raise errors.InvalidRecord("control batches are written by brokers, not by producers")
    if header.transactional and header.producer_id < 0:
        raise errors.InvalidRecord("a batch in a transaction needs a producer id")
    if header.compression > _CODEC_LAST:
        raise errors.UnsupportedCompressionType(f"compression codec {header.compression} is not known")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise errors.InvalidRecord("a batch with a producer id needs an epoch and a sequence number")
    if header.log_append_time and rules.append_time:
        raise UntimelyRecords("log-append time is stamped by brokers, not by producers")
    return header


def _no_batch(data: memoryview) -> errors.TidelogError:
    """Which of Kafka's errors bytes get that are no batch: what is merely cut is invalid, what cannot be is corrupt."""
    cut = errors.InvalidRecord("the records are cut, or there are none")
    if len(data) < PREFIX_SIZE:
        return cut
    size = int.from_bytes(data[LENGTH_AT : LENGTH_AT + 4], signed=True)
    if size < OLD_SIZE_MIN:
        return errors.CorruptMessage(f"a batch of {size} bytes cannot be")
    if len(data) <= MAGIC_AT:
        return cut
    magic = data[MAGIC_AT]
    if magic > MAGIC:
        return errors.CorruptMessage(f"message format {magic} does not exist")
    if magic < MAGIC:
        return errors.InvalidRecord(
            f"message format {magic}: only record batches of format {MAGIC} are taken"
        )
    if size + PREFIX_SIZE > len(data):
        return cut
    return errors.CorruptMessage(f"a batch of {size} bytes has no room for its own header")


def _check_keys(section: bytes | memoryview, header: Header) -> None:
    bad = keyless(section, header.count, RECORDS_TOLD_MAX)
    if bad:
        raise KeylessRecords(
            "records of a compacted topic need a key",
            [(index, "a record of a compacted topic needs a key") for index in bad],
        )


def _timely(header: Header, smallest: int, largest: int, rules: Rules, now_ms: int) -> bool:
    first, last = header.base_timestamp + smallest, header.base_timestamp + largest
    return last - now_ms <= rules.after_ms_max and (
        first == NO_TIMESTAMP or now_ms - first <= rules.before_ms_max
    )


def _untimely(section: bytes | memoryview, header: Header, rules: Rules, now_ms: int) -> UntimelyRecords:
    bad = []
    oldest = max(now_ms - rules.before_ms_max, -_NO_LIMIT)
    newest = min(now_ms + rules.after_ms_max, _NO_LIMIT)
    for index, timestamp in untimely(
        section, header.count, header.base_timestamp, oldest, newest, RECORDS_TOLD_MAX
    ):
        if timestamp > newest:
            limit = f"message.timestamp.after.max.ms ({rules.after_ms_max}) past"
        else:
            limit = f"message.timestamp.before.max.ms ({rules.before_ms_max}) before"
        bad.append((index, f"timestamp {timestamp} is more than {limit} the broker's time"))
    return UntimelyRecords(bad[0][1] if bad else "timestamps are too far from the broker's time", bad)


def _stamp_create_time(data: memoryview, max_timestamp: int) -> Header:
    """What readers by time rely on is what the records say: a claim of the header's own would hide them, or keep
    their segment from expiring."""
    attributes = int.from_bytes(data[ATTRIBUTES_AT : ATTRIBUTES_AT + 2]) & ~_LOG_APPEND_TIME
    data[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = attributes.to_bytes(2)
    data[_MAX_TIMESTAMP_AT : _MAX_TIMESTAMP_AT + 8] = max_timestamp.to_bytes(8, signed=True)
    data[CRC_AT : CRC_AT + 4] = crc32c(data[ATTRIBUTES_AT:]).to_bytes(4)
    header = header_at(data)
    assert header is not None
    return header


def _in_codec(
    data: memoryview, section: bytes | memoryview, header: Header, rules: Rules
) -> tuple[memoryview, Header]:
    assert rules.codec is not None
    packed = compress(rules.codec, section, rules.codec_level)
    attributes = header.attributes & ~_CODEC_BITS | rules.codec
    changed = memoryview(bytearray(replace_records(data, packed, attributes)))
    fresh = header_at(changed)
    assert fresh is not None
    if fresh.size > rules.batch_bytes_max:
        raise errors.MessageTooLarge(
            f"{fresh.size} bytes under the topic's own codec: its max.message.bytes is {rules.batch_bytes_max}"
        )
    return changed, fresh
