"""Which segments go."""

from __future__ import annotations

from typing import NamedTuple

from tests.unit.storage.making import FOLDER, NOW_MS, append, batch, fill, make_volume, offsets, open_log
from tidelog.config import TopicConfig
from tidelog.storage.retention import UNLIMITED, deletable

NEVER = (1 << 63) - 1


class Facts(NamedTuple):
    size: int
    time: int

    def age_from(self) -> int:
        return self.time


def count(
    segments: list[tuple[int, int]],
    *,
    now_ms: int = 1000,
    retention_ms: int = UNLIMITED,
    retention_bytes: int = UNLIMITED,
    start: int = 0,
    committed: int = NEVER,
) -> int:
    """Segments are (size, newest time); each holds ten offsets."""
    return deletable(
        [Facts(*each) for each in segments],
        [10 * n for n in range(1, len(segments) + 1)],
        now_ms=now_ms,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        start=start,
        committed=committed,
    )


def test_old_segments_go_up_to_the_first_that_is_young() -> None:
    segments = [(1, 100), (1, 200), (1, 900), (1, 300), (1, 1000)]
    assert count(segments, retention_ms=500) == 2
    assert count(segments, retention_ms=900) == 0
    assert count(segments, retention_ms=899) == 1


def test_all_of_a_log_may_be_too_old() -> None:
    assert count([(1, 100), (1, 200)], retention_ms=500) == 2


def test_an_empty_last_segment_stays() -> None:
    assert count([(1, 100), (0, 200)], retention_ms=500) == 1
    assert count([(0, 0)], retention_ms=1) == 0


def test_segments_go_while_what_is_left_is_large_enough() -> None:
    segments = [(100, 0), (100, 0), (100, 0), (50, 0)]
    assert count(segments, retention_bytes=350) == 0
    assert count(segments, retention_bytes=250) == 1
    assert count(segments, retention_bytes=249) == 1
    assert count(segments, retention_bytes=150) == 2
    assert count(segments, retention_bytes=0) == 4


def test_time_and_size_add_up() -> None:
    assert count([(100, 100), (100, 900), (100, 900)], retention_ms=500, retention_bytes=100) == 2


def test_segments_below_the_start_go_but_never_the_last() -> None:
    segments = [(1, 0), (1, 0), (1, 0)]
    assert count(segments, start=9) == 0
    assert count(segments, start=10) == 1
    assert count(segments, start=30) == 2


def test_nothing_goes_that_is_not_committed() -> None:
    segments = [(1, 100), (1, 100), (1, 100)]
    assert count(segments, retention_ms=1, committed=29) == 2
    assert count(segments, retention_ms=1, committed=9) == 0


def test_an_old_log_is_emptied_and_goes_on_where_it_was() -> None:
    volume = make_volume()
    log = open_log(volume, TopicConfig(segment_bytes=300, retention_ms=1000, file_delete_delay_ms=5000))
    fill(log, 20)
    volume.clock.ms = NOW_MS + 1002  # type: ignore[attr-defined]
    assert log.cutter.apply_retention(committed=20) > 3
    assert (log.start, log.end, log.size, len(log.segments)) == (20, 20, 0, 1)
    append(log, batch(20))
    assert offsets(log) == [20]


def test_deleted_files_keep_their_bytes_for_a_while() -> None:
    volume = make_volume()
    log = open_log(volume, TopicConfig(segment_bytes=300, retention_bytes=500, file_delete_delay_ms=5000))
    fill(log, 20)
    held = log.reader.read(0, 1000, 20)
    assert log.cutter.apply_retention(committed=20) > 0
    assert held is not None
    assert held.file.read(8, held.position) == bytes(8)
    assert any(name.endswith(".deleted") for name in volume.disk.list(FOLDER))
    assert log.roller.trash.take_deleted() == ([], False)
    volume.clock.ms += 5000  # type: ignore[attr-defined]
    paths, last = log.roller.trash.take_deleted()
    assert last
    assert all(path.endswith(".deleted") for path in paths)
    assert len(paths) % 3 == 0


def test_what_was_deleted_before_a_stop_is_gone_after_it() -> None:
    volume = make_volume()
    config = TopicConfig(segment_bytes=300, retention_bytes=500)
    log = open_log(volume, config)
    fill(log, 20)
    log.cutter.apply_retention(committed=20)
    start = log.start
    log.close()
    log = open_log(volume, config)
    assert log.start == start
    assert not any(name.endswith(".deleted") for name in volume.disk.list(FOLDER))


def test_a_compacted_topic_keeps_its_old_segments() -> None:
    volume = make_volume()
    log = open_log(
        volume,
        TopicConfig(
            segment_bytes=300, retention_ms=1, retention_bytes=1, cleanup_policy=frozenset(["compact"])
        ),
    )
    fill(log, 20)
    volume.clock.ms += 1000  # type: ignore[attr-defined]
    assert log.cutter.apply_retention(committed=20) == 0
    log.advance_start(10)
    assert log.cutter.apply_retention(committed=20) > 0


def test_records_below_the_start_are_not_read_any_more() -> None:
    log = open_log(make_volume(), TopicConfig(segment_bytes=300))
    for _ in range(10):
        append(log, batch(log.next, count=3))
    log.advance_start(7)
    assert offsets(log) == list(range(7, 30))
    log.advance_start(5)
    assert log.start == 7
