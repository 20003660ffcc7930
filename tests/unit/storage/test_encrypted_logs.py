"""Compaction, repair and moves of encrypted logs: all is as for plain ones, and nothing plain is written."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.unit.storage.compaction_logs import COMPACTED, CompactedLog
from tests.unit.storage.encrypted_disk import EncryptedVirtualDisk, data_keys
from tests.unit.storage.making import FOLDER, NAME, HandClock, append, batch, make_volume, open_log, read_all
from tidelog._speed.log.batch import walk
from tidelog.config import TopicConfig
from tidelog.record import Record, build_batch
from tidelog.storage.compaction.cleaner import Cleanable, Cleaner
from tidelog.storage.compaction.runner import ProcessRunner
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import SystemDisk
from tidelog.storage.encryption.decrypted_cache import DecryptedCache
from tidelog.storage.encryption.encrypting_disk import EncryptingDisk
from tidelog.storage.encryption.file_header import is_encrypted
from tidelog.storage.encryption.key_usage import files_of
from tidelog.storage.files import OpenFiles
from tidelog.storage.integrity.restoring import restore
from tidelog.storage.log import Log
from tidelog.storage.recovery import Recovery
from tidelog.testing import Crashed

PATH = f"{FOLDER}/{0:020d}.log"


def plain_files(disk: EncryptedVirtualDisk) -> list[str]:
    """Files with data of clients that are not encrypted."""
    found = disk.files(FOLDER).items()
    return [path for path, data in found if data and ".log" in path and not is_encrypted(data)]


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
async def test_an_encrypted_log_is_whole_wherever_its_compaction_is_struck(power: bool) -> None:
    operation, finished = 0, False
    while not finished:
        operation += 7
        log = CompactedLog(EncryptedVirtualDisk(Random(1)))
        disk = log.disk
        assert isinstance(disk, EncryptedVirtualDisk)
        for number in range(30):
            log.put((b"key-%d" % (number % 5), b"%d" % number))
        log.log.roller.roll()
        expected = log.latest()

        point = log.log.end
        await log.log.flush()
        for folder in ("/", "/data"):
            disk.sync_folder(folder)
        disk.crash_after(operation, power)
        try:
            await log.cleaner.clean_dirtiest()
            finished = True
        except Crashed:
            pass
        disk.heal()
        (disk.crash if power else disk.kill)()
        log.recover(power, point)
        assert log.latest() == expected
        assert not plain_files(disk)
    assert operation > 20


async def test_a_rotten_range_of_an_encrypted_log_is_written_anew_in_its_place() -> None:
    disk = EncryptedVirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume)
    for number in range(60):
        append(log, batch(log.next, value=b"%d " % number + bytes(number * 40)))
    whole = disk.read_file(PATH)
    expected = read_all(log)
    log.close()
    for position in (1024 + 3, 1024 + 20_000, len(disk.files()[PATH]) // 2):
        disk.rot(PATH, position)
    disk.kill()  # what was read before is forgotten, as in another process
    volume = make_volume(disk)
    end = log.end
    assert Recovery(volume, FOLDER, TopicConfig(), power_lost=False).run(0, 0).end == end
    log = open_log(volume, recovery_point=end)
    assert log.damaged

    for bad in log.damaged:
        data = whole[bad.position : bad.position + bad.size]
        assert await restore(log, bad, data, walk(data))
    assert not log.damaged and read_all(log) == expected
    assert disk.read_file(PATH) == whole


async def test_the_worker_process_compacts_with_the_keys_that_it_is_given(tmp_path: Path) -> None:
    inner = SystemDisk()
    keys = data_keys(str(tmp_path / "keys"), inner, str(tmp_path / "data"))
    disk = EncryptingDisk(inner, keys, lambda *_: "file:test", DecryptedCache(1 << 20))

    volume = Volume.of(str(tmp_path / "data"), disk, HandClock(), Random(1), OpenFiles(32))
    log = Log.open(volume, f"{tmp_path}/data/{NAME}", NAME, COMPACTED)
    for number in range(40):
        record = Record(0, volume.clock.now_ms(), b"key-%d" % (number % 3), b"MARKED %d" % number)
        append(log, build_batch([record], base_offset=log.next, leader_epoch=0))
    log.roller.roll()
    runner = ProcessRunner()
    cleaner = Cleaner(volume, lambda: [Cleanable(log, log.end)], runner, 1 << 20, 15_000)
    try:
        assert await cleaner.clean_dirtiest()
    finally:
        await runner.close()
    assert [record.value for record in read_all(log)] == [b"MARKED 37", b"MARKED 38", b"MARKED 39"]
    disk.close()
    kept = [path for path in (tmp_path / "data").rglob("*.log*") if path.stat().st_size]
    assert kept and all(
        is_encrypted(path.read_bytes()) and b"MARKED" not in path.read_bytes() for path in kept
    )
    usage = list(files_of(inner, str(tmp_path / "data"), keys))
    assert {each.key_name for each in usage} == {"file:test"}
