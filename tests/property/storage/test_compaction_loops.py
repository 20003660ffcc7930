"""The native passes of compaction against the plain ones."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import records as plain
from tests.reference.compaction import PlainBatch, last_offsets, sift
from tests.reference.keymap import PlainKeyMap, siphash128
from tidelog._speed.log import compaction as native
from tidelog._speed.log.batch import HEADER_SIZE, crc_ok, header_at, walk
from tidelog._speed.log.keymap import KeyMap

SEED = bytes(range(16))
NOW_MS, RETENTION_MS = 1_000_000, 5_000
KEYS = st.sampled_from([b"a", b"b", b"c", b"", b"a much longer key than the others", None])
VALUES = st.none() | st.binary(max_size=8)


@given(
    st.lists(st.tuples(st.binary(max_size=30), st.integers(0, 2**60)), max_size=60),
    st.binary(min_size=16, max_size=16),
)
def test_the_map_remembers_what_a_dict_does(puts: list[tuple[bytes, int]], seed: bytes) -> None:
    keys, expected = KeyMap(1 << 20, seed), PlainKeyMap(seed)
    for key, offset in puts:
        keys.put(key, offset)
        expected.put(key, offset)
    for key, _ in [*puts, (b"never put", 0)]:
        assert keys.fingerprint(key) == siphash128(seed, key)
        found = expected.get(key)
        assert keys.get(key) == (-1 if found is None else found)


@st.composite
def logs(draw: st.DrawFn) -> list[PlainBatch]:
    batches, offset = [], draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(0, 8))):
        base = offset
        records = []
        for _ in range(draw(st.integers(0, 5))):
            offset += draw(st.integers(0, 2))
            records.append(
                plain.PlainRecord(draw(st.integers(-500, 500)), offset - base, draw(KEYS), draw(VALUES))
            )
            offset += 1
        offset = max(offset + draw(st.integers(0, 2)), base + 1)
        horizon = draw(st.booleans())
        base_timestamp = (
            NOW_MS + draw(st.sampled_from([-1, 0, 1, 10])) if horizon else draw(st.integers(0, 2**41))
        )
        batches.append(PlainBatch(base, offset - 1 - base, base_timestamp, horizon, records))
    return batches


def encoded(batch: PlainBatch) -> bytes:
    data = plain.encode_batch(
        batch.records or [plain.PlainRecord(0, 0, None, None)],
        batch.base_timestamp,
        attributes=0x40 if batch.horizon else 0,
        base_offset=batch.base_offset,
    )
    if not batch.records:
        data = native.empty_batch(data)
    covered = data[21:23] + batch.last_delta.to_bytes(4, "big") + data[27:]
    return data[:17] + plain.crc32c(covered).to_bytes(4, "big") + covered


def decoded(data: memoryview) -> list[PlainBatch]:
    found = []
    for header in walk(data):
        section = bytes(data[header.position + HEADER_SIZE : header.position + header.size])
        records = plain.decode_records(section, header.count)
        assert crc_ok(data, header.position)
        if records and not header.delete_horizon:
            largest = max(header.base_timestamp + record.timestamp_delta for record in records)
            assert header.max_timestamp == largest
        found.append(
            PlainBatch(
                header.base_offset,
                header.last_offset_delta,
                header.base_timestamp,
                header.delete_horizon,
                records,
            )
        )
    return found


@settings(max_examples=300)
@given(logs(), st.data())
def test_both_passes_agree_with_plain_code(batches: list[PlainBatch], data: st.DataObject) -> None:
    log = b"".join(encoded(batch) for batch in batches)
    after = batches[-1].base_offset + batches[-1].last_delta + 1 if batches else 0
    start = data.draw(st.integers(0, after))
    end = data.draw(st.integers(start, after))
    keys = KeyMap(1 << 16, SEED)
    assert native.whole_batches(log) == len(log)
    assert native.note_batches(keys, log, start, True) == (len(log), native.END, after if batches else -1)
    last = last_offsets(batches, start)
    assert {key: keys.get(key) for key in last} == last
    out = bytearray(2 * len(log) + 1000)
    done, written, why, seen, kept, without_key = native.sift_batches(
        keys, log, out, end, -1, NOW_MS, RETENTION_MS, True
    )
    expected = [sift(batch, last, end, NOW_MS, RETENTION_MS) for batch in batches]
    assert (done, why) == (len(log), native.END)
    assert decoded(memoryview(out)[:written]) == [batch for batch in expected if batch.records]
    assert seen == sum(len(batch.records) for batch in batches)
    assert kept == sum(len(batch.records) for batch in expected)
    unkeyed = (b.offset(r) < end for b in batches for r in b.records if r.key is None)
    assert without_key == sum(unkeyed)


@given(logs(), st.integers(0, 400))
def test_a_small_output_stops_in_front_of_the_batch_that_does_not_fit(
    batches: list[PlainBatch], room: int
) -> None:
    log = b"".join(encoded(batch) for batch in batches)
    keys = KeyMap(1 << 16, SEED)
    out, result, at = bytearray(room), b"", 0
    while at < len(log):
        done, written, why, *_ = native.sift_batches(
            keys, memoryview(log)[at:], out, 2**60, -1, NOW_MS, RETENTION_MS, True
        )
        result += bytes(out[:written])
        at += done
        if why == native.FULL and done == 0:
            header = header_at(log, at)
            assert header is not None
            out = bytearray(header.size + 14 * header.count)
    whole = bytearray(2 * len(log) + 1000)
    _, written, *_ = native.sift_batches(keys, log, whole, 2**60, -1, NOW_MS, RETENTION_MS, True)
    assert result == whole[:written]


@settings(max_examples=300)
@given(logs(), st.data())
def test_damage_is_never_sealed_with_a_fresh_crc(batches: list[PlainBatch], data: st.DataObject) -> None:
    log = bytearray(b"".join(encoded(batch) for batch in batches))
    if not log:
        return
    sizes = [len(encoded(batch)) for batch in batches]
    place = data.draw(st.integers(0, len(log) - 1))
    log[place] ^= data.draw(st.integers(1, 255))
    hit, start = 0, 0
    while start + sizes[hit] <= place:
        start += sizes[hit]
        hit += 1
    keys = KeyMap(1 << 16, SEED)
    at, why, _ = native.note_batches(keys, log, 0, True)
    out = bytearray(2 * len(log) + 1000)
    done, _, sifted_why, *_ = native.sift_batches(keys, log, out, 2**60, -1, NOW_MS, RETENTION_MS, True)
    if place - start >= 16:  # what the CRC or the magic byte covers
        assert (at, why) == (start, native.DAMAGED)
        assert (done, sifted_why) == (start, native.DAMAGED)


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_random_bytes_are_damage_and_nothing_worse(data: bytes) -> None:
    keys = KeyMap(1 << 16, SEED)
    native.whole_batches(data)
    at, why, _ = native.note_batches(keys, data, 0, True)
    assert why == (native.DAMAGED if data else native.END) and at == 0
    assert native.sift_batches(keys, data, bytearray(1000), 9, 9, 9, 9, False)[2] == why
