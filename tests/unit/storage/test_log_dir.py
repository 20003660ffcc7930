"""A data directory: whose it is, what is in it, what happens to its disk."""

from __future__ import annotations

import errno
from random import Random
from uuid import UUID

import pytest

from tests.unit.storage.making import HandClock, append, batch, fill, offsets
from tidelog.config import TopicConfig
from tidelog.errors import InconsistentClusterId, InconsistentTopicId, InvalidConfig, KafkaStorageError
from tidelog.storage.dirs.identity import CLEAN, PROPERTIES, read_last_run
from tidelog.storage.dirs.log_dir import LogDir
from tidelog.storage.files import OpenFiles
from tidelog.testing import VirtualDisk
from tidelog.types import TopicPartition

pytestmark = pytest.mark.simulated

CONFIG = TopicConfig(segment_bytes=1000, index_interval_bytes=200)
ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other.topic-7", 12)
TOPIC_ID = UUID("6e1bb8c4-4b5a-4bf3-9f6e-70f8c4bdbd11")


def configs(topic: str) -> TopicConfig:
    return CONFIG


def make_dir(disk: VirtualDisk, path: str = "/srv/data") -> LogDir:
    return LogDir(path, disk, HandClock(), Random(1), OpenFiles(64))


async def started(disk: VirtualDisk, path: str = "/srv/data") -> LogDir:
    home = make_dir(disk, path)
    await home.start("cluster-a", 1, configs)
    home.began()
    return home


async def test_a_new_directory_gets_an_identity_that_stays(random: Random) -> None:
    disk = VirtualDisk(random)
    home = await started(disk)
    assert home.identity is not None and home.identity.directory_id.version == 4
    await home.stop()
    assert (await started(disk)).identity == home.identity
    assert b"cluster.id=cluster-a\nnode.id=1\n" in disk.read_file(f"/srv/data/{PROPERTIES}")


async def test_a_directory_of_somebody_else_is_refused(random: Random) -> None:
    disk = VirtualDisk(random)
    await (await started(disk)).stop()
    with pytest.raises(InconsistentClusterId, match="belongs to cluster cluster-a"):
        await make_dir(disk).start("cluster-b", 1, configs)
    with pytest.raises(InvalidConfig, match="start it with --id 1"):
        await make_dir(disk).start("cluster-a", 2, configs)
    await started(disk)


async def test_two_brokers_do_not_share_a_directory(random: Random) -> None:
    disk = VirtualDisk(random)
    first = await started(disk)
    with pytest.raises(KafkaStorageError, match="in use by another broker"):
        await started(disk)
    await first.stop()
    await started(disk)


async def test_logs_are_there_after_a_clean_stop_and_nothing_is_scanned(random: Random) -> None:
    disk = VirtualDisk(random)
    home = await started(disk)
    for name in (ORDERS, OTHER):
        fill(home.create(name, TOPIC_ID, CONFIG), 30)
    home.logs[OTHER].advance_start(7)
    home.committed.offsets[ORDERS] = 25
    await home.stop()
    disk.crash(random)
    home = make_dir(disk)
    assert await home.start("cluster-a", 1, configs) == []
    assert (home.names, home.logs) == ({ORDERS, OTHER}, {})
    assert offsets(home.open(ORDERS, CONFIG)) == list(range(30))
    other = home.open(OTHER, CONFIG)
    assert (other.start, other.end, other.recovery_point) == (7, 30, 30)
    assert home.open(OTHER, CONFIG) is other
    assert home.committed.offsets == {ORDERS: 25}
    assert (home.topic_id(ORDERS), other.resting) == (TOPIC_ID, True)
    home.check_topic_id(ORDERS, TOPIC_ID)
    with pytest.raises(InconsistentTopicId):
        home.check_topic_id(ORDERS, UUID(int=5))


