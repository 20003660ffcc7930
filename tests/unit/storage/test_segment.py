"""One segment: lookups through sparse indexes that may be wrong."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.unit.storage.making import FOLDER, NOW_MS, append, batch, fill, make_volume, offsets, open_log
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage
from tidelog.storage.log import Log
from tidelog.testing import VirtualDisk

CONFIG = TopicConfig(index_interval_bytes=200)
SIZE = len(batch(0))


def sealed_log(count: int = 100) -> tuple[VirtualDisk, Log]:
    """Opened anew, so that nothing is known but what is on disk."""
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume, CONFIG)
    fill(log, count)
    log.close()
    return disk, open_log(volume, CONFIG)


def test_every_offset_is_found_through_the_index() -> None:
    _, log = sealed_log()
    segment = log.segments.last
    assert segment.index.count > 20
    for offset in range(100):
        assert segment.locate(offset)[0] == offset * SIZE
    assert segment.locate(100)[0] == segment.size


def test_a_large_append_of_many_batches_is_indexed_inside() -> None:
    log = open_log(make_volume(), CONFIG)
    append(log, b"".join(batch(n) for n in range(100)))
    index = log.segments.last.index
    assert index.count > 20
    assert index.floor(57)[0] in range(53, 58)
    assert [log.segments.last.locate(n)[0] for n in range(100)] == [n * SIZE for n in range(100)]


@pytest.mark.parametrize("trouble", ["noise", "shifted", "missing"])
def test_an_index_that_lies_is_built_anew_when_it_is_used(trouble: str) -> None:
    disk, log = sealed_log()
    path = f"{FOLDER}/{0:020d}.index"
    log.segments.last.release_all()
    if trouble == "missing":
        disk.remove(path)
    elif trouble == "noise":
        disk.rot(path, 0, Random(1).randbytes(disk.size(path)))
    else:
        data = disk.read_file(path)
        disk.rot(path, 0, data[:4] + (SIZE * 3 + 5).to_bytes(4, "big") + data[8:])
    assert offsets(log, 4) == list(range(4, 100))
    assert offsets(log, 97) == [97, 98, 99]


def test_a_batch_that_is_not_there_is_reported() -> None:
    disk, log = sealed_log()
    disk.rot(f"{FOLDER}/{0:020d}.log", 50 * SIZE, bytes(SIZE))
    with pytest.raises(CorruptMessage, match=str(50 * SIZE)):
        log.segments.last.locate(50)


def test_the_newest_time_is_known_without_reading_the_log() -> None:
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    config = replace(CONFIG, segment_bytes=1000)
    log = open_log(volume, config)
    for n in range(40):
        append(log, batch(n, timestamp=NOW_MS + (n * 7) % 40))
    log.close()
    log = open_log(volume, config)
    for segment in log.segments:
        times = [NOW_MS + (n * 7) % 40 for n in range(segment.base, segment.end)]
        assert segment.newest() == (max(times), segment.base + times.index(max(times)))


def test_files_are_as_long_as_what_is_in_them_once_sealed_or_closed() -> None:
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    config = replace(CONFIG, segment_bytes=1000, preallocate=True)
    log = open_log(volume, config)
    assert disk.size(f"{FOLDER}/{0:020d}.log") == 1000
    fill(log, 30)
    assert disk.size(f"{FOLDER}/{log.segments.last.base:020d}.log") == 1000
    log.close()
    for segment in log.segments:
        assert disk.size(segment.path) == segment.size
    assert offsets(open_log(volume, config)) == list(range(30))


def test_the_tail_is_found_without_a_read() -> None:
    disk = VirtualDisk(Random(1))
    log = open_log(make_volume(disk), CONFIG)
    fill(log, 1000)
    disk.fail("read", "*.log", times=1)
    found = log.reader.read(999, 1 << 20, 1000)
    assert found is not None
    assert (found.position, found.size) == (999 * SIZE, SIZE)
