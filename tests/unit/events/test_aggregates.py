"""Aggregates, their events and how these are written, without a broker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.events.accounts import Account, Deposited, Insufficient, Withdrawn
from tidelog.events import Aggregate, EventError, UnknownEvent, event
from tidelog.events.cache import CommitCache, StoredCommit
from tidelog.events.testing import given
from tidelog.events.types import decode, encode


def test_the_state_follows_from_the_events() -> None:
    case = given(Account, "a", Deposited(500), Withdrawn(200))
    assert case.aggregate.cents == 300 and case.aggregate.version == 1
    case.when(lambda account: account.withdraw(300)).then(Withdrawn(300))
    given(Account, "a").when(lambda account: account.withdraw(1)).then_raises(Insufficient)
    with pytest.raises(AssertionError, match="happened, and not"):
        given(Account, "a").when(lambda account: account.deposit(1)).then(Deposited(2))
    with pytest.raises(AssertionError, match="was not raised"):
        given(Account, "a").when(lambda account: account.deposit(1)).then_raises(Insufficient)


def test_a_commit_is_plain_json_and_old_versions_become_new_ones() -> None:
    value = encode([Deposited(5), Withdrawn(2)], {"by": "me"})
    assert json.loads(value) == {
        "events": [
            {"type": "account.deposited", "version": 2, "data": {"cents": 5}},
            {"type": "account.withdrawn", "version": 1, "data": {"cents": 2}},
        ],
        "meta": {"by": "me"},
    }
    assert decode(value) == ([Deposited(5), Withdrawn(2)], {"by": "me"})
    old = {"events": [{"type": "account.deposited", "version": 1, "data": {"euros": 3}}]}
    assert decode(json.dumps(old).encode()) == ([Deposited(300)], {})


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (
            {"type": "account.closed", "version": 1, "data": {}},
            "no class is declared for the event 'account.closed'",
        ),
        (
            {"type": "account.deposited", "version": 0, "data": {}},
            r"declare @upcast\('account.deposited', 0\)",
        ),
        ({"type": "account.deposited", "version": 3, "data": {}}, "newer than 2: update this program"),
        ({"type": "account.deposited", "version": 2, "data": {"x": 1}}, "are not those of Deposited"),
        ({"type": "account.deposited"}, "is not a commit of events"),
    ],
)
def test_what_cannot_be_read_is_told(stored: dict[str, object], message: str) -> None:
    with pytest.raises(UnknownEvent, match=message):
        decode(json.dumps({"events": [stored]}).encode())
    with pytest.raises(UnknownEvent):
        decode(b"no json")


def test_mistakes_of_a_declaration_are_told() -> None:
    with pytest.raises(EventError, match="must be a dataclass"):
        event("plain")(object)

    @dataclass
    class Other:
        pass

    with pytest.raises(EventError, match=r"two classes are the event 'account\.withdrawn'"):
        event("account.withdrawn")(Other)

    class Empty(Aggregate):
        pass

    with pytest.raises(EventError, match="has no method for Deposited"):
        Empty("a").record(Deposited(1))
    with pytest.raises(EventError, match="Other is not an event"):
        Empty("a").record(Other())

    class Unwritable(Aggregate):
        pass

    with pytest.raises(EventError, match="is no JSON"):
        encode([Deposited(object())], {})  # type: ignore[arg-type]


def test_the_copy_of_another_topic_is_thrown_away(tmp_path: Path) -> None:
    path = str(tmp_path / "cache.sqlite")
    cache = CommitCache(path, "one")
    cache.add(
        0,
        [
            StoredCommit(0, 0, b"a", 10, b"x"),
            StoredCommit(0, 1, b"b", 20, b"y"),
            StoredCommit(0, 2, b"a", 30, b"z"),
        ],
        3,
    )
    cache.add(0, [StoredCommit(0, 2, b"a", 30, b"z")], 3)
    assert [commit.offset for commit in cache.commits(b"a")] == [0, 2]
    assert [commit.offset for commit in cache.commits(b"a", 29)] == [0]
    cache.close()
    again = CommitCache(path, "one")
    assert again.next(0) == 3
    again.add(0, [StoredCommit(0, 3, b"a", 40, None)], 4)
    assert again.commits(b"a") == []
    again.close()
    other = CommitCache(path, "two")
    assert other.next(0) == 0 and other.commits(b"b") == []
    other.close()