async def test_a_stop_that_changed_nothing_writes_little(random: Random) -> None:
    disk = VirtualDisk(random)
    home = await started(disk)
    for n in range(50):
        fill(home.create(TopicPartition("t", n), TOPIC_ID, CONFIG), 3)
    await home.stop()
    home = await started(disk)
    for name in home.names:
        home.open(name, CONFIG)
    operations = disk.operations
    await home.stop()
    assert disk.operations - operations < 10


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("seed", range(5))
async def test_an_unclean_stop_is_recovered_once(random: Random, seed: int, power: bool) -> None:
    disk = VirtualDisk(random)
    home = await started(disk)
    fill(home.create(ORDERS, TOPIC_ID, CONFIG), 30)
    fill(home.create(OTHER, TOPIC_ID, CONFIG), 5)
    await home.logs[ORDERS].flush()
    append(home.logs[ORDERS], batch(30))
    if power:
        disk.crash(random)
    else:
        disk.kill()
    assert not disk.exists(f"/srv/data/{CLEAN}")
    home = make_dir(disk)
    reports = await home.start("cluster-a", 1, configs)
    found = {report.folder: report.end for report in reports}
    if power:
        assert found["/srv/data/orders-0"] >= 30
    else:
        assert found == {"/srv/data/orders-0": 31, "/srv/data/other.topic-7-12": 5}
    assert home.open(ORDERS, CONFIG).recovery_point == found["/srv/data/orders-0"]
    disk.kill()
    again = await make_dir(disk).start("cluster-a", 1, configs)
    assert sum(report.scanned_bytes for report in again) == 0


async def test_a_kill_on_a_machine_that_stayed_up_is_no_power_loss(random: Random) -> None:
    """Rot behind which data lies is kept apart then, and not taken for writes that got lost."""
    disk = VirtualDisk(random)
    home = await started(disk)
    fill(home.create(ORDERS, TOPIC_ID, CONFIG), 10)
    disk.kill()
    disk.rot("/srv/data/orders-0/00000000000000000000.log", 4 * len(batch(0)) + 62, b"rot")
    home = make_dir(disk)
    (report,) = await home.start("cluster-a", 1, configs)
    assert (report.end, [bad[:2] for bad in report.damaged]) == (10, [(4, 5)])
    assert home.open(ORDERS, CONFIG).damaged == tuple(report.damaged)


async def test_a_deleted_log_is_gone_at_once_and_its_bytes_later(random: Random) -> None:
    disk = VirtualDisk(random)
    home = await started(disk)
    log = home.create(ORDERS, TOPIC_ID, CONFIG)
    fill(log, 3)
    held = log.reader.read(0, 1000, 3)
    home.delete(ORDERS, delay_ms=1000)
    assert (home.names, home.logs) == (set(), {})
    assert held is not None
    assert len(held.file.read(held.size, held.position)) == held.size
    assert home.take_due() == []
    home.volume.clock.ms += 1000  # type: ignore[attr-defined]
    (folder,) = home.take_due()
    assert folder.startswith("/srv/data/orders-0.") and folder.endswith("-delete")
    await home.stop()
    again = await started(disk)
    assert again.names == set()
    assert again.take_due() == [folder]


async def test_a_topic_can_come_again_under_the_same_name(random: Random) -> None:
    disk = VirtualDisk(random)
    home = await started(disk)
    fill(home.create(ORDERS, TOPIC_ID, CONFIG), 30)
    home.checkpoint()
    home.delete(ORDERS)
    log = home.create(ORDERS, UUID(int=9), CONFIG)
    assert (log.start, log.end, log.recovery_point) == (0, 0, 0)
    assert home.topic_id(ORDERS) == UUID(int=9)


async def test_a_disk_that_fails_takes_its_logs_offline_and_nothing_else(random: Random) -> None:
    disk, good_disk = VirtualDisk(random), VirtualDisk(random)
    home, good = await started(disk), await started(good_disk)
    log, other = home.create(ORDERS, TOPIC_ID, CONFIG), home.create(OTHER, TOPIC_ID, CONFIG)
    fine = good.create(ORDERS, TOPIC_ID, CONFIG)
    disk.fail("write", "*orders-0*", errno.EIO)
    with pytest.raises(KafkaStorageError):
        append(log, batch(0))
    assert home.problem is not None
    for each in (log, other):
        with pytest.raises(KafkaStorageError, match="offline"):
            append(each, batch(0))
    with pytest.raises(KafkaStorageError, match="offline"):
        home.create(TopicPartition("new", 0), TOPIC_ID, CONFIG)
    append(fine, batch(0))
    await home.stop()
    assert not disk.exists(f"/srv/data/{CLEAN}")
    await good.stop()
    assert good_disk.exists(f"/srv/data/{CLEAN}")


