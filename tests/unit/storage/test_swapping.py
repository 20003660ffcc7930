"""A compacted segment in the place of old ones, also when the power goes in between."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.unit.storage.making import FOLDER, append, batch, fill, make_volume, offsets, open_log
from tidelog.config import TopicConfig
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.log import Log
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.recovery.recovery import Recovery
from tidelog.storage.segments import swapping
from tidelog.storage.segments.segment_files import KINDS, stem
from tidelog.testing import VirtualDisk

CONFIG = TopicConfig(segment_bytes=300, cleanup_policy=frozenset(["compact"]))
KEPT = [1, 3, 5]


def written(disk: VirtualDisk) -> tuple[Volume, Log]:
    """Twenty records, all durable; the first two segments are to be replaced by one with the records in KEPT."""
    volume = make_volume(disk)
    log = open_log(volume, CONFIG)
    fill(log, 20)
    log.close()
    disk.sync_all("/data")
    log = open_log(volume, CONFIG, recovery_point=20)
    assert [segment.base for segment in log.segments][:3] == [0, 4, 8]
    return volume, log


def clean(disk: VirtualDisk) -> None:
    """What the compactor leaves."""
    for kind in KINDS:
        file = disk.open(stem(FOLDER, 0) + kind + ".x" + swapping.CLEANED, create=True)
        if kind == ".log":
            file.write(b"".join(batch(offset) for offset in KEPT), 0)
        file.sync()


def swap(disk: VirtualDisk, log: Log) -> None:
    clean(disk)
    swapping.make_ready(disk, FOLDER, 0, ".x" + swapping.CLEANED)
    log.cutter.replace_segments([log.segments[0], log.segments[1]], 0)


def test_reads_go_on_over_the_gaps() -> None:
    disk = VirtualDisk(Random(1))
    volume, log = written(disk)
    held = log.reader.read(0, 1000, 20)
    swap(disk, log)
    assert offsets(log) == [*KEPT, *range(8, 20)]
    assert offsets(log, 6) == list(range(8, 20))
    assert held is not None
    assert held.file.read(8, held.position) == bytes(8)
    append(log, batch(20))
    log.close()
    assert offsets(open_log(volume, CONFIG)) == [*KEPT, *range(8, 21)]


def test_a_segment_with_nothing_left_is_empty() -> None:
    disk = VirtualDisk(Random(1))
    _, log = written(disk)
    for kind in KINDS:
        disk.open(stem(FOLDER, 0) + kind + swapping.CLEANED, create=True).sync()
    swapping.make_ready(disk, FOLDER, 0)
    log.cutter.replace_segments([log.segments[0], log.segments[1]], 0)
    assert offsets(log) == list(range(8, 20))


def test_files_that_were_not_ready_are_removed() -> None:
    disk = VirtualDisk(Random(1))
    volume, log = written(disk)
    log.close()
    clean(disk)
    disk.rename(stem(FOLDER, 0) + ".index.x.cleaned", stem(FOLDER, 0) + ".index.swap")
    log = open_log(volume, CONFIG)
    assert offsets(log) == list(range(20))
    assert not any("cleaned" in name or "swap" in name for name in disk.list(FOLDER))


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_point_leaves_the_old_or_the_new(power: bool) -> None:
    operations = 0
    outcomes = set()
    while True:
        operations += 1
        disk = VirtualDisk(Random(operations))
        volume, log = written(disk)
        disk.crash_after(operations, power)
        try:
            swap(disk, log)
        except BaseException as struck:
            if type(struck).__name__ != "Crashed":
                raise
        else:
            break
        if power:
            disk.crash()
        else:
            disk.kill()
        volume = replace(volume, files=OpenFiles(16), rolled={}, trashed={})
        report = Recovery(volume, FOLDER, CONFIG, power).run(0, 20)
        found = offsets(open_log(volume, CONFIG, recovery_point=report.end))
        assert found in (list(range(20)), [*KEPT, *range(8, 20)])
        outcomes.add(len(found))
    assert outcomes == {20, 15}
