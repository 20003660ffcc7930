"""Idempotent producers: what is new, what is a repetition, what is refused."""

from __future__ import annotations

import pytest

from tests.unit.storage.making import NOW_MS, batch
from tidelog._speed.log.batch import Header, header_at
from tidelog._speed.log.records import Record
from tidelog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    UnknownProducerId,
)
from tidelog.record.builder import build_batch
from tidelog.storage.producer_state.producers import SEQUENCE_MAX, CorruptSnapshot, Producers

ID = 7


def header(
    sequence: int, count: int = 1, epoch: int = 0, transactional: bool = False, producer: int = ID
) -> Header:
    records = [Record(n, NOW_MS + n, None, b"v", ()) for n in range(count)]
    data = build_batch(
        records,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    found = header_at(data)
    assert found is not None
    return found


def send(producers: Producers, offset: int, it: Header) -> None:
    assert producers.check(it) is None
    producers.appended(it, offset)


def test_a_batch_that_continues_the_numbers_is_new() -> None:
    producers = Producers()
    send(producers, 0, header(0, 3))
    send(producers, 3, header(3, 2))
    send(producers, 5, header(5))


def test_one_of_the_last_five_is_answered_with_its_first_copy() -> None:
    producers = Producers()
    for n in range(6):
        send(producers, 100 + 2 * n, header(2 * n, 2))
    for n in range(1, 6):
        found = producers.check(header(2 * n, 2))
        assert found is not None
        assert (found.base_offset, found.last_offset, found.timestamp) == (
            100 + 2 * n,
            101 + 2 * n,
            NOW_MS + 1,
        )
    with pytest.raises(OutOfOrderSequenceNumber):
        producers.check(header(0, 2))


def test_a_repetition_with_another_range_is_refused() -> None:
    producers = Producers()
    send(producers, 0, header(0, 3))
    for it in (header(0, 2), header(1, 2), header(1, 3)):
        with pytest.raises(OutOfOrderSequenceNumber):
            producers.check(it)


def test_a_gap_is_refused() -> None:
    producers = Producers()
    send(producers, 0, header(0))
    with pytest.raises(OutOfOrderSequenceNumber, match="1 is next"):
        producers.check(header(2))


def test_an_unknown_producer_may_start_anywhere() -> None:
    producers = Producers()
    send(producers, 0, header(41))
    send(producers, 1, header(42))


def test_numbers_wrap_at_the_largest() -> None:
    producers = Producers()
    send(producers, 0, header(SEQUENCE_MAX - 1, 2))
    send(producers, 2, header(0))
    other = Producers()
    send(other, 0, header(SEQUENCE_MAX - 1, 4))
    assert other.get(ID).last_sequence == 1  # type: ignore[union-attr]
    send(other, 4, header(2))


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one() -> None:
    producers = Producers()
    send(producers, 0, header(0, 5))
    with pytest.raises(OutOfOrderSequenceNumber, match="not 0"):
        producers.check(header(5, epoch=1))
    send(producers, 5, header(0, epoch=1))
    with pytest.raises(InvalidProducerEpoch):
        producers.check(header(1, epoch=0))
    assert producers.check(header(0, epoch=1)) is not None


def test_an_open_transaction_bounds_what_is_stable() -> None:
    producers = Producers()
    assert producers.first_unstable is None
    send(producers, 10, header(0, transactional=True))
    send(producers, 11, header(0, transactional=True, producer=8))
    send(producers, 12, header(1, transactional=True))
    assert producers.first_unstable == 10
    with pytest.raises(InvalidTxnState, match="10"):
        producers.check(header(2))
    assert producers.ended(ID, 0, 3, offset=13, timestamp=NOW_MS) == 10
    assert producers.first_unstable == 10  # its marker is not replicated yet
    producers.committed(14)
    assert producers.first_unstable == 11
    send(producers, 14, header(2))
    assert producers.ended(9, 0, 3, offset=15, timestamp=NOW_MS) == -1


def test_a_marker_with_a_new_epoch_fences() -> None:
    producers = Producers()
    send(producers, 0, header(0, transactional=True))
    producers.ended(ID, 1, 0, offset=1, timestamp=NOW_MS)
    with pytest.raises(InvalidProducerEpoch):
        producers.check(header(1, transactional=True))
    send(producers, 2, header(0, epoch=1, transactional=True))


def test_a_copy_of_a_batch_is_one_only_in_its_own_transaction() -> None:
    producers = Producers()
    send(producers, 0, header(0, 2, transactional=True))
    assert producers.check(header(0, 2, transactional=True)) is not None
    producers.ended(ID, 0, 1, 2, NOW_MS)
    for _ in range(2):  # nothing open, then the next one open
        with pytest.raises(UnknownProducerId, match="at offset 0, belongs to one that has ended"):
            producers.check(header(0, 2, transactional=True))
        if not producers.has_open(ID, 0):
            send(producers, 3, header(2, transactional=True))
    found = producers.check(header(2, transactional=True))
    assert found is not None and found.base_offset == 3


def test_silent_producers_expire_unless_a_transaction_is_open() -> None:
    producers = Producers()
    send(producers, 0, header(0))
    send(producers, 1, header(0, transactional=True, producer=8))
    assert producers.expire(NOW_MS - 1) == 0
    assert producers.expire(NOW_MS) == 1
    assert [each.id for each in producers] == [8]
    send(producers, 2, header(40))


def test_a_snapshot_brings_everything_back() -> None:
    producers = Producers()
    for n in range(7):
        send(producers, n, header(n))
    send(producers, 7, header(0, 2, epoch=3, transactional=True, producer=8))
    producers.ended(9, 2, 5, offset=9, timestamp=NOW_MS + 9)
    again = Producers()
    assert again.restore(producers.snapshot(10)) == 10
    assert again.snapshot(10) == producers.snapshot(10)
    assert again.first_unstable == 7
    assert again.check(header(6)) == producers.check(header(6))
    with pytest.raises(OutOfOrderSequenceNumber):
        again.check(header(1))


def test_no_byte_of_a_snapshot_can_change_unnoticed() -> None:
    producers = Producers()
    send(producers, 0, header(0))
    data = producers.snapshot(1)
    for at in range(len(data)):
        for torn in (data[:at], data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]):
            again = Producers()
            with pytest.raises(CorruptSnapshot):
                again.restore(torn)
            assert len(again) == 0


def test_truncation_forgets_the_latest_batches() -> None:
    producers = Producers()
    for n in range(5):
        send(producers, 10 * n, header(n))
    assert producers.truncate_to(25)
    send(producers, 25, header(3))


def test_truncation_says_when_it_cannot_know() -> None:
    producers = Producers()
    send(producers, 10, header(0))
    assert not producers.truncate_to(5)
    marked = Producers()
    send(marked, 0, header(0, transactional=True))
    marked.ended(ID, 0, 0, offset=1, timestamp=NOW_MS)
    assert not marked.truncate_to(1)


def test_truncation_into_a_transaction_keeps_it_open() -> None:
    producers = Producers()
    send(producers, 0, header(0, transactional=True))
    send(producers, 1, header(1, transactional=True))
    assert producers.truncate_to(1)
    assert producers.first_unstable == 0


def test_a_header_is_taken_before_it_is_stamped() -> None:
    producers = Producers()
    it = header_at(batch(0, 2, producer=(ID, 0, 0)))
    assert it is not None
    producers.appended(it, 500)
    found = producers.check(it)
    assert found is not None
    assert (found.base_offset, found.last_offset) == (500, 501)
