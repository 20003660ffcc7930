"""What retention and compaction leave, as clients see it.

Segments roll by their records' timestamps, so no test waits for time to pass.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.batches import Record, batch, now_ms
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, list_offset, read_all, values

LATEST, EARLIEST = -1, -2
HOUR_MS = 3_600_000
SECONDS = 40

ROLLING = {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
COMPACTED = ROLLING | {"cleanup.policy": "compact"}


class Writer:
    """Appends batches whose timestamps are far enough apart to begin a new segment each time `roll` is called."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.connection, self.topic = connection, topic
        self.time = now_ms() - HOUR_MS

    def write(self, *pairs: tuple[bytes, bytes | None], codec: str = "none") -> int:
        self.time += 1
        records = [Record(value, key) for key, value in pairs]
        return append(self.connection, self.topic, batch(records, codec=codec, base_timestamp=self.time))

    def roll(self) -> int:
        """What was written so far is no longer in the active segment."""
        self.time += 5_000
        return self.write((b"~", b"~"))


def contents(connection: Connection, topic: str) -> dict[bytes | None, list[tuple[int, bytes | None]]]:
    """key -> (offset, value) of every record left, the writers' own `~` excepted."""
    found: dict[bytes | None, list[tuple[int, bytes | None]]] = {}
    for offset, record in everything(connection, topic):
        if record.key != b"~":
            found.setdefault(record.key, []).append((offset, record.value))
    return found


def everything(connection: Connection, topic: str) -> list[tuple[int, Record]]:
    """Retention may move the start at any time: then it is read again from there."""
    while True:
        start = list_offset(connection, topic, EARLIEST).offset
        try:
            return read_all(connection, topic, start=start)
        except AssertionError:
            if list_offset(connection, topic, EARLIEST).offset == start:
                raise


@pytest.mark.parametrize(("keep_mib", "segments_left"), [(1, 2), (3, 4)])
def test_retention_by_size_removes_the_oldest_segments_it_can_spare(
    keep_mib: int, segments_left: int, connection: Connection, topic: Any
) -> None:
    known = topic(config={"segment.bytes": str(1 << 20), "retention.bytes": str(keep_mib << 20)})
    for index in range(12):  # two to a segment
        append(connection, known, batch([b"%d" % index, bytes(500_000)]))
    first = 12 - 2 * segments_left
    wait_until(
        lambda: list_offset(connection, known, EARLIEST).offset == 2 * first, SECONDS, "the log start moved"
    )
    assert list_offset(connection, known, LATEST).offset == 24
    assert values(connection, known, start=2 * first)[::2] == [b"%d" % index for index in range(first, 12)]


def test_retention_by_time_goes_by_the_records_timestamps(connection: Connection, topic: Any) -> None:
    known = topic(config={"retention.ms": "60000"})
    append(connection, known, batch([b"old"], base_timestamp=now_ms() - HOUR_MS))
    wait_until(
        lambda: list_offset(connection, known, EARLIEST).offset == 1, SECONDS, "the old record is gone"
    )
    assert append(connection, known, batch([b"new"])) == 1
    assert values(connection, known, start=1) == [b"new"]


def test_retention_spares_segments_with_a_young_record(connection: Connection, topic: Any) -> None:
    spared = topic(config={"retention.ms": "600000"})
    gone = topic(config={"retention.ms": "600000"})
    for known in (spared, gone):
        append(connection, known, batch([b"old"], base_timestamp=now_ms() - HOUR_MS))
        if known is spared:
            append(connection, known, batch([b"young"]))
    wait_until(lambda: list_offset(connection, gone, EARLIEST).offset == 1, SECONDS, "retention has run")
    assert values(connection, spared) == [b"old", b"young"]


