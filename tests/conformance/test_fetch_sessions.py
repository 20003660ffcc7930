"""Incremental fetch sessions: a full fetch opens one, later fetches name only what changed."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.conformance import batches
from tests.conformance.batches import batch
from tests.conformance.raw import Connection
from tests.conformance.topics import append, describe

BY_NAME, BY_ID = 12, 17


class Session:
    """A consumer's side of a session over one topic."""

    def __init__(self, connection: Connection, topic: str, version: int = BY_NAME) -> None:
        self.connection, self.version = connection, version
        self.topic = {"topic": topic, "topic_id": describe(connection, topic).topic_id}
        self.id = 0

    def fetch(self, epoch: int, offsets: dict[int, int], forget: tuple[int, ...] = (), **fields: Any) -> Any:
        parts = [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            for partition, offset in offsets.items()
        ]
        whole: dict[str, Any] = {
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "session_id": self.id,
            "session_epoch": epoch,
        }
        whole["topics"] = [self.topic | {"partitions": parts}] if parts else []
        whole["forgotten_topics_data"] = [self.topic | {"partitions": list(forget)}] if forget else []
        return self.connection.call("fetch", self.version, **(whole | fields))

    def open(self, offsets: dict[int, int]) -> Any:
        answer = self.fetch(0, offsets)
        assert answer.error_code == 0
        self.id = answer.session_id
        return answer


def partitions(answer: Any) -> dict[int, int]:
    """partition -> number of batches"""
    return {p.partition_index: len(batches.read(p.records)) for t in answer.responses for p in t.partitions}


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_full_fetch_opens_a_session_and_lists_every_partition(
    version: int, connection: Connection, topic: Any
) -> None:
    session = Session(connection, topic(partitions=3), version)
    answer = session.open({0: 0, 1: 0, 2: 0})
    assert session.id > 0
    assert partitions(answer) == {0: 0, 1: 0, 2: 0}


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_an_incremental_fetch_lists_only_partitions_with_news(
    version: int, connection: Connection, topic: Any
) -> None:
    known = topic(partitions=3)
    session = Session(connection, known, version)
    session.open({0: 0, 1: 0, 2: 0})
    assert partitions(session.fetch(1, {})) == {}
    append(connection, known, batch([b"x"]), 1)
    answer = session.fetch(2, {})
    assert answer.session_id == session.id
    assert partitions(answer) == {1: 1}


def test_a_partition_stays_until_its_offset_is_moved(connection: Connection, topic: Any) -> None:
    known = topic(partitions=2)
    append(connection, known, batch([b"x"]), 0)
    session = Session(connection, known)
    assert partitions(session.open({0: 0, 1: 0})) == {0: 1, 1: 0}
    assert partitions(session.fetch(1, {})) == {0: 1}  # the same offset once more
    assert partitions(session.fetch(2, {0: 1})) == {}
    append(connection, known, batch([b"y"]), 0)
    assert partitions(session.fetch(3, {})) == {0: 1}


def test_a_partition_can_be_added(connection: Connection, topic: Any) -> None:
    known = topic(partitions=2)
    session = Session(connection, known)
    session.open({0: 0})
    append(connection, known, batch([b"x"]), 1)
    assert partitions(session.fetch(1, {})) == {}
    assert partitions(session.fetch(2, {1: 0})) == {1: 1}


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_partition_can_be_forgotten(version: int, connection: Connection, topic: Any) -> None:
    known = topic(partitions=2)
    session = Session(connection, known, version)
    session.open({0: 0, 1: 0})
    for partition in (0, 1):
        append(connection, known, batch([b"x"]), partition)
    assert partitions(session.fetch(1, {}, forget=(0,))) == {1: 1}
    assert partitions(session.fetch(2, {})) == {1: 1}


def test_a_changed_log_start_is_news(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"x"]))
    session = Session(connection, known)
    session.open({0: 1})
    assert partitions(session.fetch(1, {})) == {}
    wanted = [{"name": known, "partitions": [{"partition_index": 0, "offset": 1}]}]
    connection.call("delete_records", 2, topics=wanted, timeout=5000)
    answer = session.fetch(2, {})
    assert answer.responses[0].partitions[0].log_start_offset == 1


