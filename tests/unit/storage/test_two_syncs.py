"""Two syncs of one log at the same time: housekeeping syncs sealed segments beside group commits and flushes."""

from __future__ import annotations

import asyncio
import errno
import time
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.unit.storage.making import FOLDER, NAME, HandClock, append, batch, fill, make_volume, open_log
from tidelog.config import TopicConfig
from tidelog.errors import KafkaStorageError
from tidelog.storage import checkpoints
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import SystemDisk
from tidelog.storage.files import OpenFiles
from tidelog.storage.log import Log
from tidelog.testing import VirtualDisk

EPOCHS = f"{FOLDER}/{checkpoints.LEADER_EPOCHS}"
SYNCED = TopicConfig(flush_messages=1)


class HeldDisk(VirtualDisk):
    """Work waits until the test lets it go on, piece by piece; or its end does, when all of it is done."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.held: list[asyncio.Future[None]] | None = None
        self.hold_ends = False

    async def run(self, work: Any) -> Any:
        if self.held is None:
            return await super().run(work)
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.held.append(gate)
        if not self.hold_ends:
            await gate
        outcome = await super().run(work)
        await gate
        return outcome

    def let_go(self, piece: int) -> None:
        assert self.held is not None
        self.held[piece].set_result(None)


def held_log(random: Random, config: TopicConfig | None = None) -> tuple[HeldDisk, Volume, Log]:
    disk = HeldDisk(random)
    volume = make_volume(disk)
    return disk, volume, open_log(volume, config)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.simulated
async def test_an_older_plan_does_not_replace_the_newer_epochs(random: Random) -> None:
    disk, volume, log = held_log(random)
    append(log, batch(0, epoch=1))
    log.roller.roll()
    disk.held = []
    (sealed,) = volume.rolled
    housekeeping = asyncio.ensure_future(sealed.sync_sealed())
    await turns()
    append(log, batch(1, epoch=2))
    flushed = log.flush()
    await turns()
    disk.let_go(1)
    await flushed
    disk.let_go(0)
    await housekeeping
    assert log.recovery_point == 2
    assert checkpoints.decode_epochs(disk.read_file(EPOCHS)) == [(1, 0), (2, 1)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.simulated
async def test_an_append_is_durable_only_with_the_name_of_its_segment(random: Random, seed: int) -> None:
    disk, volume, log = held_log(random, SYNCED)
    await append(log, batch(0))  # type: ignore[misc]
    log.roller.roll()
    disk.held = []
    (sealed,) = volume.rolled
    housekeeping = asyncio.ensure_future(sealed.sync_sealed())
    await turns()
    sent = append(log, batch(1))
    await turns()
    disk.let_go(1)
    await sent  # type: ignore[misc]
    housekeeping.cancel()
    disk.crash(random)
    disk.held = None
    assert f"{1:020d}.log" in disk.list(FOLDER)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.simulated
async def test_what_an_append_could_not_make_durable_is_made_so_by_the_next(
    random: Random, seed: int
) -> None:
    disk, volume, log = held_log(random, SYNCED)
    disk.held = []
    failing = append(log, batch(0))
    await turns()
    log.wrote(f"{FOLDER}/{checkpoints.PARTITION_METADATA}")
    housekeeping = asyncio.ensure_future(log.state.durability.sync_sealed())
    await turns()
    disk.fail("write", "*.log", errno.ENOSPC)
    disk.let_go(0)
    with pytest.raises(KafkaStorageError, match="full"):
        await failing  # type: ignore[misc]
    assert volume.problem is None
    sent = append(log, batch(0))
    await turns()
    disk.let_go(2)
    await sent  # type: ignore[misc]
    housekeeping.cancel()
    disk.crash(random)
    assert disk.exists(FOLDER)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.simulated
async def test_a_sync_tells_nothing_of_what_was_written_after_a_cut(random: Random, sealed: bool) -> None:
    disk, _, log = held_log(random)
    fill(log, 10)
    if sealed:
        log.roller.roll()
    disk.held, disk.hold_ends = [], True
    synced = asyncio.ensure_future(log.state.durability.sync_sealed()) if sealed else log.flush()
    await turns()
    log.truncate_to(3)
    fill(log, 12, value=b"fetched from the new leader")
    disk.let_go(0)
    await synced
    assert log.recovery_point <= 3
    disk.held = None
    await log.flush()
    assert log.recovery_point == 15


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.simulated
async def test_no_sync_tells_of_appends_that_are_on_their_way(random: Random, flushed: bool) -> None:
    disk, volume, log = held_log(random, SYNCED)
    await append(log, batch(0))  # type: ignore[misc]
    disk.held = []
    sent = append(log, batch(1))
    await turns()
    log.roller.roll()
    (sealed,) = volume.rolled
    housekeeping = asyncio.ensure_future(sealed.sync_sealed())
    await turns()
    disk.let_go(1)
    await housekeeping
    assert log.recovery_point <= log.end == 1
    disk.held, gate = None, disk.held[0]
    gate.set_result(None)
    await sent  # type: ignore[misc]
    if flushed:
        await log.flush()
    else:
        assert sealed in volume.rolled
        await sealed.sync_sealed()
    assert log.recovery_point == log.end == 2


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.simulated
async def test_a_full_disk_costs_a_truncation_and_no_directory(random: Random, anew: bool) -> None:
    disk, volume, log = held_log(random)
    fill(log, 10)
    await log.flush()
    volume.recovery_points.offsets[NAME] = log.recovery_point
    volume.recovery_points.save()
    cut = partial(log.restart_at, 20) if anew else partial(log.truncate_to, 3)
    disk.limit_free(0)
    with pytest.raises(KafkaStorageError, match="full"):
        cut()
    assert (volume.problem, log.end, log.state.cuts) == (None, 10, 0)
    disk.heal()
    cut()
    assert (volume.problem, log.end) == (None, 20 if anew else 3)


class SlowDisk(SystemDisk):
    """A checkpoint takes a while, as on a busy disk."""

    def replace_file(self, path: str, data: bytes) -> None:
        time.sleep(0.001)
        super().replace_file(path, data)
        time.sleep(0.001)


async def test_a_slow_disk_stays_online_while_epochs_change(tmp_path: Path) -> None:
    disk = SlowDisk()
    volume = Volume.of(str(tmp_path), disk, HandClock(), Random(1), OpenFiles(64))
    log = Log.open(volume, f"{tmp_path}/orders-0", NAME, SYNCED)
    for epoch in range(1, 60, 2):
        sent = append(log, batch(log.next, epoch=epoch))
        await asyncio.sleep(0)
        also = append(log, batch(log.next, epoch=epoch + 1))
        log.roller.roll()
        await asyncio.gather(sent, also, *(each.sync_sealed() for each in volume.rolled))  # type: ignore[call-overload]
        assert volume.problem is None
        path = f"{tmp_path}/orders-0/{checkpoints.LEADER_EPOCHS}"
        assert checkpoints.decode_epochs(disk.read_file(path)) == list(log.epochs)
    disk.close()
