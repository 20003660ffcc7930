from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.consumer.fetch.session import (
    EPOCH_MAX,
    FetchSessionHandler,
    PartitionFetch,
    SessionRequest,
    TopicIdPartition,
)

ID = uuid.uuid5(uuid.NAMESPACE_DNS, "t")
A, B = TopicIdPartition("t", ID, 0), TopicIdPartition("t", ID, 1)


def at(offset: int) -> PartitionFetch:
    return PartitionFetch(offset, 0, -1, 1_000)


def test_a_session_names_everything_once_and_then_what_changed() -> None:
    session = FetchSessionHandler()
    assert session.next({A: at(0), B: at(0)}) == SessionRequest(0, 0, {A: at(0), B: at(0)}, [])
    session.answered(77)
    assert session.next({A: at(5), B: at(0)}) == SessionRequest(77, 1, {A: at(5)}, [])
    session.answered(77)
    assert session.next({A: at(5)}) == SessionRequest(77, 2, {}, [B])


def test_a_session_that_may_be_lost_begins_anew() -> None:
    session = FetchSessionHandler()
    session.next({A: at(0)})
    session.answered(77)
    session.next({A: at(1)})
    session.failed()
    assert session.next({A: at(1)}) == SessionRequest(0, 0, {A: at(1)}, [])


def test_a_broker_without_sessions_is_told_everything_every_time() -> None:
    session = FetchSessionHandler()
    for offset in range(3):
        assert session.next({A: at(offset)}) == SessionRequest(0, 0, {A: at(offset)}, [])
        session.answered(0)


def test_epochs_go_on_after_the_last_one() -> None:
    session = FetchSessionHandler()
    session.next({A: at(0)})
    session._epoch = EPOCH_MAX
    session.answered(77)
    assert session.next({A: at(0)}).epoch == 1


@given(st.lists(st.dictionaries(st.sampled_from([A, B]), st.builds(at, st.integers(0, 3)))))
def test_the_broker_always_looks_at_exactly_what_is_wanted(
    rounds: list[dict[TopicIdPartition, PartitionFetch]],
) -> None:
    session, remembered = FetchSessionHandler(), dict[TopicIdPartition, PartitionFetch]()
    for wanted in rounds:
        ask = session.next(wanted)
        if ask.epoch == 0:
            remembered = {}
        for place in ask.forgotten:
            del remembered[place]
        remembered.update(ask.named)
        assert remembered == wanted
        session.answered(77)
