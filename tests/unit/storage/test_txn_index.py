"""The index of aborted transactions: its entries, its searches, and what becomes of it when a log is cut, rolled, moved,
recovered or deleted."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from tests.unit.storage.making import FOLDER, NAME, NOW_MS, make_volume
from tidelog.config import TopicConfig
from tidelog.errors import KafkaStorageError
from tidelog.record import BatchBuilder
from tidelog.replication.partition import Ending, Enlisted, Partition
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import SystemDisk
from tidelog.storage.loading import Torn
from tidelog.storage.log import Log
from tidelog.storage.recovery import Recovery
from tidelog.storage.segments.segment_files import TXN_INDEX, stem
from tidelog.storage.segments.txn_index import Aborted, TxnIndex, decode, sane
from tidelog.testing import VirtualDisk
from tidelog.types import Epoch, NodeId

pytestmark = pytest.mark.simulated

CONFIG = TopicConfig(segment_bytes=1 << 20, file_delete_delay_ms=0)
NODE = NodeId(1)


def test_entries_are_kafkas(tmp_path: Path) -> None:
    assert Aborted(1, 2, 3, 4).encode().hex() == "0000" + "".join(f"{n:016x}" for n in (1, 2, 3, 4))
    index = TxnIndex(SystemDisk(), str(tmp_path / "x"))
    assert not (tmp_path / "x").exists(), "a segment without any has no file"
    index.append(Aborted(1, 2, 3, 4))
    assert list(decode((tmp_path / "x").read_bytes())) == [Aborted(1, 2, 3, 4)]


def test_a_search_ends_where_no_later_transaction_can_have_records() -> None:
    index = TxnIndex(VirtualDisk(), "/x")
    entries = [Aborted(1, 0, 5, 3), Aborted(2, 3, 9, 10), Aborted(1, 10, 12, 13), Aborted(3, 20, 22, 23)]
    for entry in entries:
        index.append(entry)
    assert index.between(0, 10) == (entries[:2], True)
    assert index.between(0, 11) == (entries[:3], True)
    assert index.between(6, 30) == (entries[1:], False)
    assert index.between(23, 30) == ([], False)
    index.truncate_to(12)
    assert list(index) == entries[:2]
    assert list(TxnIndex.read(index._disk, "/x")) == entries[:2]


@pytest.mark.parametrize(
    ("data", "good"),
    [
        (b"", True),
        (Aborted(1, 2, 5, 6).encode() + Aborted(1, 6, 7, 8).encode(), True),
        (Aborted(1, 2, 5, 6).encode()[:-1], False),
        (Aborted(1, 2, 4, 6).encode(), False),
        (Aborted(1, 6, 7, 8).encode() + Aborted(1, 2, 5, 6).encode(), False),
        (Aborted(1, 9, 7, 8).encode(), False),
        (b"\1" + Aborted(1, 2, 5, 6).encode()[1:], False),
    ],
)
def test_what_cannot_be_an_index_is_noticed(data: bytes, good: bool) -> None:
    assert sane(data, 5) is good


class Writer:
    """A log with transactions of two producers, one of which spans a roll."""

    def __init__(self, volume: Volume) -> None:
        self.volume = volume
        self.log = Log.open(volume, FOLDER, NAME, CONFIG)
        self.partition = Partition(NAME, bytes(16), NODE, self.log)
        self.partition.led(NODE, Epoch(0), frozenset((NODE,)), 1)
        self._epochs: dict[int, int] = {}

    def write(self, producer: int) -> None:
        builder = BatchBuilder()
        builder.add(b"k", b"v", NOW_MS)
        epoch = self._epochs.setdefault(producer, 0)
        known = self.log.producers.get(producer)
        sequence = known.next_sequence if known is not None and known.epoch == epoch else 0
        batch = builder.build(
            producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        self.partition.append(memoryview(bytearray(batch)), NOW_MS, True, Enlisted(True))

    def end(self, producer: int, commit: bool) -> None:
        self._epochs[producer] += 1
        self.partition.append_marker(Ending(producer, self._epochs[producer], 0, commit, 2), NOW_MS)

    def fill(self) -> list[Aborted]:
        """What was aborted."""
        self.write(1)
        self.write(2)
        self.end(2, commit=False)
        self.log.roller.roll()
        self.write(2)
        self.end(1, commit=False)
        self.end(2, commit=True)
        self.log.roller.roll()
        self.write(1)
        self.end(1, commit=False)
        self.write(2)
        return [Aborted(2, 1, 2, 0), Aborted(1, 0, 4, 3), Aborted(1, 6, 7, 8)]


def found(log: Log) -> list[Aborted]:
    return log.aborted(log.start, log.end)


def test_transactions_are_found_in_the_segments_of_their_markers() -> None:
    writer = Writer(make_volume())
    aborted = writer.fill()
    assert found(writer.log) == aborted
    assert [list(segment.indexes.transactions) for segment in writer.log.segments] == [
        [one] for one in aborted
    ]
    assert writer.log.aborted(0, 1) == [aborted[1]]
    assert writer.log.aborted(6, 9) == [aborted[2]]


def test_a_clean_start_finds_them() -> None:
    writer = Writer(make_volume())
    aborted = writer.fill()
    writer.log.close()
    assert found(Log.open(make_volume(writer.volume.disk), FOLDER, NAME, CONFIG)) == aborted


@pytest.mark.parametrize("recovery_point", [0, 2, 4, 9])
@pytest.mark.parametrize("harm", ["missing", "cut", "extra", "garbage"])
def test_recovery_builds_them_anew(recovery_point: int, harm: str) -> None:
    writer = Writer(make_volume())
    aborted = writer.fill()
    disk = writer.volume.disk
    for segment in writer.log.segments:
        path = stem(FOLDER, segment.base) + TXN_INDEX
        if harm == "missing":
            if segment.base >= recovery_point or segment is writer.log.segments.last:
                disk.remove(path)
        elif harm == "cut":
            disk.open(path).truncate(10)
        elif harm == "extra":
            disk.open(path).write(Aborted(9, 1, 1 << 40, 3).encode() + b"torn", 34)
        else:
            disk.open(path).write(Random(1).randbytes(34), 0)
    assert isinstance(disk, VirtualDisk)
    disk.kill()
    if harm == "missing" and recovery_point:
        recovery_point = max(recovery_point, writer.log.segments.last.base)
    Recovery(make_volume(disk), FOLDER, CONFIG, power_lost=False).run(0, recovery_point)
    log = Log.open(make_volume(disk), FOLDER, NAME, CONFIG, recovery_point=recovery_point)
    assert found(log) == aborted
    assert log.producers.first_unstable == 8


def test_an_index_that_rotted_after_a_clean_stop_sends_the_log_to_recovery() -> None:
    writer = Writer(make_volume())
    aborted = writer.fill()
    writer.log.close()
    disk = writer.volume.disk
    disk.open(stem(FOLDER, 3) + TXN_INDEX).truncate(33)
    with pytest.raises(Torn):
        Log.open(make_volume(disk), FOLDER, NAME, CONFIG)
    Recovery(make_volume(disk), FOLDER, CONFIG, power_lost=False).run(0, 1 << 60)
    assert found(Log.open(make_volume(disk), FOLDER, NAME, CONFIG)) == aborted


def test_cutting_and_deleting_take_their_entries_along() -> None:
    writer = Writer(make_volume())
    aborted = writer.fill()
    log = writer.log
    log.truncate_to(7)
    assert found(log) == aborted[:2] and log.producers.first_unstable == 6
    log.truncate_to(4)
    assert found(log) == aborted[:1]
    log.advance_start(3)
    log.reconfigure(replace(CONFIG, retention_ms=1))
    log.cutter.apply_retention(4)
    assert log.start == 3 and found(log) == []
    names = writer.volume.disk.list(FOLDER)
    assert not [name for name in names if name.endswith(TXN_INDEX) and name.startswith("0" * 20)]


def test_a_marker_from_before_a_restart_is_undone_when_it_is_cut() -> None:
    writer = Writer(make_volume())
    writer.write(1)
    writer.end(1, commit=False)
    writer.log.close()
    log = Log.open(make_volume(writer.volume.disk), FOLDER, NAME, CONFIG)
    log.truncate_to(1)
    assert found(log) == []
    assert log.producers.first_unstable == 0


def replicated(leader: Writer, follower: Partition) -> None:
    """All that the leader has and the follower has not, in one fetch."""
    part = leader.log.reader.read(follower.log.next, 1 << 20, leader.log.end)
    assert part is not None
    follower.replicate(memoryview(part.file.read(part.size, part.position)))


def a_follower(disk: VirtualDisk, config: TopicConfig = CONFIG) -> tuple[Volume, Partition]:
    volume = make_volume(disk)
    follower = Partition(NAME, bytes(16), NodeId(2), Log.open(volume, FOLDER, NAME, config))
    follower.led(NODE, Epoch(0), frozenset((NODE, NodeId(2))), 2)
    return volume, follower


@pytest.mark.parametrize("times", [1, 2, 1000])
@pytest.mark.parametrize("operation", ["open", "write"])
@pytest.mark.parametrize("end", ["kill", "close", "close while full"])
def test_a_full_disk_costs_a_follower_no_aborted_transaction(
    times: int, operation: Literal["open", "write"], end: str
) -> None:
    leader, disk = Writer(make_volume()), VirtualDisk()
    volume, follower = a_follower(disk)
    leader.write(1)
    leader.write(2)
    leader.end(1, commit=False)
    leader.write(1)
    leader.end(2, commit=False)
    disk.fail(operation, "*.txnindex", errno.ENOSPC, times)
    replicated(leader, follower)
    leader.end(1, commit=False)
    replicated(leader, follower)
    aborted = found(leader.log)
    assert volume.problem is None
    assert (follower.log.end, found(follower.log)) == (leader.log.end, aborted)
    assert follower.log.producers.unstable_below(follower.log.end) is None
    if end == "close while full" and times == 1000:
        with pytest.raises(OSError, match="space"):
            follower.log.close()
    disk.heal()
    if end == "close":
        follower.log.close()
    disk.kill()
    if end != "close":
        Recovery(make_volume(disk), FOLDER, CONFIG, power_lost=False).run(0, leader.log.end)
    assert found(Log.open(make_volume(disk), FOLDER, NAME, CONFIG)) == aborted


def test_a_sealed_segment_has_all_entries_on_disk() -> None:
    leader, disk = Writer(make_volume()), VirtualDisk()
    volume, follower = a_follower(disk)
    leader.write(1)
    leader.end(1, commit=False)
    disk.fail("write", "*.txnindex", errno.ENOSPC, 2)
    replicated(leader, follower)
    with pytest.raises(KafkaStorageError, match="full"):
        follower.log.roller.roll()
    assert volume.problem is None
    assert len(follower.log.segments) == 1
    follower.log.roller.roll()
    assert list(TxnIndex.read(disk, stem(FOLDER, 0) + TXN_INDEX)) == found(leader.log)


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("pattern", ["*.txnindex", "*.log"])
async def test_a_full_disk_undoes_a_marker_whose_sync_was_waited_for(
    random: Random, follows: bool, pattern: str
) -> None:
    config = replace(CONFIG, flush_messages=1)
    disk = VirtualDisk(random)
    leader = Writer(make_volume() if follows else make_volume(disk))
    leader.write(1)
    volume, log = leader.volume, leader.log
    if follows:
        volume, follower = a_follower(disk)
        replicated(leader, follower)
        log = follower.log
    log.reconfigure(config)
    disk.fail("write", pattern, errno.ENOSPC)
    if follows:
        leader.end(1, commit=False)
        replicated(leader, follower)
    else:
        with suppress(KafkaStorageError):
            leader.end(1, commit=False)
    if log.appender.durable is not None:
        with suppress(KafkaStorageError):
            await log.appender.durable
    assert volume.problem is None
    if log.end == 1:
        assert (log.next, found(log), log.producers.first_unstable) == (1, [], 0)
        if follows:
            replicated(leader, follower)
        else:
            leader.end(1, commit=False)
        assert log.appender.durable is not None
        await log.appender.durable
    assert found(log) == [Aborted(1, 0, 1, 2)]
    disk.crash(random)
    Recovery(make_volume(disk), FOLDER, CONFIG, power_lost=True).run(0, 0)
    assert found(Log.open(make_volume(disk), FOLDER, NAME, CONFIG)) == [Aborted(1, 0, 1, 2)]


def test_a_full_disk_leaves_neither_marker_nor_entry() -> None:
    writer = Writer(make_volume())
    disk = writer.volume.disk
    assert isinstance(disk, VirtualDisk)
    writer.write(1)
    for pattern in ("*.txnindex", "*.log"):
        disk.fail("write", pattern, 28)
        with pytest.raises(Exception, match="full"):
            writer.partition.append_marker(Ending(1, 1, 0, False, 2), NOW_MS)
        assert writer.log.end == 1 and found(writer.log) == []
        assert writer.log.producers.first_unstable == 0
    writer.end(1, commit=False)
    assert found(writer.log) == [Aborted(1, 0, 1, 2)]
    writer.log.close()
    assert found(Log.open(make_volume(disk), FOLDER, NAME, CONFIG)) == [Aborted(1, 0, 1, 2)]
