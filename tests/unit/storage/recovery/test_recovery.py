"""Coming back after an unclean stop."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.unit.storage.making import (
    FOLDER,
    NOW_MS,
    append,
    batch,
    fill,
    make_volume,
    offsets,
    open_log,
    read_all,
)
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.integrity.damage import DAMAGE
from tidelog.storage.log import Log
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.recovery.recovery import Recovery, Report
from tidelog.testing import VirtualDisk

CONFIG = TopicConfig(segment_bytes=2000, index_interval_bytes=200)
SIZE = len(batch(0))
FIRST = f"{FOLDER}/{0:020d}.log"


def filled(count: int = 10, config: TopicConfig = CONFIG) -> tuple[VirtualDisk, Volume]:
    """A log of one-record batches whose process was killed."""
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    fill(open_log(volume, config), count)
    disk.kill()
    return disk, replace(volume, files=OpenFiles(16))


def recover(
    volume: Volume, point: int = 0, power_lost: bool = False, start: int = 0, config: TopicConfig = CONFIG
) -> Report:
    return Recovery(volume, FOLDER, config, power_lost).run(start, point)


def reopened(volume: Volume, report: Report, config: TopicConfig = CONFIG) -> Log:
    return open_log(volume, config, start=report.start, recovery_point=report.end)


def test_a_killed_process_loses_nothing() -> None:
    _, volume = filled(100)
    report = recover(volume)
    assert (report.end, report.cut_bytes, report.damaged) == (100, 0, [])
    assert offsets(reopened(volume, report)) == list(range(100))


def test_what_is_below_the_recovery_point_is_not_read_again() -> None:
    _, volume = filled(100)
    assert recover(volume).scanned_bytes == 100 * SIZE
    assert recover(volume, point=100).scanned_bytes == 0
    report = recover(volume, point=95)
    assert report.scanned_bytes == 5 * SIZE
    assert offsets(reopened(volume, report)) == list(range(100))


def test_a_torn_tail_is_cut_and_counted() -> None:
    disk, volume = filled(10)
    disk.open(FIRST).truncate(10 * SIZE - 7)
    report = recover(volume)
    assert (report.end, report.cut_bytes) == (9, SIZE - 7)
    log = reopened(volume, report)
    fill(log, 3)
    assert offsets(log) == list(range(12))


def test_rubbish_behind_the_last_batch_is_cut() -> None:
    disk, volume = filled(10)
    disk.open(FIRST).write(bytes(range(256)) * 3, 10 * SIZE)
    assert recover(volume).cut_bytes == 768


@pytest.mark.parametrize("at", [0, 7, 8, 12, 16, 20, 23, 35, 60, SIZE - 1], ids=lambda at: f"byte {at}")
def test_a_batch_that_rotted_is_reported_and_never_served_and_the_rest_goes_on(at: int) -> None:
    disk, volume = filled(10)
    byte = disk.open(FIRST).read(1, 4 * SIZE + at)
    disk.rot(FIRST, 4 * SIZE + at, bytes([byte[0] ^ 0x81]))
    report = recover(volume)
    if at == 12:  # the epoch is the one field that no checksum covers
        assert report.damaged == []
        return
    assert [bad[:2] for bad in report.damaged] == [(4, 5)]
    assert (report.end, report.cut_bytes) == (10, 0)
    assert "4 to 5 are damaged" in str(report)
    log = reopened(volume, report)
    assert offsets(log) == [0, 1, 2, 3]
    assert offsets(log, 5) == [5, 6, 7, 8, 9]
    with pytest.raises(CorruptMessage, match="from offset 4 to 5"):
        log.reader.read(4, 1000, log.end)


def test_damage_is_remembered_by_later_starts() -> None:
    disk, volume = filled(30)
    disk.rot(FIRST, 4 * SIZE + 62, b"rotten")
    log = reopened(volume, recover(volume))
    fill(log, 5)
    log.close()
    again = open_log(volume, CONFIG, recovery_point=35)
    with pytest.raises(CorruptMessage):
        again.reader.read(4, 1000, again.end)
    assert offsets(again, 5) == list(range(5, 35))
    again.close()
    report = recover(volume, point=35)
    assert report.damaged == []  # nothing new
    with pytest.raises(CorruptMessage):
        reopened(volume, report).reader.read(4, 1000, 35)


def test_damage_goes_with_its_segment() -> None:
    disk, volume = filled(60)
    disk.rot(FIRST, 4 * SIZE + 62, b"rotten")
    log = reopened(volume, recover(volume))
    log.advance_start(40)
    assert log.cutter.apply_retention(60) > 0
    assert log.damaged == ()
    assert b"\n0\n" in disk.read_file(f"{FOLDER}/{DAMAGE}")


@pytest.mark.parametrize("at", [0, 8, 62])
def test_a_follower_cuts_its_log_at_the_damage(at: int) -> None:
    disk, volume = filled(10)
    disk.rot(FIRST, 4 * SIZE + at, b"rotten")
    log = reopened(volume, recover(volume))
    log.truncate_to(log.damaged[0].start)
    assert (log.end, log.damaged) == (4, ())
    fill(log, 3)
    assert offsets(log) == list(range(7))


def test_the_end_of_a_sealed_segment_can_rot_too() -> None:
    disk, volume = filled(60)
    second = int(sorted(name for name in disk.list(FOLDER) if name.endswith(".log"))[1][:20])
    disk.rot(FIRST, (second - 1) * SIZE + 62, b"rotten")
    report = recover(volume)
    assert [bad[:2] for bad in report.damaged] == [(second - 1, second)]
    log = reopened(volume, report)
    assert offsets(log) == list(range(second - 1))
    assert offsets(log, second) == list(range(second, 60))


def test_damage_below_the_recovery_point_is_kept_even_after_a_power_loss() -> None:
    disk, volume = filled(10)
    disk.rot(FIRST, 8 * SIZE + 8, b"\xff\xff\xff\xff")
    report = recover(volume, point=9, power_lost=True)
    assert [bad[:2] for bad in report.damaged] == [(8, 9)]
    assert report.end == 10


def test_after_a_power_loss_the_log_ends_at_the_first_hole() -> None:
    disk, volume = filled(60)
    disk.rot(FIRST, 4 * SIZE, bytes(SIZE))
    report = recover(volume, power_lost=True)
    assert (report.end, report.damaged) == (4, [])
    assert report.cut_segments > 0
    log = reopened(volume, report)
    assert offsets(log) == [0, 1, 2, 3]
    fill(log, 40)
    assert offsets(log) == list(range(44))


def test_after_a_power_loss_a_lost_end_of_a_sealed_segment_ends_the_log() -> None:
    disk, volume = filled(60)
    second = int(sorted(name for name in disk.list(FOLDER) if name.endswith(".log"))[1][:20])
    disk.open(FIRST).truncate((second - 2) * SIZE)
    assert recover(volume, power_lost=True).end == second - 2


def test_a_gap_that_was_there_before_the_power_loss_is_no_loss() -> None:
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume, CONFIG)
    fill(log, 3)
    log.roller.roll(10)
    append(log, batch(10))
    disk.kill()
    volume = replace(volume, files=OpenFiles(16))
    report = recover(volume, power_lost=True)
    assert offsets(reopened(volume, report)) == [0, 1, 2, 10]


def test_space_reserved_ahead_is_not_taken_for_batches() -> None:
    config = replace(CONFIG, preallocate=True)
    disk, volume = filled(50, config)
    assert disk.size(FIRST) <= 2000
    report = recover(volume, config=config)
    assert (report.end, report.damaged) == (50, [])
    log = reopened(volume, report, config)
    log.close()
    assert sum(disk.size(f"{FOLDER}/{n}") for n in disk.list(FOLDER) if n.endswith(".log")) == 50 * SIZE


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("trouble", ["missing", "zeros", "noise", "odd size"])
@pytest.mark.parametrize("point", [0, 15, 100])
def test_indexes_that_are_missing_or_wrong_are_built_anew(kind: str, trouble: str, point: int) -> None:
    disk, volume = filled(100)
    for name in disk.list(FOLDER):
        path = f"{FOLDER}/{name}"
        if not name.endswith("." + kind):
            continue
        if trouble == "missing":
            disk.remove(path)
        elif trouble == "zeros":
            disk.rot(path, 0, bytes(disk.size(path)))
        elif trouble == "noise":
            disk.rot(path, 0, Random(3).randbytes(disk.size(path)))
        else:
            disk.open(path).truncate(disk.size(path) // 12 * 12 - 5 if disk.size(path) > 12 else 5)
    report = recover(volume, point=point)
    assert (report.end, report.damaged) == (100, [])
    log = reopened(volume, report)
    for offset in range(100):
        found = log.reader.read(offset, 1, 100)
        assert found is not None
        assert read_all(log, offset)[0].offset == offset
    assert log.offset_for_time(NOW_MS) is not None


def test_epochs_are_learned_from_the_batches() -> None:
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume, CONFIG)
    for epoch in (0, 0, 3, 3, 5):
        append(log, batch(log.next, epoch=epoch))
    disk.kill()
    volume = replace(volume, files=OpenFiles(16))
    report = recover(volume)
    assert list(reopened(volume, report).epochs) == [(0, 0), (3, 2), (5, 4)]


def test_producers_are_learned_from_the_batches() -> None:
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume, CONFIG)
    for n in range(40):
        append(log, batch(log.next, producer=(7, 0, n)))
    disk.kill()
    volume = replace(volume, files=OpenFiles(16))
    log = reopened(volume, recover(volume))
    known = log.producers.get(7)
    assert known is not None
    assert (known.last_sequence, len(known.batches)) == (39, 5)


def test_recovery_that_is_interrupted_is_done_again() -> None:
    count = 0
    while True:
        disk, volume = filled(60)
        disk.open(FIRST).write(b"rubbish", disk.size(FIRST))
        disk.rot(FIRST, 4 * SIZE + 62, b"rotten")
        count += 1
        disk.crash_after(count, power=count % 2 == 0)
        try:
            recover(volume)
        except BaseException as struck:
            if type(struck).__name__ != "Crashed":
                raise
        else:
            break
        # What was written before the first stop is durable here: the kill came long after.
        disk.kill()
        volume = replace(volume, files=OpenFiles(16))
        report = recover(volume)
        assert report.end == 60
        assert offsets(reopened(volume, report), 5) == list(range(5, 60))
    assert count > 10


def crashed_after(disk: VirtualDisk, volume: Volume, seed: int) -> Volume:
    disk.crash(Random(seed))
    return replace(volume, files=OpenFiles(16), rolled={}, trashed={})


@pytest.mark.parametrize("seed", range(12))
def test_what_was_truncated_does_not_come_back_beside_what_replaced_it(seed: int) -> None:
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume, CONFIG)
    fill(log, 10)
    disk.sync_all("/data")
    volume.recovery_points.offsets[log.name] = 10
    volume.recovery_points.save()
    log.truncate_to(6)
    log.roller.roll()
    fill(log, 6, value=b"later")
    volume = crashed_after(disk, volume, seed)
    volume.recovery_points.load()
    report = recover(volume, point=volume.recovery_points.offsets[log.name], power_lost=True)
    values = [record.value for record in read_all(reopened(volume, report))]
    assert values == ([b"value"] * 6 + [b"later"] * 6)[: len(values)]
    assert len(values) >= 6


@pytest.mark.parametrize("seed", range(12))
def test_times_are_right_when_a_sealed_segment_lost_its_indexes_with_the_power(seed: int) -> None:
    config = TopicConfig(index_interval_bytes=1)
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume, config)
    for n in range(300):
        append(log, batch(n, timestamp=NOW_MS + n))
    log.segments.last.file.sync()
    disk.sync_folder("/data")
    log.roller.roll()
    append(log, batch(300, timestamp=NOW_MS + 300))
    disk.sync_folder(FOLDER)
    volume = crashed_after(disk, volume, seed)
    report = recover(volume, point=300, power_lost=True, config=config)
    assert report.end in (300, 301)
    log = reopened(volume, report, config)
    for n in range(300):
        assert log.offset_for_time(NOW_MS + n) == (n, NOW_MS + n, 0)
