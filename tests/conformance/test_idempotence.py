"""Idempotent producers: duplicates, gaps, epochs, five batches in flight."""

from __future__ import annotations

from typing import Any

from tests.conformance.batches import batch
from tests.conformance.raw import Connection
from tests.conformance.topics import append, list_offset, new_producer_id, produce, values


class Producer:
    """Sends batches with the sequence numbers it is told to use."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.connection, self.topic = connection, topic
        self.id, self.epoch = new_producer_id(connection)

    def batch(self, sequence: int, count: int = 1, epoch: int | None = None) -> bytes:
        records = [b"%d" % (sequence + i) for i in range(count)]
        epoch = self.epoch if epoch is None else epoch
        return batch(records, producer_id=self.id, producer_epoch=epoch, base_sequence=sequence)

    def send(self, sequence: int, count: int = 1, epoch: int | None = None) -> Any:
        return produce(self.connection, self.topic, self.batch(sequence, count, epoch))


def test_producer_ids_are_unique_and_begin_at_epoch_0(connection: Connection) -> None:
    given = [new_producer_id(connection) for _ in range(20)]
    assert len({producer_id for producer_id, _ in given}) == 20
    assert {epoch for _, epoch in given} == {0}


def test_a_duplicate_is_answered_with_the_first_offset(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic())
    assert producer.send(0, count=3).base_offset == 0
    assert producer.send(3, count=2).base_offset == 3
    again = producer.send(0, count=3)
    assert (again.error_code, again.base_offset) == (0, 0)
    again = producer.send(3, count=2)
    assert (again.error_code, again.base_offset) == (0, 3)
    assert values(connection, producer.topic) == [b"0", b"1", b"2", b"3", b"4"]


def test_the_last_five_batches_are_remembered(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic())
    for sequence in range(6):
        assert producer.send(sequence).error_code == 0
    for sequence in range(1, 6):
        assert producer.send(sequence).base_offset == sequence
    forgotten = producer.send(0)
    assert forgotten.error_code.name in {"out_of_order_sequence_number", "duplicate_sequence_number"}
    assert len(values(connection, producer.topic)) == 6


def test_a_gap_is_refused(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic())
    assert producer.send(0).error_code == 0
    assert producer.send(2).error_code.name == "out_of_order_sequence_number"
    assert producer.send(1).error_code == 0
    assert values(connection, producer.topic) == [b"0", b"1"]


def test_an_overlapping_batch_is_not_a_duplicate(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic())
    assert producer.send(0, count=3).error_code == 0
    assert producer.send(1, count=3).error_code.name == "out_of_order_sequence_number"
    assert producer.send(0, count=2).error_code.name == "out_of_order_sequence_number"


def test_an_unknown_producer_may_begin_anywhere(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic())
    assert producer.send(42).error_code == 0
    assert producer.send(43).error_code == 0


def test_an_older_epoch_is_fenced(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic())
    assert producer.send(0, epoch=3).error_code == 0
    assert producer.send(1, epoch=2).error_code.name == "invalid_producer_epoch"
    assert values(connection, producer.topic) == [b"0"]


def test_a_newer_epoch_begins_at_sequence_0(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic())
    assert producer.send(0).error_code == 0
    assert producer.send(1, epoch=1).error_code.name == "out_of_order_sequence_number"
    assert producer.send(0, epoch=1).error_code == 0
    assert producer.send(1, epoch=1).error_code == 0
    assert len(values(connection, producer.topic)) == 3


def test_sequences_wrap_to_0(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic())
    largest = 2**31 - 1
    assert producer.send(largest - 1, count=3).error_code == 0  # takes ..., largest, 0
    assert producer.send(1).error_code == 0


def test_five_batches_in_flight_keep_their_order(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic())
    for sequence in range(5):
        data = [
            {"name": producer.topic, "partition_data": [{"index": 0, "records": producer.batch(sequence)}]}
        ]
        connection.send("produce", 11, acks=-1, timeout=5000, topic_data=data)
    offsets = []
    for _ in range(5):
        _, answer = connection.receive("produce", 11)
        part = answer.responses[0].partition_responses[0]
        assert part.error_code == 0
        offsets.append(part.base_offset)
    assert offsets == [0, 1, 2, 3, 4]


def test_partitions_count_their_sequences_apart(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic(partitions=2))
    for partition in (0, 1):
        assert append(connection, producer.topic, producer.batch(0), partition) == 0
        assert append(connection, producer.topic, producer.batch(1), partition) == 1


def test_producers_do_not_disturb_each_other(connection: Connection, topic: Any) -> None:
    known = topic()
    one, two = Producer(connection, known), Producer(connection, known)
    assert [one.send(0).base_offset, two.send(0).base_offset, one.send(1).base_offset] == [0, 1, 2]
    append(connection, known, batch([b"plain"]))
    assert two.send(1).base_offset == 4
    assert one.send(0).base_offset == 0


def test_a_duplicate_leaves_the_end_of_the_log_alone(connection: Connection, topic: Any) -> None:
    producer = Producer(connection, topic())
    producer.send(0, count=4)
    producer.send(0, count=4)
    assert list_offset(connection, producer.topic, -1).offset == 4


def test_a_producer_id_needs_a_sequence(connection: Connection, topic: Any) -> None:
    answer = produce(connection, topic(), batch(producer_id=5, producer_epoch=0, base_sequence=-1))
    assert answer.error_code.name == "invalid_record"
