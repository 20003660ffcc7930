"""Fetch sessions: who gets one, what a client is told again, and what it is not."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tidelog import errors
from tidelog._speed.wire.fetch_frames import FetchAnswer, FetchAsk, decode_fetch
from tidelog.broker.fetch_sessions import EVICTION_MS_MIN, FetchSession, FetchSessions
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

VERSION = 12


def ask(
    session_id: int, epoch: int, *indexes: int, forget: tuple[int, ...] = (), offset: int = 0
) -> FetchAsk:
    topics = [
        FetchTopic(topic="t", partitions=[FetchPartition(partition=i, fetch_offset=offset) for i in indexes])
    ]
    request = FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if indexes else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(forget))] if forget else [],
    )
    return decode_fetch(b"x" * 8 + request.encode(VERSION), 8, VERSION)


def answer(
    index: int, committed: int = 0, error: int = 0, records: Any = None, start: int = 0
) -> tuple[str, FetchAnswer]:
    answered = FetchAnswer(index, error, committed, committed, start)
    answered.records = records
    return "t", answered


def opened(sessions: FetchSessions, *indexes: int, now_ms: int = 0) -> FetchSession:
    session = sessions.open(ask(0, 0, *indexes), False, now_ms)
    assert session is not None
    return session


def told(session: FetchSession, *answers: tuple[str, FetchAnswer]) -> list[int]:
    return [news.index for _, news in session.news(answers)]


def new_sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, count(1).__next__)


def test_a_session_remembers_its_partitions_and_takes_changes() -> None:
    sessions = new_sessions()
    session = opened(sessions, 0, 1, 2)
    again = sessions.open(ask(session.session_id, 1, 1, 7, forget=(0,), offset=5), False, 0)
    assert again is session
    assert {key[1]: wanted[1] for key, wanted in session.wanted.items()} == {1: 5, 2: 0, 7: 5}


def test_only_news_is_told() -> None:
    session = opened(new_sessions(), 0, 1)
    assert told(session, answer(0, 5), answer(1, 5)) == [0, 1]
    assert told(session, answer(0, 5), answer(1, 6)) == [1]
    assert told(session, answer(0, 5, start=1), answer(1, 6)) == [0]
    assert told(session, answer(0, 5, start=1), answer(1, 6, records=b"x")) == [1]
    assert told(session, answer(0, 5, start=1), answer(1, 6)) == []


def test_an_error_is_told_each_time_and_its_end_is_news() -> None:
    session = opened(new_sessions(), 0)
    told(session, answer(0, 5))
    assert told(session, answer(0, -1, error=3)) == [0]
    assert told(session, answer(0, -1, error=3)) == [0]
    assert told(session, answer(0, 5)) == [0]


def test_a_partition_that_gave_records_goes_to_the_end_of_the_line() -> None:
    session = opened(new_sessions(), 0, 1, 2)
    told(session, answer(0, 5, records=b"x"), answer(1, 5), answer(2, 5))
    assert [key[1] for key in session.wanted] == [1, 2, 0]


def test_wrong_ids_and_epochs_get_the_errors_of_the_protocol() -> None:
    sessions = new_sessions()
    session = opened(sessions, 0)
    with pytest.raises(errors.FetchSessionIdNotFound):
        sessions.open(ask(999, 1), False, 0)
    with pytest.raises(errors.InvalidFetchSessionEpoch):
        sessions.open(ask(session.session_id, 2), False, 0)
    with pytest.raises(errors.FetchSessionTopicIdError):
        sessions.open(ask(session.session_id, 1), True, 0)


def test_the_epoch_wraps_around_zero() -> None:
    sessions = new_sessions()
    session = opened(sessions, 0)
    session.epoch = 2**31 - 1
    sessions.open(ask(session.session_id, 2**31 - 1), False, 0)
    assert session.epoch == 1


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_it_names(epoch: int) -> None:
    sessions = new_sessions()
    session = opened(sessions, 0)
    fresh = sessions.open(ask(session.session_id, epoch, 3), False, 0)
    assert (fresh is None) == (epoch == -1)
    with pytest.raises(errors.FetchSessionIdNotFound):
        sessions.open(ask(session.session_id, 1), False, 0)


def test_a_full_cache_gives_no_session_until_one_is_old() -> None:
    sessions = new_sessions(slots=2)
    first, second = opened(sessions, 0, now_ms=0), opened(sessions, 0, now_ms=1)
    sessions.open(ask(first.session_id, 1), False, 50)
    assert sessions.open(ask(0, 0, 1), False, EVICTION_MS_MIN) is None
    assert sessions.evicted == 0
    assert sessions.open(ask(0, 0, 1), False, EVICTION_MS_MIN + 1) is not None
    assert (len(sessions), sessions.evicted) == (2, 1)
    with pytest.raises(errors.FetchSessionIdNotFound):
        sessions.open(ask(second.session_id, 1), False, 0)
