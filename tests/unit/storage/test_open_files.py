"""The bound on open files."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.unit.storage.making import HandClock, append, batch, content
from tidelog.config import TopicConfig
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import SystemDisk
from tidelog.storage.log import Log
from tidelog.storage.open_files import OpenFiles
from tidelog.types import TopicPartition


class Handle:
    def __init__(self) -> None:
        self.used = False
        self.held = False

    def open(self, files: OpenFiles) -> None:
        self.held = True
        files.opened(self)
        self.used = True

    def release(self) -> None:
        self.held = False


def test_the_oldest_goes_when_there_are_too_many() -> None:
    files = OpenFiles(8)
    handles = [Handle() for _ in range(20)]
    for handle in handles:
        handle.open(files)
        assert sum(each.held for each in handles) == len(files) <= 8
    assert [handle.held for handle in handles[-1:]] == [True]


def test_one_that_is_used_stays_longer_than_one_that_is_not() -> None:
    files = OpenFiles(8)
    busy = Handle()
    busy.open(files)
    for _ in range(100):
        busy.used = True
        seldom = Handle()
        seldom.open(files)
        seldom.used = False
    assert busy.held


def test_idle_ones_are_released_on_the_second_look() -> None:
    files = OpenFiles(8)
    idle, busy = Handle(), Handle()
    idle.open(files)
    busy.open(files)
    assert files.release_idle() == 0
    busy.used = True
    assert files.release_idle() == 1
    assert (idle.held, busy.held) == (False, True)


def test_a_bound_that_cannot_work_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 8"):
        OpenFiles(2)


def test_many_logs_share_few_descriptors_and_slices_stay_readable(tmp_path: Path) -> None:
    disk = SystemDisk()
    volume = Volume.of(str(tmp_path), disk, HandClock(), Random(1), OpenFiles(12))
    config = TopicConfig(index_interval_bytes=50)
    before = len(os.listdir("/proc/self/fd"))
    logs = [Log.open(volume, f"{tmp_path}/t-{n}", TopicPartition("t", n), config) for n in range(60)]
    slices = []
    for log in logs:
        for _ in range(3):
            append(log, batch(log.next))
        slices.append(log.reader.read(0, 1000, log.end))
    kept = {id(each.file) for each in slices if each is not None}
    assert len(os.listdir("/proc/self/fd")) <= before + 12 + len(kept)
    assert all(content(each)[:61] == batch(0)[:61] for each in slices)
    slices.clear()
    assert len(os.listdir("/proc/self/fd")) <= before + 12
    for log in logs:
        log.close()
    assert len(volume.files) == 0
    disk.close()
