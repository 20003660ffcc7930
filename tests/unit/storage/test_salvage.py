"""Damaged ranges that are given up: what is told before, and what is left of the log."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.unit.storage.making import FOLDER, NOW_MS, batch, fill, make_volume, offsets, open_log
from tidelog.config import TopicConfig
from tidelog.errors import KafkaStorageError
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.integrity.salvage import find_losses, give_up_losses, read_lost
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.recovery.recovery import Recovery
from tidelog.testing import VirtualDisk

CONFIG = TopicConfig(segment_bytes=2000, index_interval_bytes=200)
SIZE = len(batch(0))
FIRST = f"{FOLDER}/{0:020d}.log"


def stopped(count: int = 60) -> tuple[VirtualDisk, Volume]:
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume, CONFIG)
    fill(log, count)
    log.close()
    disk.kill()
    return disk, replace(volume, files=OpenFiles(16), damaged={})


def test_nothing_is_lost_in_a_log_that_is_whole() -> None:
    disk, _ = stopped()
    assert find_losses(disk, FOLDER) == []


@pytest.mark.parametrize("recovered", [True, False])
def test_readers_step_over_what_was_given_up(recovered: bool) -> None:
    disk, volume = stopped()
    original = disk.read_file(FIRST)
    disk.rot(FIRST, 4 * SIZE + 62)
    disk.rot(FIRST, 5 * SIZE + 62)
    disk.rot(FIRST, 9 * SIZE, bytes(SIZE))
    damaged = disk.read_file(FIRST)
    if recovered:
        Recovery(volume, FOLDER, CONFIG, power_lost=False).run(0, 0)
    losses = find_losses(disk, FOLDER)
    assert [(loss.bad.start, loss.bad.end, loss.bad.size) for loss in losses] == [
        (4, 6, 2 * SIZE),
        (9, 10, SIZE),
    ]
    assert [(loss.after_ms, loss.before_ms) for loss in losses] == [(NOW_MS, NOW_MS)] * 2
    assert disk.read_file(FIRST) == damaged
    give_up_losses(disk, FOLDER, losses)
    assert find_losses(disk, FOLDER) == []
    assert read_lost(disk, FOLDER) == [loss.bad for loss in losses]
    aside = f"{FOLDER}/{0:020d}.{4 * SIZE}.rotten"
    assert disk.read_file(aside) == damaged[4 * SIZE : 6 * SIZE] != original[4 * SIZE : 6 * SIZE]
    log = open_log(volume, CONFIG, recovery_point=60)
    kept = [offset for offset in range(60) if offset not in (4, 5, 9)]
    assert log.damaged == () and offsets(log) == kept
    fill(log, 3)
    assert offsets(log) == [*kept, 60, 61, 62]


def test_a_crash_at_any_moment_leaves_the_old_segment_or_the_new_one() -> None:
    number = 1
    while True:
        disk, _ = stopped()
        disk.rot(FIRST, 4 * SIZE + 62)
        losses = find_losses(disk, FOLDER)
        before = disk.operations
        disk.crash_after(number)
        try:
            give_up_losses(disk, FOLDER, losses)
        except BaseException as problem:
            assert type(problem).__name__ == "Crashed"
        else:
            break
        disk.crash()
        volume = make_volume(disk)
        log = open_log(volume, CONFIG, recovery_point=60)
        log.close()
        assert [loss.bad[:2] for loss in find_losses(disk, FOLDER)] in ([], [(4, 5)])
        assert disk.operations > before
        number += 1
    assert number > 10


def test_the_files_of_a_running_broker_are_left_alone() -> None:
    disk, _ = stopped()
    disk.rot(FIRST, 4 * SIZE + 62)
    lock = disk.lock("/data/.lock")
    with pytest.raises(KafkaStorageError, match="stop it first"):
        give_up_losses(disk, FOLDER, find_losses(disk, FOLDER))
    lock.close()
