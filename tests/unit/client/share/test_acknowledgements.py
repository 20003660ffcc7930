from __future__ import annotations

import itertools
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog._speed.client.consumed import Record
from tidelog.client.groups.membership import AssignmentChange, CoordinatorRequest, MetadataLookup
from tidelog.client.share.acknowledgements import (
    AcknowledgedOffsets,
    Acknowledgements,
    AcquiredOffsets,
    ranges_of,
)
from tidelog.client.share.membership import ShareMembership
from tidelog.client.share.session import SharePartitionKey, ShareSessionHandler, acknowledge_topics
from tidelog.types import TopicPartition
from tidelog.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

T = uuid.uuid5(uuid.NAMESPACE_DNS, "t")
ZERO = TopicPartition("t", 0)
A, B = SharePartitionKey(T, 0), SharePartitionKey(T, 1)


def records(*offsets: int) -> list[Record]:
    return [Record("t", 0, offset, 0, "create", None, b"") for offset in offsets]


def test_only_what_was_acquired_is_delivered_with_its_count_and_gaps_are_given_back() -> None:
    acks = Acknowledgements()
    delivered = acks.deliver(ZERO, records(3, 4, 6, 9), [AcquiredOffsets(4, 7, 2), AcquiredOffsets(9, 9, 1)])
    assert [(record.offset, record.delivery_count) for record in delivered] == [(4, 2), (6, 2), (9, 1)]
    assert acks.held == 3
    assert acks.take([ZERO], renewals=False) == {
        ZERO: [AcknowledgedOffsets(5, 5, 0), AcknowledgedOffsets(7, 7, 0)]
    }


def test_what_was_said_goes_out_once_and_the_rest_as_asked() -> None:
    acks = Acknowledgements()
    acks.deliver(ZERO, records(*range(6)), [AcquiredOffsets(0, 5, 1)])
    acks.acknowledge(ZERO, 1, "reject")
    acks.acknowledge(ZERO, 2, "release")
    with pytest.raises(ValueError, match="not in hand"):
        acks.acknowledge(ZERO, 2, "accept")
    with pytest.raises(ValueError, match="use accept, release, reject, renew"):
        acks.acknowledge(ZERO, 3, "perhaps")
    acks.acknowledge_all("accept", {("t", 0, 5)})
    assert acks.held == 1 and acks.pending() == {ZERO}
    assert acks.take([ZERO], renewals=False) == {
        ZERO: [
            AcknowledgedOffsets(0, 0, 1),
            AcknowledgedOffsets(1, 1, 3),
            AcknowledgedOffsets(2, 2, 2),
            AcknowledgedOffsets(3, 4, 1),
        ]
    }
    assert acks.take([ZERO], renewals=False) == {} and acks.pending() == set()


def test_a_renewed_record_stays_in_hand() -> None:
    acks = Acknowledgements()
    acks.deliver(ZERO, records(0, 1), [AcquiredOffsets(0, 1, 1)])
    acks.acknowledge(ZERO, 0, "renew")
    assert acks.take([ZERO], renewals=False) == {}
    assert acks.take([ZERO], renewals=True) == {ZERO: [AcknowledgedOffsets(0, 0, 4)]}
    acks.acknowledge(ZERO, 0, "accept")
    assert acks.take([ZERO], renewals=False) == {ZERO: [AcknowledgedOffsets(0, 0, 1)]}


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 3)))
def test_runs_say_the_same_as_single_offsets(kinds: dict[int, int]) -> None:
    ranges = ranges_of(kinds)
    assert {at: run.kind for run in ranges for at in range(run.first, run.last + 1)} == kinds
    assert all(a.last < b.first for a, b in itertools.pairwise(ranges))


def test_a_session_names_what_is_new_or_acknowledged_and_forgets_the_rest() -> None:
    session = ShareSessionHandler()
    named, forgotten = session.fetch_topics([A, B], {})
    assert [part.partition_index for one in named for part in one.partitions] == [0, 1] and forgotten == []
    session.answered()
    named, forgotten = session.fetch_topics([A], {A: [AcknowledgedOffsets(3, 5, 1)]})
    ((part,),) = [one.partitions for one in named]
    assert [
        (one.first_offset, one.last_offset, one.acknowledge_types) for one in part.acknowledgement_batches
    ] == [(3, 5, [1])]
    assert [one.partitions for one in forgotten] == [[1]]
    session.failed()
    assert session.epoch == 0
    named, _ = session.fetch_topics([A], {})
    assert len(named) == 1
    ((part2,),) = [one.partitions for one in acknowledge_topics({B: [AcknowledgedOffsets(0, 0, 2)]})]
    assert part2.partition_index == 1


def test_a_member_of_a_share_group_takes_what_it_is_given_without_a_word() -> None:
    machine = ShareMembership("g", "me", "east")
    machine.subscribed(["t"])
    first = machine.due(0)
    assert isinstance(first, CoordinatorRequest) and isinstance(first.request, ShareGroupHeartbeatRequest)
    assert (first.request.member_epoch, first.request.rack_id) == (0, "east")
    assert first.request.subscribed_topic_names == ["t"]
    machine.answered(
        ShareGroupHeartbeatResponse(
            member_id="me",
            member_epoch=1,
            heartbeat_interval_ms=5_000,
            assignment=Assignment([TopicPartitions(T, [0])]),
        ),
        0,
    )
    assert machine.due(0) == MetadataLookup(ids=(T,))
    machine.looked_up({"t": 1}, {T: "t"}, 0)
    assert machine.change == AssignmentChange(owned=(ZERO,), added=(ZERO,))
    machine.applied()
    assert machine.due(1) is None
    leaving = machine.leave()
    assert leaving is not None and leaving.request.member_epoch == -1
