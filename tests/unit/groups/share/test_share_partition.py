from __future__ import annotations

import pytest

from tidelog import errors
from tidelog.groups.share.partition import (
    Ack,
    Acknowledgement,
    Acquired,
    Change,
    SharePartition,
    Span,
    State,
    StateBatch,
    Terms,
    Wish,
    check_acknowledgements,
)

TERMS = Terms(deliveries_max=5, locks_max=100, lock_ms=1_000, dead_letters=False, renewals=True)


def given(
    partition: SharePartition,
    *spans: Span,
    member: str = "ann",
    most: int = 100,
    strict: bool = False,
    terms: Terms = TERMS,
) -> list[Acquired]:
    return partition.acquire(Wish(member, most, 0, strict), spans, terms, 0).acquired


def acknowledged(
    partition: SharePartition, first: int, last: int, kind: Ack, member: str = "ann", terms: Terms = TERMS
) -> Change:
    return partition.acknowledge(member, [Acknowledgement(first, last, [kind])], terms, 0)


def test_the_start_of_the_log_may_move_into_what_is_being_acknowledged() -> None:
    partition = SharePartition(0)
    given(partition, Span(0, 9))
    change = acknowledged(partition, 0, 9, Ack.ACCEPT)
    partition.log_started(5)
    partition.confirmed(change)
    assert (partition.start, partition.end, len(partition.runs)) == (10, 10, 0)


def test_the_outlook_is_what_will_be_once_everything_under_way_is_written() -> None:
    partition = SharePartition(0)
    given(partition, Span(0, 9))
    acknowledged(partition, 0, 2, Ack.ACCEPT)
    assert partition.outlook() == (3, 0)
    acknowledged(partition, 3, 3, Ack.RELEASE)
    acknowledged(partition, 5, 6, Ack.REJECT)
    assert partition.outlook() == (3, 2)
    assert partition.start == 0


def test_a_picture_has_what_is_under_way_and_leaves_out_what_is_held() -> None:
    partition = SharePartition(0, [StateBatch(2, 3, State.AVAILABLE, 2)])
    given(partition, Span(0, 9), most=2, strict=True)
    given(partition, Span(4, 9), member="ben")
    acknowledged(partition, 5, 5, Ack.ACCEPT, member="ben")
    assert partition.picture() == [
        StateBatch(2, 3, State.AVAILABLE, 2),
        StateBatch(5, 5, State.ACKNOWLEDGED, 1),
    ]


def test_what_could_not_be_written_is_still_with_the_member() -> None:
    partition = SharePartition(0)
    given(partition, Span(0, 3))
    change = acknowledged(partition, 0, 3, Ack.ACCEPT)
    with pytest.raises(errors.InvalidRecordState):
        acknowledged(partition, 0, 0, Ack.ACCEPT)
    assert partition.expired(5_000, TERMS).batches == []
    partition.undone(change)
    partition.confirmed(acknowledged(partition, 0, 3, Ack.ACCEPT))
    assert partition.start == 4


def test_records_that_keep_coming_back_are_given_in_smaller_parts_and_at_last_alone() -> None:
    partition = SharePartition(0)
    sizes = []
    for _ in range(5):
        (one, *rest) = given(partition, Span(0, 7))
        assert not rest
        sizes.append((one.last - one.first + 1, one.deliveries))
        partition.released("ann", TERMS)
    assert sizes[:4] == [(8, 1), (8, 2), (8, 3), (4, 4)]
    assert sizes[4] == (1, 5)


def test_a_record_on_its_last_delivery_waits_until_it_is_alone() -> None:
    partition = SharePartition(
        0, [StateBatch(0, 0, State.AVAILABLE, 1), StateBatch(1, 1, State.AVAILABLE, 4)]
    )
    assert given(partition, Span(0, 1)) == [Acquired(0, 0, 2)]
    assert given(partition, Span(1, 1)) == [Acquired(1, 1, 5)]