async def test_a_disk_that_fails_at_the_start_is_offline(random: Random) -> None:
    disk = VirtualDisk(random)
    disk.fail("open", "*meta.properties*", errno.EIO)
    home = make_dir(disk)
    assert await home.start("cluster-a", 1, configs) == []
    assert home.problem is not None


async def test_sizes_are_known_of_logs_that_are_not_open(random: Random) -> None:
    disk = VirtualDisk(random)
    home = await started(disk)
    fill(home.create(ORDERS, TOPIC_ID, CONFIG), 30)
    size = home.size_of(ORDERS)
    assert size == 30 * len(batch(0))
    await home.stop()
    home = await started(disk)
    assert home.size_of(ORDERS) == size
    assert home.logs == {}


async def test_a_disk_that_is_full_at_the_stop_costs_a_recovery_and_no_doubt(random: Random) -> None:
    disk = VirtualDisk(random)
    home = await started(disk)
    fill(home.create(ORDERS, TOPIC_ID, CONFIG), 30)
    disk.fail("write", "*.snapshot", errno.ENOSPC)
    await home.stop()
    disk.heal()
    disk.kill()
    last = read_last_run(disk, "/srv/data")
    assert (last.clean, last.failed, last.power_lost) == (False, False, False)
    assert offsets((await started(disk)).open(ORDERS, CONFIG)) == list(range(30))


async def a_sync_fails(disk: VirtualDisk) -> None:
    home = await started(disk)
    log = home.create(ORDERS, TOPIC_ID, CONFIG)
    fill(log, 5)
    await log.flush()
    fill(log, 5)
    disk.fail("sync", "*.log", errno.EIO)
    with pytest.raises(KafkaStorageError, match="offline"):
        await log.flush()


@pytest.mark.parametrize("seed", range(5))
async def test_what_a_failed_disk_shows_is_written_again_even_if_no_file_could_be_made_then(
    random: Random, seed: int
) -> None:
    disk = VirtualDisk(random)
    disk.fail("name", "*/.disk-failed")
    await a_sync_fails(disk)
    disk.heal()
    disk.kill()
    last = read_last_run(disk, "/srv/data")
    assert (last.clean, last.failed, last.power_lost) == (False, True, False)
    home = await started(disk)
    assert home.open(ORDERS, CONFIG).end == 10
    disk.crash(random)
    assert offsets((await started(disk)).open(ORDERS, CONFIG)) == list(range(10))


@pytest.mark.parametrize("pattern", ["*.log", "/srv/data", "*.snapshot", "*.running.tmp"])
@pytest.mark.parametrize("seed", range(5))
async def test_a_disk_that_fails_again_during_recovery_is_not_believed_the_next_time(
    random: Random, seed: int, pattern: str
) -> None:
    disk = VirtualDisk(random)
    await a_sync_fails(disk)
    disk.kill()
    disk.fail("write" if pattern == "*.snapshot" else "sync", pattern, errno.EIO)
    assert (await started(disk)).problem is not None
    disk.heal()
    disk.kill()
    assert read_last_run(disk, "/srv/data").failed
    home = await started(disk)
    assert (home.problem, home.open(ORDERS, CONFIG).end) == (None, 10)
    disk.crash(random)
    assert offsets((await started(disk)).open(ORDERS, CONFIG)) == list(range(10))


async def test_a_disk_that_takes_no_note_of_its_failure_is_told_of(
    random: Random, caplog: pytest.LogCaptureFixture
) -> None:
    disk = VirtualDisk(random)
    home = await started(disk)
    disk.fail("name", "*/.disk-failed", errno.EROFS)
    disk.fail("write", "*/.running", errno.EROFS)
    home.volume.failed(OSError(errno.EROFS, "Read-only file system"), "append")
    assert "remove /srv/data/.running" in caplog.text
