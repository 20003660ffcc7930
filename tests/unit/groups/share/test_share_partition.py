from __future__ import annotations

import pytest

from tidelog import errors
from tidelog.groups.share.in_flight import LetterReason
from tidelog.groups.share.partition import (
    AcknowledgedRange,
    AcknowledgeType,
    AcquiredRange,
    AcquireRequest,
    OffsetSpan,
    RecordState,
    SharePartition,
    ShareStateChange,
    ShareTerms,
    StateBatch,
    check_acknowledgements,
)

TERMS = ShareTerms(deliveries_max=5, locks_max=100, lock_ms=1_000, dead_letters=False, renewals=True)


def given(
    partition: SharePartition,
    *spans: OffsetSpan,
    member: str = "ann",
    most: int = 100,
    strict: bool = False,
    terms: ShareTerms = TERMS,
) -> list[AcquiredRange]:
    return partition.acquire(AcquireRequest(member, most, 0, strict), spans, terms, 0).acquired


def acknowledged(
    partition: SharePartition,
    first: int,
    last: int,
    kind: AcknowledgeType,
    member: str = "ann",
    terms: ShareTerms = TERMS,
) -> ShareStateChange:
    return partition.acknowledge(member, [AcknowledgedRange(first, last, [kind])], terms, 0)


def test_the_start_of_the_log_may_move_into_what_is_being_acknowledged() -> None:
    partition = SharePartition(0)
    given(partition, OffsetSpan(0, 9))
    change = acknowledged(partition, 0, 9, AcknowledgeType.ACCEPT)
    partition.log_started(5)
    partition.confirmed(change)
    assert (partition.start, partition.end, len(partition.runs)) == (10, 10, 0)


def test_the_outlook_is_what_will_be_once_everything_under_way_is_written() -> None:
    partition = SharePartition(0)
    given(partition, OffsetSpan(0, 9))
    acknowledged(partition, 0, 2, AcknowledgeType.ACCEPT)
    assert partition.outlook() == (3, 0)
    acknowledged(partition, 3, 3, AcknowledgeType.RELEASE)
    acknowledged(partition, 5, 6, AcknowledgeType.REJECT)
    assert partition.outlook() == (3, 2)
    assert partition.start == 0


def test_a_picture_has_what_is_under_way_and_leaves_out_what_is_held() -> None:
    partition = SharePartition(0, [StateBatch(2, 3, RecordState.AVAILABLE, 2)])
    given(partition, OffsetSpan(0, 9), most=2, strict=True)
    given(partition, OffsetSpan(4, 9), member="ben")
    acknowledged(partition, 5, 5, AcknowledgeType.ACCEPT, member="ben")
    assert partition.picture() == [
        StateBatch(2, 3, RecordState.AVAILABLE, 2),
        StateBatch(5, 5, RecordState.ACKNOWLEDGED, 1),
    ]


def test_what_could_not_be_written_is_still_with_the_member() -> None:
    partition = SharePartition(0)
    given(partition, OffsetSpan(0, 3))
    change = acknowledged(partition, 0, 3, AcknowledgeType.ACCEPT)
    with pytest.raises(errors.InvalidRecordState):
        acknowledged(partition, 0, 0, AcknowledgeType.ACCEPT)
    assert partition.expired(5_000, TERMS).batches == []
    partition.undone(change)
    partition.confirmed(acknowledged(partition, 0, 3, AcknowledgeType.ACCEPT))
    assert partition.start == 4


def test_records_that_keep_coming_back_are_given_in_smaller_parts_and_at_last_alone() -> None:
    partition = SharePartition(0)
    sizes = []
    for _ in range(5):
        (first, *rest) = given(partition, OffsetSpan(0, 7))
        assert not rest
        sizes.append((first.last - first.first + 1, first.deliveries))
        partition.released("ann", TERMS)
    assert sizes[:4] == [(8, 1), (8, 2), (8, 3), (4, 4)]
    assert sizes[4] == (1, 5)


def test_a_record_on_its_last_delivery_waits_until_it_is_alone() -> None:
    partition = SharePartition(
        0, [StateBatch(0, 0, RecordState.AVAILABLE, 1), StateBatch(1, 1, RecordState.AVAILABLE, 4)]
    )
    assert given(partition, OffsetSpan(0, 1)) == [AcquiredRange(0, 0, 2)]
    assert given(partition, OffsetSpan(1, 1)) == [AcquiredRange(1, 1, 5)]


