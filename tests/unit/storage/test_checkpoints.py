"""Small text files, in Kafka's format."""

from __future__ import annotations

from threading import Event, Thread
from uuid import UUID

import pytest

from tests.unit.storage.making import make_volume
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import CorruptCheckpoint, OffsetFile
from tidelog.testing import VirtualDisk
from tidelog.types import TopicPartition

ORDERS = TopicPartition("orders", 3)
PATH = "/data/points"


def test_offsets_are_written_as_kafka_writes_them() -> None:
    data = checkpoints.encode_offsets({ORDERS: 42, TopicPartition("a.b-c_d", 0): 0})
    assert data == b"0\n2\norders 3 42\na.b-c_d 0 0\n"
    assert checkpoints.decode_offsets(data) == {ORDERS: 42, TopicPartition("a.b-c_d", 0): 0}


def test_epochs_are_written_as_kafka_writes_them() -> None:
    assert checkpoints.encode_epochs([(0, 0), (4, 17)]) == b"0\n2\n0 0\n4 17\n"
    assert checkpoints.decode_epochs(b"0\n2\n0 0\n4 17\n") == [(0, 0), (4, 17)]


def test_a_topic_id_is_written_as_kafka_writes_it() -> None:
    topic_id = UUID("6e1bb8c4-4b5a-4bf3-9f6e-70f8c4bdbd11")
    data = checkpoints.encode_topic_id(topic_id)
    assert data == b"version: 0\ntopic_id: bhu4xEtaS_OfbnD4xL29EQ\n"
    assert checkpoints.decode_topic_id(data) == topic_id


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\norders 3 42\n",
        b"0\n1\norders 3\n",
        b"0\n1\na b c\n",
        b"\xff\xfe\n",
        b"0\nx\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        checkpoints.decode_offsets(data)


@pytest.mark.parametrize(
    "data", [b"", b"version: 0\n", b"topic_id: short\n", b"topic_id: %%%%%%%%%%%%%%%%%%%%%%\n"]
)
def test_what_is_no_topic_id_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        checkpoints.decode_topic_id(data)


def test_a_file_is_written_only_when_something_changed() -> None:
    disk = make_volume().disk
    points = OffsetFile(disk, PATH)
    points.load()
    points.offsets[ORDERS] = 5
    points.save()
    operations = disk.operations  # type: ignore[attr-defined]
    points.save()
    assert disk.operations == operations  # type: ignore[attr-defined]
    again = OffsetFile(disk, PATH)
    again.load()
    assert again.offsets == {ORDERS: 5}


def test_a_corrupt_file_knows_nothing() -> None:
    disk = make_volume().disk
    disk.replace_file(PATH, b"rubbish")
    points = OffsetFile(disk, PATH)
    points.load()
    assert points.offsets == {}


def test_what_is_lowered_is_lower_on_disk_at_once() -> None:
    disk = make_volume().disk
    points = OffsetFile(disk, PATH)
    points.offsets[ORDERS] = 50
    points.save()
    points.offsets[ORDERS] = 80  # learned since, not saved
    points.lower(ORDERS, 30)
    assert checkpoints.decode_offsets(disk.read_file(PATH)) == {ORDERS: 30}
    points.lower(ORDERS, 60)
    assert points.offsets == {ORDERS: 30}
    points.offsets[ORDERS] = 80
    points.lower(ORDERS, 60)  # what is on disk is lower, what would be saved next is not
    points.save()
    assert checkpoints.decode_offsets(disk.read_file(PATH)) == {ORDERS: 60}


class HeldDisk(VirtualDisk):
    """A file is replaced only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = Event(), Event()

    def replace_file(self, path: str, data: bytes) -> None:
        self.begun.set()
        self.go_on.wait()
        super().replace_file(path, data)


def test_an_offset_that_is_forgotten_while_it_is_saved_is_not_on_disk() -> None:
    disk = HeldDisk()
    make_volume(disk)
    points = OffsetFile(disk, PATH)
    points.offsets[ORDERS] = 42
    saving = Thread(target=points.save)
    saving.start()
    disk.begun.wait()
    forgetting = Thread(target=points.forget, args=(ORDERS,))
    forgetting.start()
    forgetting.join(0.05)  # it need not wait if it took another way
    disk.go_on.set()
    saving.join()
    forgetting.join()
    assert checkpoints.decode_offsets(disk.read_file(PATH)) == {}
