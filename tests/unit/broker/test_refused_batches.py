"""What is answered to batches behind one that was refused."""

from __future__ import annotations

import gc
import weakref

from tests.conformance.batches import batch
from tidelog import errors
from tidelog.broker.refused_batches import BATCHES_MAX, KEPT_MS, PLACES_MAX, Refusals

FULL = errors.KafkaStorageError("the disk is full")


def gap(expected: int | None) -> errors.OutOfOrderSequenceNumber:
    problem = errors.OutOfOrderSequenceNumber()
    problem.expected = expected
    return problem


class Producer:
    def __init__(self) -> None:
        self.refusals = Refusals()
        self.now_ms = 0

    def told(
        self, sequence: int, problem: errors.TidelogError, producer: int = 1, epoch: int = 0, index: int = 0
    ) -> str:
        data = batch(producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        return self.refusals.answer("t", index, memoryview(data), problem, self.now_ms).name


def test_batches_behind_a_refused_one_get_its_answer() -> None:
    producer = Producer()
    assert producer.told(3, FULL) == "KAFKA_STORAGE_ERROR"
    assert producer.told(4, gap(3)) == producer.told(5, gap(3)) == "KAFKA_STORAGE_ERROR"


def test_a_gap_that_nobody_made_is_told() -> None:
    producer = Producer()
    producer.told(3, FULL)
    gaps = [
        producer.told(6, gap(4)),  # 3 was taken since
        producer.told(4, gap(3), producer=2),
        producer.told(4, gap(3), epoch=1),
        producer.told(4, gap(3), index=1),
        producer.told(2, gap(3)),  # from long ago
        producer.told(4, gap(None)),
    ]
    assert set(gaps) == {"OUT_OF_ORDER_SEQUENCE_NUMBER"}


def test_a_batch_that_is_not_sent_again_leaves_a_gap_after_a_while() -> None:
    producer = Producer()
    producer.told(3, FULL)
    producer.now_ms = KEPT_MS
    assert producer.told(4, gap(3)) == "KAFKA_STORAGE_ERROR"
    producer.now_ms += 1
    assert producer.told(4, gap(3)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_what_is_refused_for_good_is_not_waited_for() -> None:
    producer = Producer()
    producer.told(3, errors.RecordListTooLarge())
    assert producer.told(4, gap(3)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_other_bytes_and_batches_without_numbers_are_answered_as_they_are() -> None:
    refusals = Refusals()
    for data in (b"", b"nonsense", batch()):
        assert refusals.answer("t", 0, memoryview(data), FULL, 0) is FULL


def test_it_is_bounded_and_keeps_no_request_alive() -> None:
    producer = Producer()
    for index in range(PLACES_MAX + 1):
        producer.told(3, FULL, index=index)
    assert producer.told(4, gap(3), index=0) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert producer.told(4, gap(3), index=PLACES_MAX) == "KAFKA_STORAGE_ERROR"
    for sequence in range(BATCHES_MAX + 1):
        producer.told(sequence, FULL, producer=9)
    assert producer.told(9, gap(0), producer=9) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert producer.told(9, gap(1), producer=9) == "KAFKA_STORAGE_ERROR"

    class Frame: ...

    def refused() -> weakref.ref[Frame]:
        frame = Frame()
        try:
            raise errors.KafkaStorageError("full")
        except errors.KafkaStorageError as problem:
            producer.told(7, problem)
        return weakref.ref(frame)

    frame = refused()
    gc.collect()
    assert frame() is None