def test_an_unknown_session_is_refused(connection: Connection, topic: Any) -> None:
    session = Session(connection, topic())
    session.id = 123_456
    answer = session.fetch(1, {})
    assert answer.error_code.name == "fetch_session_id_not_found"
    assert answer.session_id == 0


@pytest.mark.parametrize("epoch", [2, 7])
def test_a_wrong_epoch_is_refused(epoch: int, connection: Connection, topic: Any) -> None:
    session = Session(connection, topic())
    session.open({0: 0})
    answer = session.fetch(epoch, {})
    assert answer.error_code.name == "invalid_fetch_session_epoch"
    assert session.fetch(1, {}).error_code == 0


def test_a_repeated_epoch_is_refused(connection: Connection, topic: Any) -> None:
    session = Session(connection, topic())
    session.open({0: 0})
    assert session.fetch(1, {}).error_code == 0
    assert session.fetch(1, {}).error_code.name == "invalid_fetch_session_epoch"
    assert session.fetch(2, {}).error_code == 0


def test_an_epoch_of_minus_1_is_a_fetch_without_a_session(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"x"]))
    answer = Session(connection, known).fetch(-1, {0: 0})
    assert (answer.session_id, partitions(answer)) == (0, {0: 1})


def test_an_epoch_of_minus_1_closes_the_session(connection: Connection, topic: Any) -> None:
    session = Session(connection, topic())
    session.open({0: 0})
    closed = session.fetch(-1, {})
    assert (closed.error_code, closed.session_id) == (0, 0)
    assert session.fetch(1, {}).error_code.name == "fetch_session_id_not_found"


def test_epoch_0_with_a_session_begins_another(connection: Connection, topic: Any) -> None:
    session = Session(connection, topic())
    session.open({0: 0})
    first = session.id
    second = session.fetch(0, {0: 0})
    assert second.session_id not in (0, first)
    assert session.fetch(1, {}).error_code.name == "fetch_session_id_not_found"
    session.id = second.session_id
    assert session.fetch(1, {}).error_code == 0


def test_a_session_belongs_to_no_connection(connection: Connection, bootstrap: str, topic: Any) -> None:
    session = Session(connection, topic())
    session.open({0: 0})
    with Connection(bootstrap) as other:
        session.connection = other
        assert session.fetch(1, {}).error_code == 0


def test_errors_are_listed_in_incremental_fetches(connection: Connection, topic: Any) -> None:
    session = Session(connection, topic())
    session.open({0: 0})
    answer = session.fetch(1, {0: 99})
    assert answer.responses[0].partitions[0].error_code.name == "offset_out_of_range"


def test_an_unknown_topic_id_in_a_session_is_listed(connection: Connection) -> None:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    answer = connection.call(
        "fetch",
        BY_ID,
        max_bytes=1000,
        session_epoch=0,
        topics=[{"topic_id": uuid.uuid4(), "partitions": [part]}],
    )
    assert answer.error_code == 0
    assert answer.responses[0].partitions[0].error_code.name == "unknown_topic_id"


def test_a_deleted_topic_shows_in_its_sessions(connection: Connection, topic: Any) -> None:
    known = topic()
    session = Session(connection, known, BY_ID)
    session.open({0: 0})
    connection.call("delete_topics", 6, topics=[{"name": known}], timeout=5000)
    epoch = 1
    listed: set[str] = set()
    while not listed:
        answer = session.fetch(epoch, {}, max_wait=100, min_bytes=1)
        assert answer.error_code == 0
        listed = {p.error_code.name for t in answer.responses for p in t.partitions}
        epoch += 1
        assert epoch < 100
    assert listed <= {"unknown_topic_id", "unknown_topic_or_partition", "inconsistent_topic_id"}


def test_many_sessions_may_be_open(connection: Connection, topic: Any) -> None:
    known = topic()
    sessions = [Session(connection, known) for _ in range(50)]
    for session in sessions:
        session.open({0: 0})
    assert len({session.id for session in sessions}) == 50
    append(connection, known, batch([b"x"]))
    assert all(partitions(session.fetch(1, {})) == {0: 1} for session in sessions)
