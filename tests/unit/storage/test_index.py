"""Sparse indexes: entries in, floors out, on a disk that may be full or torn."""

from __future__ import annotations

import pytest

from tests.unit.storage.making import make_volume
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.segments.index import STEP_BYTES, CorruptIndex, OffsetIndex, TimeIndex
from tidelog.testing import VirtualDisk

PATH = "/data/x.index"


def offsets_on(disk: VirtualDisk, bytes_max: int = 1 << 20, base: int = 100) -> OffsetIndex:
    disk.open(PATH, create=True)
    return OffsetIndex(disk, OpenFiles(8), PATH, base, bytes_max)


def times_on(disk: VirtualDisk, bytes_max: int = 1 << 20, base: int = 100) -> TimeIndex:
    disk.open(PATH, create=True)
    return TimeIndex(disk, OpenFiles(8), PATH, base, bytes_max)


def fresh_disk() -> VirtualDisk:
    disk = make_volume().disk
    assert isinstance(disk, VirtualDisk)
    return disk


def test_a_floor_is_the_last_entry_at_or_before() -> None:
    index = offsets_on(fresh_disk())
    assert index.floor(100) == index.floor(5000) == (100, 0)
    for n in range(1, 50):
        index.append(100 + 10 * n, 1000 * n)
    assert index.floor(109) == (100, 0)
    assert index.floor(110) == index.floor(119) == (110, 1000)
    assert index.floor(10_000) == (590, 49_000)


def test_entries_survive_a_trim_and_a_new_start() -> None:
    disk = fresh_disk()
    index = offsets_on(disk)
    for n in range(1, 2000):
        index.append(100 + n, 7 * n)
    assert disk.size(PATH) > 1999 * 8
    index.trim()
    assert disk.size(PATH) == 1999 * 8
    again = offsets_on(disk)
    assert (again.count, again.last_offset, again.last_position) == (1999, 2099, 7 * 1999)
    again.append(3000, 99_999)
    assert again.floor(2999) == (2099, 7 * 1999)


def test_it_is_full_one_entry_before_its_bound() -> None:
    index = offsets_on(fresh_disk(), bytes_max=80)
    while not index.full:
        index.append(101 + index.count, index.count + 1)
    assert index.count == 9
    index.append(200, 200)
    index.trim()


def test_a_released_index_comes_back_by_itself() -> None:
    index = offsets_on(fresh_disk())
    index.append(110, 10)
    index.append(120, 20)
    index.release()
    assert index.floor(115) == (110, 10)
    index.release()
    index.append(130, 30)
    assert index.floor(125) == (120, 20)


def test_truncation_forgets_what_comes_at_the_offset_and_later() -> None:
    index = offsets_on(fresh_disk())
    for n in range(1, 10):
        index.append(100 + 10 * n, n)
    index.truncate_to(150)
    assert (index.count, index.floor(1000)) == (4, (140, 4))
    index.append(145, 5)
    assert index.floor(146) == (145, 5)


def test_a_full_disk_leaves_the_index_as_it_was() -> None:
    disk = fresh_disk()
    index = offsets_on(disk)
    while (index.count + 1) * 8 <= STEP_BYTES:
        index.append(101 + index.count, index.count + 1)
    count = index.count
    disk.limit_free(0)
    with pytest.raises(OSError, match="No space"):
        index.reserve()
    assert index.count == count
    assert index.floor(105) == (105, 5)
    disk.limit_free(None)
    index.append(5000, 5000)
    assert index.floor(6000) == (5000, 5000)


def test_an_index_that_cannot_be_right_is_found_out() -> None:
    disk = fresh_disk()
    index = offsets_on(disk)
    index.append(110, 500)
    index.trim()
    with pytest.raises(CorruptIndex, match="outside"):
        offsets_on(disk).check(log_size=400)
    disk.open(PATH).write(b"xyz", 8)
    with pytest.raises(CorruptIndex, match="middle"):
        offsets_on(disk)


def test_entries_that_do_not_ascend_are_not_sane() -> None:
    disk = fresh_disk()
    index = offsets_on(disk)
    for n in range(1, 10):
        index.append(100 + n, n)
    index.trim()
    assert offsets_on(disk).sane()
    disk.open(PATH).write(bytes(8), 32)
    assert not offsets_on(disk).sane()


def test_room_reserved_before_a_crash_is_no_entry() -> None:
    disk = fresh_disk()
    index = offsets_on(disk)
    for n in range(1, 10):
        index.append(100 + 256 * n, 256 * n)
    index.release()
    assert disk.size(PATH) == STEP_BYTES
    again = offsets_on(disk)
    again.drop_zeros()
    assert (again.count, again.last_offset, again.sane()) == (9, 100 + 256 * 9, True)


def test_times_are_kept_only_when_they_grow() -> None:
    index = times_on(fresh_disk())
    for timestamp, offset in ((50, 100), (50, 105), (40, 110), (70, 120)):
        index.append(timestamp, offset)
    assert index.count == 2
    assert [index.floor(time) for time in (49, 50, 69)] == [(-1, 100), (50, 100), (50, 100)]
    assert index.floor(70) == index.floor(1000) == (70, 120)
    assert (index.last_timestamp, index.last_offset) == (70, 120)


def test_times_are_truncated_by_offset() -> None:
    index = times_on(fresh_disk())
    for n in range(10):
        index.append(1000 + n, 100 + n)
    index.truncate_to(105)
    assert (index.count, index.last_timestamp) == (5, 1004)
    index.trim()
    assert index.sane()
