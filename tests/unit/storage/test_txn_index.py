"""The index of aborted transactions: its entries, its searches, and what becomes of it when a log is cut, rolled, moved,
recovered or deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.unit.storage.making import FOLDER, NAME, NOW_MS, make_volume
from tidelog.config import TopicConfig
from tidelog.record import BatchBuilder
from tidelog.replication.partition import Ending, Enlisted, Partition
from tidelog.storage.disk import SystemDisk
from tidelog.storage.loading import Torn
from tidelog.storage.log import Log
from tidelog.storage.recovery import Recovery
from tidelog.storage.segment import TXN_INDEX, stem
from tidelog.storage.txn_index import Aborted, TxnIndex, decode, sane
from tidelog.storage.volume import Volume
from tidelog.testing import VirtualDisk
from tidelog.types import Epoch, NodeId

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
        self.log.roll()
        self.write(2)
        self.end(1, commit=False)
        self.end(2, commit=True)
        self.log.roll()
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
    assert [list(segment.transactions) for segment in writer.log.segments] == [[one] for one in aborted]
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
    log.apply_retention(4)
    assert log.start == 3 and found(log) == []
    names = writer.volume.disk.list(FOLDER)
    assert not [name for name in names if name.endswith(TXN_INDEX) and name.startswith("0" * 20)]


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
