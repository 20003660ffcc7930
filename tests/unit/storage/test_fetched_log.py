"""What readers inside the broker get of a log: whole batches that pass their checksums."""

from __future__ import annotations

import pytest

from tests.unit.storage.making import FOLDER, NAME, batch, fill, make_volume, open_log
from tidelog.errors import CorruptMessage
from tidelog.storage.fetched_log import fetch_bytes
from tidelog.storage.log import Log
from tidelog.testing import VirtualDisk

PATH = f"{FOLDER}/{0:020d}.log"
SIZE = len(batch(0))


def three_batches() -> tuple[VirtualDisk, Log]:
    disk = VirtualDisk()
    log = open_log(make_volume(disk))
    fill(log, 3)
    return disk, log


async def test_a_read_ends_before_a_damaged_batch_and_its_log_is_suspected() -> None:
    disk, log = three_batches()
    disk.rot(PATH, SIZE + 70)
    whole = await fetch_bytes(log, 0, 1 << 20, log.end)
    assert whole is not None and len(whole) == SIZE
    assert log.volume.suspects == {NAME: 0}


async def test_a_read_of_a_damaged_batch_fails_and_its_log_is_suspected() -> None:
    disk, log = three_batches()
    disk.rot(PATH, SIZE + 70)
    with pytest.raises(CorruptMessage, match="offset 1 is damaged"):
        await fetch_bytes(log, 1, 1 << 20, log.end)
    assert log.volume.suspects == {NAME: 1}


async def test_a_batch_that_the_bound_cuts_is_not_damaged() -> None:
    _, log = three_batches()
    part = await fetch_bytes(log, 0, SIZE + 20, log.end)
    assert part is not None and len(part) == SIZE
    assert log.volume.suspects == {}
    assert await fetch_bytes(log, 3, 1 << 20, log.end) is None