def test_with_two_deliveries_nothing_is_given_alone() -> None:
    terms = TERMS._replace(deliveries_max=2)
    partition = SharePartition(0)
    given(partition, OffsetSpan(0, 7), terms=terms)
    partition.released("ann", terms)
    assert given(partition, OffsetSpan(0, 7), terms=terms) == [AcquiredRange(0, 7, 2)]


def test_new_records_stay_within_the_bound_and_those_that_came_back_are_given_past_it() -> None:
    terms = TERMS._replace(locks_max=4)
    partition = SharePartition(0)
    assert given(partition, OffsetSpan(0, 2), OffsetSpan(3, 5), OffsetSpan(6, 8), terms=terms) == [
        AcquiredRange(0, 5, 1)
    ]
    assert not partition.has_room(terms)
    partition.confirmed(acknowledged(partition, 3, 3, AcknowledgeType.RELEASE))
    assert partition.has_room(terms)
    assert given(partition, OffsetSpan(3, 5), OffsetSpan(6, 8), terms=terms) == [AcquiredRange(3, 3, 2)]


def test_what_is_given_up_waits_for_its_copy_when_there_is_a_topic_for_it() -> None:
    terms = TERMS._replace(dead_letters=True, deliveries_max=2)
    partition = SharePartition(0, [StateBatch(0, 0, RecordState.AVAILABLE, 1)])
    given(partition, OffsetSpan(0, 2), terms=terms)
    change = acknowledged(partition, 1, 1, AcknowledgeType.REJECT, terms=terms)
    assert change.batches == [StateBatch(1, 1, RecordState.ARCHIVING, 1)]
    partition.confirmed(change)
    partition.expired(5_000, terms)
    assert [(run.first, run.reason) for run in partition.letters()] == [
        (0, LetterReason.USED_UP),
        (1, LetterReason.REJECTED),
    ]
    assert partition.start == 0
    partition.confirmed(partition.copied(0, 1))
    assert (partition.start, partition.letters()) == (2, [])


def test_empty_offsets_are_passed_over_and_remembered() -> None:
    partition = SharePartition(0)
    grant = partition.acquire(
        AcquireRequest("ann", 100, 0, False),
        [OffsetSpan(0, 1, True), OffsetSpan(2, 3), OffsetSpan(4, 4, True)],
        TERMS,
        0,
    )
    assert grant.acquired == [AcquiredRange(2, 3, 1)]
    assert grant.skipped.batches == [
        StateBatch(0, 1, RecordState.ARCHIVED, 0),
        StateBatch(4, 4, RecordState.ARCHIVED, 0),
    ]
    assert (partition.start, partition.end) == (2, 5)


def test_what_was_persisted_comes_back_and_what_lies_between_is_new() -> None:
    partition = SharePartition(
        3,
        [
            StateBatch(3, 4, RecordState.ACKNOWLEDGED, 1),
            StateBatch(7, 8, RecordState.AVAILABLE, 2),
            StateBatch(9, 9, RecordState.ARCHIVED, 5),
        ],
    )
    assert (partition.start, partition.end, partition.next_offset()) == (5, 10, 5)
    assert given(partition, OffsetSpan(5, 11)) == [
        AcquiredRange(5, 6, 1),
        AcquiredRange(7, 8, 3),
        AcquiredRange(10, 11, 1),
    ]


@pytest.mark.parametrize(
    "batches",
    [
        [AcknowledgedRange(3, 2, [1])],
        [AcknowledgedRange(0, 0, [])],
        [AcknowledgedRange(0, 2, [1, 1])],
        [AcknowledgedRange(0, 0, [5])],
        [AcknowledgedRange(0, 0, [-1])],
        [AcknowledgedRange(0, 0, [AcknowledgeType.RENEW])],
        [AcknowledgedRange(5, 6, [1]), AcknowledgedRange(0, 1, [1])],
    ],
)
def test_acknowledgements_that_cannot_be_are_refused(batches: list[AcknowledgedRange]) -> None:
    with pytest.raises(errors.InvalidRequest):
        check_acknowledgements(batches, renewals=False)


def test_offsets_that_are_acknowledged_twice_in_one_request_change_nothing() -> None:
    partition = SharePartition(0)
    given(partition, OffsetSpan(0, 3))
    twice = [
        AcknowledgedRange(0, 2, [AcknowledgeType.ACCEPT]),
        AcknowledgedRange(2, 3, [AcknowledgeType.ACCEPT]),
    ]
    with pytest.raises(errors.InvalidRecordState):
        partition.acknowledge("ann", twice, TERMS, 0)
    assert partition.outlook() == (0, 0)
