"""Which batches a leader takes, and what it makes of them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog import errors
from tidelog._speed.log.acceptance import sound
from tidelog._speed.log.batch import crc_ok, header_at
from tidelog._speed.log.crc32c import crc32c
from tidelog.config import TopicConfig
from tidelog.record import Codec, Record, build_batch, read_records
from tidelog.record.codecs import ExpandsFurther
from tidelog.replication.acceptance import RECORDS_TOLD_MAX, Accepted, Rules, accept

NOW = 1_700_000_000_000


def batch(
    *values: bytes | None, codec: Codec = Codec.NONE, key: bytes | None = b"k", **header: int
) -> bytearray:
    records = [Record(0, NOW + at, key, value) for at, value in enumerate(values)]
    return bytearray(build_batch(records, codec=codec, **header))


def patched(data: bytearray, at: int, fmt: str, value: int) -> bytearray:
    struct.pack_into(fmt, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


def take(data: bytearray, **settings: object) -> Accepted:
    return accept(memoryview(data), Rules.of(TopicConfig(**settings)), NOW)  # type: ignore[arg-type]


def test_a_sound_batch_is_taken_as_it_is() -> None:
    data = batch(b"a", b"b")
    before = bytes(data)
    accepted = take(data)
    assert bytes(accepted.data) == before
    assert accepted.header.count == 2
    assert accepted.max_timestamp_at == 1


@pytest.mark.parametrize("size", range(0, 69))
def test_a_cut_batch_is_corrupt(size: int) -> None:
    with pytest.raises(errors.InvalidRecord, match="cut"):
        take(batch(b"a")[:size])


@pytest.mark.parametrize("at", [21, 27, 43, 57, 61, 65])
def test_a_changed_byte_is_corrupt(at: int) -> None:
    data = batch(b"a")
    data[at] ^= 1
    with pytest.raises(errors.CorruptMessage):
        take(data)


@pytest.mark.parametrize(
    ("magic", "error"),
    [
        (0, errors.InvalidRecord),
        (1, errors.InvalidRecord),
        (3, errors.CorruptMessage),
        (-1, errors.CorruptMessage),
    ],
)
def test_other_message_formats_are_refused(magic: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="format"):
        take(patched(batch(b"a"), 16, ">b", magic))


def test_two_batches_are_one_too_many() -> None:
    with pytest.raises(errors.InvalidRecord, match="more than one"):
        take(batch(b"a") + batch(b"b"))


@pytest.mark.parametrize(
    ("at", "fmt", "value"), [(57, ">i", 0), (57, ">i", -1), (57, ">i", 2), (23, ">i", 5), (23, ">i", -1)]
)
def test_a_count_that_does_not_match_the_offsets_is_refused(at: int, fmt: str, value: int) -> None:
    with pytest.raises(errors.InvalidRecord):
        take(patched(batch(b"a"), at, fmt, value))


def test_records_that_are_not_there_are_refused() -> None:
    data = patched(patched(batch(b"a"), 57, ">i", 2), 23, ">i", 1)
    with pytest.raises(errors.InvalidRecord):
        take(data)


def test_a_producer_cannot_write_control_batches() -> None:
    with pytest.raises(errors.InvalidRecord, match="control"):
        take(patched(batch(b"a"), 21, ">h", 0x20))


def test_every_record_at_fault_is_named() -> None:
    records = [Record(0, NOW + 5000 * at, b"k" if at % 2 else None, b"v") for at in range(4)]
    with pytest.raises(errors.InvalidRecord) as keyless:
        take(bytearray(build_batch(records)), cleanup_policy=frozenset(("compact",)))
    assert [index for index, _ in keyless.value.records] == [0, 2]
    with pytest.raises(errors.InvalidTimestamp) as late:
        take(bytearray(build_batch(records)), message_timestamp_after_max_ms=9_999)
    assert [index for index, _ in late.value.records] == [2, 3]


def test_offsets_are_the_brokers_to_give() -> None:
    with pytest.raises(errors.InvalidRecord, match="base offset"):
        take(batch(b"a", base_offset=7))


def test_a_batch_in_a_transaction_has_a_producer() -> None:
    take(batch(b"a", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0))
    with pytest.raises(errors.InvalidRecord, match="producer id"):
        take(batch(b"a", transactional=True))


def test_a_codec_that_nobody_knows_is_refused() -> None:
    with pytest.raises(errors.UnsupportedCompressionType):
        take(patched(batch(b"a"), 21, ">h", 5))


def test_too_large_names_the_setting() -> None:
    with pytest.raises(errors.MessageTooLarge, match=r"max\.message\.bytes"):
        take(batch(bytes(2000)), max_message_bytes=1000)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compacted_topic_wants_keys_also_inside_compressed_batches(codec: Codec) -> None:
    take(batch(b"a", codec=codec), cleanup_policy=frozenset(("compact",)))
    with pytest.raises(errors.InvalidRecord):
        take(batch(b"a", codec=codec, key=None), cleanup_policy=frozenset(("compact",)))


def test_a_time_too_far_ahead_or_behind_is_refused() -> None:
    with pytest.raises(errors.InvalidTimestamp, match="after"):
        accept(memoryview(batch(b"a")), Rules.of(TopicConfig()), NOW - 3_600_001)
    limited = Rules.of(TopicConfig(message_timestamp_before_max_ms=1000))
    accept(memoryview(batch(b"a")), limited, NOW + 1000)
    with pytest.raises(errors.InvalidTimestamp, match="before"):
        accept(memoryview(batch(b"a")), limited, NOW + 1001)


def test_log_append_time_is_stamped_and_the_checksum_renewed() -> None:
    accepted = accept(
        memoryview(batch(b"a", b"b")), Rules.of(TopicConfig(message_timestamp_type="LogAppendTime")), NOW + 9
    )
    assert crc_ok(accepted.data)
    assert accepted.header.log_append_time
    assert accepted.header.max_timestamp == NOW + 9
    assert [record.timestamp for record in read_records(bytes(accepted.data))] == [NOW + 9, NOW + 9]


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("codec", list(Codec))
def test_the_topics_codec_wins_over_the_producers(name: str, codec: Codec) -> None:
    accepted = take(batch(b"a" * 500, b"b" * 500, codec=codec), compression_type=name)
    header = header_at(accepted.data)
    assert header is not None and crc_ok(accepted.data)
    assert header.compression == (0 if name == "uncompressed" else Codec[name.upper()])
    assert [record.value for record in read_records(bytes(accepted.data))] == [b"a" * 500, b"b" * 500]


@pytest.mark.parametrize("claim", [-1, 0, NOW - 1, NOW + 10**9, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize(
    ("codec", "settings"),
    [
        (Codec.NONE, {}),
        (Codec.GZIP, {"cleanup_policy": frozenset({"compact"})}),
        (Codec.GZIP, {"compression_type": "zstd"}),
    ],
)
def test_the_largest_timestamp_is_that_of_the_records(
    codec: Codec, settings: dict[str, object], claim: int
) -> None:
    accepted = take(patched(batch(b"a", b"b", codec=codec), 35, ">q", claim), **settings)
    assert crc_ok(accepted.data)
    assert (accepted.header.max_timestamp, accepted.max_timestamp_at) == (NOW + 1, 1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_log_append_time_is_not_for_producers_to_claim(codec: Codec) -> None:
    def claimed() -> bytearray:
        return patched(batch(b"a", codec=codec), 21, ">h", codec | 0x08)

    accepted = take(claimed())
    assert crc_ok(accepted.data)
    assert not accepted.header.log_append_time
    assert accepted.header.compression == codec
    assert sound(claimed(), 10_000, NOW) is None
    with pytest.raises(errors.InvalidTimestamp, match="stamped by brokers"):
        take(claimed(), message_timestamp_type="LogAppendTime")


def test_a_batch_must_fit_under_the_topics_codec_too() -> None:
    data = batch(b"a" * 5_000, codec=Codec.GZIP)
    assert len(data) < 1_000
    with pytest.raises(errors.MessageTooLarge, match="own codec"):
        take(data, compression_type="uncompressed", max_message_bytes=1_000)


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=9), st.integers(-5000, 5000)), min_size=1, max_size=5),
    st.sampled_from(list(Codec)),
    st.data(),
)
def test_the_fast_verdict_and_the_rules_agree(
    records: list[tuple[bytes | None, int]], codec: Codec, draw: st.DataObject
) -> None:
    made = [Record(0, NOW + delta, key, b"v") for key, delta in records]
    data = bytearray(build_batch(made, codec=codec, producer_id=7, producer_epoch=0, base_sequence=0))
    for _ in range(draw.draw(st.integers(0, 2))):
        data[draw.draw(st.integers(12, len(data) - 1))] = draw.draw(st.integers(0, 255))
    if draw.draw(st.booleans()):
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    rules = Rules.of(TopicConfig(message_timestamp_after_max_ms=1000))
    fast = sound(data, rules.batch_bytes_max, NOW + 1000)
    before = bytes(data)
    try:
        accepted = accept(memoryview(data), rules, NOW)
    except errors.TidelogError:
        assert fast is None
        return
    assert crc_ok(accepted.data)
    assert (fast is None) == (bytes(accepted.data) != before)
    if fast is not None:
        assert fast.max_timestamp_at == accepted.max_timestamp_at
        assert (fast.base_sequence, fast.max_timestamp) == (
            accepted.header.base_sequence,
            accepted.header.max_timestamp,
        )


CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_expand_to_more_than_their_topic_allows_are_refused(codec: Codec) -> None:
    rules = Rules.of(TopicConfig(cleanup_policy=("compact",)))._replace(expanded_bytes_max=100_000)
    accept(memoryview(batch(bytes(90_000), codec=codec)), rules, NOW)
    with pytest.raises(errors.MessageTooLarge, match="100000 bytes"):
        accept(memoryview(batch(bytes(110_000), codec=codec)), rules, NOW)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_is_as_it_was_when_it_expands_further_than_it_may_be_opened_here(codec: Codec) -> None:
    rules = Rules.of(TopicConfig(cleanup_policy=("compact",), message_timestamp_type="LogAppendTime"))
    data = batch(bytes(200_000), codec=codec)
    before = bytes(data)
    with pytest.raises(ExpandsFurther):
        accept(memoryview(data), rules, NOW, expanded_bytes_max=100_000)
    assert data == before
    accept(memoryview(data), rules, NOW)


def test_what_records_may_expand_to_follows_from_the_size_of_batches() -> None:
    assert Rules.of(TopicConfig(max_message_bytes=1000)).expanded_bytes_max == 32 << 20
    assert Rules.of(TopicConfig(max_message_bytes=4 << 20)).expanded_bytes_max == 128 << 20
    assert Rules.of(TopicConfig(max_message_bytes=100 << 20)).expanded_bytes_max == 256 << 20


def test_more_records_than_fit_are_refused_before_they_are_looked_for() -> None:
    rules = Rules.of(TopicConfig(cleanup_policy=("compact",)))._replace(expanded_bytes_max=700)
    data = patched(batch(b"a", codec=Codec.ZSTD), 57, ">i", 101)
    with pytest.raises(errors.InvalidRecord, match="101 records do not fit"):
        accept(memoryview(patched(data, 23, ">i", 100)), rules, NOW)


@pytest.mark.parametrize(
    "settings", [{"cleanup_policy": ("compact",)}, {"message_timestamp_before_max_ms": 1_000}]
)
def test_an_answer_lists_only_so_many_of_the_records_at_fault(settings: dict[str, object]) -> None:
    records = [Record(0, 1_000, None, None)] * (RECORDS_TOLD_MAX + 10)
    with pytest.raises(errors.TidelogError) as refused:
        take(bytearray(build_batch(records)), **settings)
    told = refused.value.records  # type: ignore[attr-defined]
    assert [index for index, _ in told] == list(range(RECORDS_TOLD_MAX))
