"""Which batches a leader takes from a producer, and in what form they go into the log.

Pure: bytes, settings and the time in; bytes or an error out.  Records are walked natively when they are not
compressed; compressed ones are opened only where a setting depends on what is inside (keys of a compacted topic,
limits on timestamps, another codec)."""

from __future__ import annotations

from typing import NamedTuple

from tidelog import errors
from tidelog._speed.batch import HEADER_SIZE, Header, crc_ok, header_at, stamp_append_time
from tidelog._speed.records import check
from tidelog.config import TopicConfig
from tidelog.record.codecs import Codec, codec_named, decompress

MAGIC = 2
_CODEC_LAST = 4
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

    @staticmethod
    def of(config: TopicConfig) -> Rules:
        name = config.compression_type
        level: int | None = getattr(config, f"compression_{name}_level", None)
        return Rules(
            batch_bytes_max=config.max_message_bytes,
            append_time=config.message_timestamp_type == "LogAppendTime",
            keys_required="compact" in config.cleanup_policy,
            codec=None
            if name == "producer"
            else codec_named("none" if name == "uncompressed" else name),
            codec_level=level,
            before_ms_max=config.message_timestamp_before_max_ms,
            after_ms_max=config.message_timestamp_after_max_ms,
        )

    @property
    def plain(self) -> bool:
        """Nothing is changed, and nothing inside compressed batches matters: `sound` alone can say yes."""
        return (
            not self.append_time
            and not self.keys_required
            and self.codec is None
            and self.before_ms_max == _NO_LIMIT
        )


class Accepted(NamedTuple):
    data: memoryview
    header: Header
    max_timestamp_at: int


def accept(data: memoryview, rules: Rules, now_ms: int) -> Accepted:
    """The one batch of a produce request, checked, and changed where the topic's settings ask for it.

    `data` is written to: log-append time is stamped in place.  For topics whose rules are `plain`,
    `_speed.acceptance.sound` says the same of good batches, faster."""
    header = _sound_header(data, rules)
    codec = header.compression
    max_delta_at = header.last_offset_delta
    looks_inside = rules.keys_required or rules.before_ms_max != _NO_LIMIT
    if codec == 0 or looks_inside:
        section: bytes | memoryview = data[HEADER_SIZE:]
        if codec:
            section = decompress(codec, section)
        largest, max_delta_at, smallest = check(section, header.count, rules.keys_required)
        _check_times(header.base_timestamp + smallest, header.base_timestamp + largest, rules, now_ms)
    else:
        _check_times(header.base_timestamp, header.max_timestamp, rules, now_ms)
    if rules.codec is not None and rules.codec != codec:
        data, header = _in_codec(data, rules.codec, rules.codec_level)
    if rules.append_time:
        stamp_append_time(data, 0, now_ms)
        fresh = header_at(data)
        assert fresh is not None
        return Accepted(data, fresh, header.last_offset_delta)
    return Accepted(data, header, max_delta_at)


def _sound_header(data: memoryview, rules: Rules) -> Header:
    header = header_at(data)
    if header is None or header.size > len(data):
        raise errors.CorruptMessage("the records are cut, or do not start with a batch")
    if header.magic != MAGIC:
        raise errors.InvalidRecord(
            f"message format {header.magic}: only record batches of format 2 are taken"
        )
    if header.size < len(data):
        raise errors.InvalidRecord("more than one batch for a partition in a produce request")
    if header.size > rules.batch_bytes_max:
        raise errors.MessageTooLarge(
            f"a batch of {header.size} bytes: max.message.bytes of the topic is {rules.batch_bytes_max}"
        )
    if not crc_ok(data):
        raise errors.CorruptMessage("the checksum of the batch does not match its bytes")
    if header.count <= 0 or header.last_offset_delta != header.count - 1:
        raise errors.InvalidRecord(
            f"{header.count} records announced, but the last offset is {header.last_offset_delta} past the first"
        )
    if header.control:
        raise errors.InvalidRecord("control batches are written by brokers, not by producers")
    if header.compression > _CODEC_LAST:
        raise errors.UnsupportedCompressionType(f"compression codec {header.compression} is not known")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise errors.InvalidRecord("a batch with a producer id needs an epoch and a sequence number")
    return header


def _check_times(smallest: int, largest: int, rules: Rules, now_ms: int) -> None:
    if rules.append_time:
        return
    if largest - now_ms > rules.after_ms_max:
        raise errors.InvalidTimestamp(
            f"timestamp {largest} is more than message.timestamp.after.max.ms ({rules.after_ms_max}) past the broker's"
        )
    if smallest != NO_TIMESTAMP and now_ms - smallest > rules.before_ms_max:
        raise errors.InvalidTimestamp(
            f"timestamp {smallest} is more than message.timestamp.before.max.ms ({rules.before_ms_max}) before the broker's"
        )


def _in_codec(data: memoryview, codec: Codec, level: int | None) -> tuple[memoryview, Header]:
    from tidelog.record.builder import recompress

    changed = memoryview(bytearray(recompress(data, codec, level)))
    header = header_at(changed)
    assert header is not None
    return changed, header