def test_retention_can_be_shortened_later(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"old"], base_timestamp=now_ms() - HOUR_MS))
    change = [{"name": "retention.ms", "value": "60000", "config_operation": 0}]
    wanted = [{"resource_type": 2, "resource_name": known, "configs": change}]
    connection.call("incremental_alter_configs", 1, resources=wanted)
    wait_until(
        lambda: list_offset(connection, known, EARLIEST).offset == 1, SECONDS, "the old record is gone"
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compaction_keeps_the_last_value_of_each_key(codec: str, connection: Connection, topic: Any) -> None:
    known = topic(config=COMPACTED)
    writer = Writer(connection, known)
    for generation in range(5):
        pairs = [(b"k%d" % key, b"%d-%d" % (key, generation)) for key in range(10)]
        first = writer.write(*pairs, codec=codec)
    writer.roll()
    expected = {b"k%d" % key: [(first + key, b"%d-4" % key)] for key in range(10)}
    wait_until(lambda: contents(connection, known) == expected, SECONDS, "only the last values are left")
    assert list_offset(connection, known, LATEST).offset == 51
    assert list_offset(connection, known, EARLIEST).offset == 0


def test_what_is_left_keeps_its_offset_timestamp_and_headers(connection: Connection, topic: Any) -> None:
    known = topic(config=COMPACTED)
    writer = Writer(connection, known)
    kept = Record(b"kept", b"a", (("h", b"1"),), 7)
    records = [Record(b"x", b"b"), kept, Record(b"y", b"b")]
    append(connection, known, batch(records, base_timestamp=writer.time))
    writer.write((b"b", b"z"))
    writer.roll()
    wait_until(
        lambda: contents(connection, known) == {b"a": [(1, b"kept")], b"b": [(3, b"z")]},
        SECONDS,
        "it was compacted",
    )
    offset, found = next((o, r) for o, r in read_all(connection, known) if r.key == b"a")
    assert (offset, found.value, found.headers) == (1, b"kept", (("h", b"1"),))
    assert list_offset(connection, known, writer.time - 1).error_code == 0


def test_a_tombstone_removes_its_key_and_then_itself(connection: Connection, topic: Any) -> None:
    known = topic(config=COMPACTED | {"delete.retention.ms": "0"})
    writer = Writer(connection, known)
    writer.write((b"dead", b"1"), (b"alive", b"2"))
    writer.write((b"dead", None))
    writer.roll()

    def dead_is_gone() -> bool:
        writer.roll()  # tombstones go in a later pass than the one that first sees them
        return set(contents(connection, known)) == {b"alive"}

    wait_until(dead_is_gone, SECONDS, "the tombstone is gone", every=0.5)


def test_a_tombstone_stays_for_its_retention(connection: Connection, topic: Any) -> None:
    known = topic(config=COMPACTED | {"delete.retention.ms": "86400000"})
    writer = Writer(connection, known)
    writer.write((b"dead", b"1"))
    writer.write((b"dead", None))
    writer.roll()
    wait_until(lambda: contents(connection, known) == {b"dead": [(1, None)]}, SECONDS, "the value is gone")


def test_the_compaction_lag_protects_young_records(connection: Connection, topic: Any) -> None:
    lagging = topic(config=COMPACTED | {"min.compaction.lag.ms": str(24 * HOUR_MS)})
    eager = topic(config=COMPACTED)
    for known in (lagging, eager):
        writer = Writer(connection, known)
        writer.write((b"k", b"1"))
        writer.write((b"k", b"2"))
        writer.roll()
    wait_until(lambda: contents(connection, eager) == {b"k": [(1, b"2")]}, SECONDS, "the other was compacted")
    assert contents(connection, lagging) == {b"k": [(0, b"1"), (1, b"2")]}


def test_the_active_segment_is_not_compacted(connection: Connection, topic: Any) -> None:
    known = topic(config=COMPACTED)
    writer = Writer(connection, known)
    writer.write((b"k", b"1"))
    writer.write((b"k", b"2"))
    writer.roll()
    writer.write((b"j", b"1"))
    writer.write((b"j", b"2"))
    wait_until(
        lambda: contents(connection, known)[b"k"] == [(1, b"2")], SECONDS, "the closed segment was compacted"
    )
    assert contents(connection, known)[b"j"] == [(3, b"1"), (4, b"2")]


def test_compact_and_delete_do_both(connection: Connection, topic: Any) -> None:
    known = topic(config=ROLLING | {"cleanup.policy": "compact,delete", "retention.ms": str(2 * HOUR_MS)})
    writer = Writer(connection, known)
    writer.time -= 24 * HOUR_MS
    writer.write((b"expired", b"1"))
    writer.roll()
    wait_until(lambda: contents(connection, known) == {}, SECONDS, "retention has run")
    writer.time = now_ms() - HOUR_MS
    writer.write((b"k", b"1"))
    writer.write((b"k", b"2"))
    writer.roll()
    wait_until(lambda: contents(connection, known) == {b"k": [(3, b"2")]}, SECONDS, "compaction has run")
    assert list_offset(connection, known, EARLIEST).offset > 0


def test_a_reader_in_the_middle_of_a_compacted_range_goes_on(connection: Connection, topic: Any) -> None:
    known = topic(config=COMPACTED)
    writer = Writer(connection, known)
    for value in range(20):
        writer.write((b"k", b"%d" % value))
    writer.roll()
    wait_until(lambda: contents(connection, known) == {b"k": [(19, b"19")]}, SECONDS, "it was compacted")
    for start in (0, 5, 19):
        assert values(connection, known, start=start)[0] == b"19"
