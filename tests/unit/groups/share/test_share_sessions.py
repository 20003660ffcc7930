from __future__ import annotations

from uuid import UUID

import pytest

from tidelog import errors
from tidelog.groups.share.sessions import EPOCH_LAST, ShareSessions

TOPIC = UUID(int=1)
KEY = ("group", "member")


def test_requests_come_in_the_order_of_their_epochs_which_begin_again_after_the_last() -> None:
    sessions = ShareSessions()
    with pytest.raises(errors.ShareSessionNotFound):
        sessions.go_on(KEY, 1)
    session = sessions.begin(KEY, "peer", [(TOPIC, 0)], 10)
    assert sessions.go_on(KEY, 1) is session
    for epoch in (1, 3):
        with pytest.raises(errors.InvalidShareSessionEpoch):
            sessions.go_on(KEY, epoch)
    session.epoch = EPOCH_LAST
    sessions.go_on(KEY, EPOCH_LAST)
    assert session.epoch == 1


def test_every_partition_has_its_turn_to_be_first() -> None:
    sessions = ShareSessions()
    parts = [(TOPIC, index) for index in range(3)]
    session = sessions.begin(KEY, "peer", parts, 10)
    firsts = set()
    for epoch in range(1, 4):
        turn = sessions.go_on(KEY, epoch).in_turn()
        assert sorted(turn) == parts
        firsts.add(turn[0])
    assert firsts == set(parts)
    session.parts.clear()
    assert session.in_turn() == []


def test_sessions_are_known_by_group_and_by_connection_until_they_end() -> None:
    sessions = ShareSessions()
    sessions.begin(("group", "ann"), "peer", [], 2)
    sessions.begin(("group", "ben"), "peer", [], 2)
    assert sorted(sessions.of_peer("peer")) == [("group", "ann"), ("group", "ben")]
    with pytest.raises(errors.ShareSessionLimitReached):
        sessions.begin(("group", "cid"), "other", [], 2)
    sessions.begin(("group", "ann"), "other", [], 2)
    assert sessions.of_peer("peer") == [("group", "ben")]
    sessions.end(("group", "ann"))
    assert sessions.has_group("group")
    sessions.end(("group", "ben"))
    assert sessions.end(("group", "ben")) is None
    assert (sessions.has_group("group"), sessions.of_peer("peer"), len(sessions)) == (False, [], 0)