def test_with_two_deliveries_nothing_is_given_alone() -> None:
    terms = TERMS._replace(deliveries_max=2)
    partition = SharePartition(0)
    given(partition, Span(0, 7), terms=terms)
    partition.released("ann", terms)
    assert given(partition, Span(0, 7), terms=terms) == [Acquired(0, 7, 2)]


def test_new_records_stay_within_the_bound_and_those_that_came_back_are_given_past_it() -> None:
    terms = TERMS._replace(locks_max=4)
    partition = SharePartition(0)
    assert given(partition, Span(0, 2), Span(3, 5), Span(6, 8), terms=terms) == [Acquired(0, 5, 1)]
    assert not partition.has_room(terms)
    partition.confirmed(acknowledged(partition, 3, 3, Ack.RELEASE))
    assert partition.has_room(terms)
    assert given(partition, Span(3, 5), Span(6, 8), terms=terms) == [Acquired(3, 3, 2)]


def test_what_is_given_up_waits_for_its_copy_when_there_is_a_topic_for_it() -> None:
    terms = TERMS._replace(dead_letters=True, deliveries_max=2)
    partition = SharePartition(0, [StateBatch(0, 0, State.AVAILABLE, 1)])
    given(partition, Span(0, 2), terms=terms)
    change = acknowledged(partition, 1, 1, Ack.REJECT, terms=terms)
    assert change.batches == [StateBatch(1, 1, State.ARCHIVING, 1)]
    partition.confirmed(change)
    partition.expired(5_000, terms)
    assert [(run.first, run.rejected) for run in partition.letters()] == [(0, False), (1, True)]
    assert partition.start == 0
    partition.confirmed(partition.copied(0, 1))
    assert (partition.start, partition.letters()) == (2, [])


def test_empty_offsets_are_passed_over_and_remembered() -> None:
    partition = SharePartition(0)
    grant = partition.acquire(
        Wish("ann", 100, 0, False), [Span(0, 1, True), Span(2, 3), Span(4, 4, True)], TERMS, 0
    )
    assert grant.acquired == [Acquired(2, 3, 1)]
    assert grant.skipped.batches == [StateBatch(0, 1, State.ARCHIVED, 0), StateBatch(4, 4, State.ARCHIVED, 0)]
    assert (partition.start, partition.end) == (2, 5)


def test_what_was_persisted_comes_back_and_what_lies_between_is_new() -> None:
    partition = SharePartition(
        3,
        [
            StateBatch(3, 4, State.ACKNOWLEDGED, 1),
            StateBatch(7, 8, State.AVAILABLE, 2),
            StateBatch(9, 9, State.ARCHIVED, 5),
        ],
    )
    assert (partition.start, partition.end, partition.next_offset()) == (5, 10, 5)
    assert given(partition, Span(5, 11)) == [Acquired(5, 6, 1), Acquired(7, 8, 3), Acquired(10, 11, 1)]


@pytest.mark.parametrize(
    "batches",
    [
        [Acknowledgement(3, 2, [1])],
        [Acknowledgement(0, 0, [])],
        [Acknowledgement(0, 2, [1, 1])],
        [Acknowledgement(0, 0, [5])],
        [Acknowledgement(0, 0, [-1])],
        [Acknowledgement(0, 0, [Ack.RENEW])],
        [Acknowledgement(5, 6, [1]), Acknowledgement(0, 1, [1])],
    ],
)
def test_acknowledgements_that_cannot_be_are_refused(batches: list[Acknowledgement]) -> None:
    with pytest.raises(errors.InvalidRequest):
        check_acknowledgements(batches, renewals=False)


def test_offsets_that_are_acknowledged_twice_in_one_request_change_nothing() -> None:
    partition = SharePartition(0)
    given(partition, Span(0, 3))
    twice = [Acknowledgement(0, 2, [Ack.ACCEPT]), Acknowledgement(2, 3, [Ack.ACCEPT])]
    with pytest.raises(errors.InvalidRecordState):
        partition.acknowledge("ann", twice, TERMS, 0)
    assert partition.outlook() == (0, 0)
