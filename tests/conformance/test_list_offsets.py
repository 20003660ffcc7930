"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.batches import Record, batch
from tests.conformance.raw import Connection
from tests.conformance.topics import append, describe, list_offset

# The records here are from 1970.
FOREVER = {"retention.ms": "-1"}
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)


@pytest.fixture
def filled(connection: Connection, topic: Any) -> str:
    """Offsets 0-2 at 1000, 1010, 1020; 3-4 at 3000, 2000; 5 at 2500."""
    known = str(topic(config=FOREVER))
    append(
        connection, known, batch([Record(b"x", timestamp_delta=d) for d in (0, 10, 20)], base_timestamp=1000)
    )
    append(
        connection, known, batch([Record(b"x", timestamp_delta=d) for d in (1000, 0)], base_timestamp=2000)
    )
    append(connection, known, batch([b"x"], base_timestamp=2500))
    return known


def delete_before(connection: Connection, topic: str, offset: int) -> None:
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    connection.call("delete_records", 2, topics=wanted, timeout=5000)


@pytest.mark.parametrize(("wanted", "offset"), [(EARLIEST, 0), (LATEST, 6), (EARLIEST_LOCAL, 0)])
def test_the_ends_of_a_log(wanted: int, offset: int, connection: Connection, filled: str) -> None:
    answer = list_offset(connection, filled, wanted)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, -1)


def test_the_ends_of_an_empty_log(connection: Connection, topic: Any) -> None:
    known = topic()
    assert list_offset(connection, known, EARLIEST).offset == 0
    assert list_offset(connection, known, LATEST).offset == 0
    nothing = list_offset(connection, known, 1000)
    assert (nothing.error_code, nothing.offset, nothing.timestamp) == (0, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [
        (0, 0, 1000),
        (1000, 0, 1000),
        (1001, 1, 1010),
        (1020, 2, 1020),
        (1021, 3, 3000),
        (2600, 3, 3000),
        (3000, 3, 3000),
    ],
)
def test_the_first_offset_at_or_after_a_time(
    timestamp: int, offset: int, found: int, connection: Connection, filled: str
) -> None:
    answer = list_offset(connection, filled, timestamp)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, found)


def test_a_time_after_all_records_gives_none(connection: Connection, filled: str) -> None:
    answer = list_offset(connection, filled, 3001)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)


def test_the_record_with_the_largest_timestamp(connection: Connection, filled: str) -> None:
    answer = list_offset(connection, filled, MAX_TIMESTAMP)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, 3, 3000)


def test_the_largest_timestamp_of_an_empty_log(connection: Connection, topic: Any) -> None:
    answer = list_offset(connection, topic(), MAX_TIMESTAMP)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_times_are_found_inside_compressed_batches(codec: str, connection: Connection, topic: Any) -> None:
    known = topic(config=FOREVER)
    records = [Record(b"x", timestamp_delta=d) for d in (0, 100, 200)]
    append(connection, known, batch(records, codec=codec, base_timestamp=5000))
    answer = list_offset(connection, known, 5050)
    assert (answer.offset, answer.timestamp) == (1, 5100)
    answer = list_offset(connection, known, MAX_TIMESTAMP)
    assert (answer.offset, answer.timestamp) == (2, 5200)


@pytest.mark.parametrize("wanted", [LATEST_TIERED, EARLIEST_PENDING_UPLOAD])
def test_nothing_is_tiered(wanted: int, connection: Connection, filled: str) -> None:
    answer = list_offset(connection, filled, wanted)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)


@pytest.mark.parametrize(("wanted", "version"), [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8)])
def test_special_times_need_a_version_that_knows_them(
    wanted: int, version: int, connection: Connection, filled: str
) -> None:
    assert list_offset(connection, filled, wanted, version=version).error_code.name == "unsupported_version"
    assert list_offset(connection, filled, wanted, version=version + 1).error_code == 0


def test_the_earliest_offset_moves_with_delete_records(connection: Connection, filled: str) -> None:
    delete_before(connection, filled, 4)
    assert list_offset(connection, filled, EARLIEST).offset == 4
    assert list_offset(connection, filled, EARLIEST_LOCAL).offset == 4
    assert list_offset(connection, filled, LATEST).offset == 6


def test_a_time_before_the_log_start_gives_what_is_left(connection: Connection, topic: Any) -> None:
    known = topic(config=FOREVER)
    for timestamp in (1000, 2000, 3000):
        append(connection, known, batch([b"x"], base_timestamp=timestamp))
    delete_before(connection, known, 2)
    answer = list_offset(connection, known, 0)
    assert (answer.offset, answer.timestamp) == (2, 3000)


def test_the_leader_epoch_of_a_record_is_told(connection: Connection, filled: str) -> None:
    epoch = describe(connection, filled).partitions[0].leader_epoch
    for wanted in (0, LATEST, EARLIEST, MAX_TIMESTAMP):
        assert list_offset(connection, filled, wanted).leader_epoch == epoch


def test_the_current_leader_epoch_is_checked(connection: Connection, filled: str) -> None:
    epoch = describe(connection, filled).partitions[0].leader_epoch
    part = {"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": epoch + 1}
    answer = connection.call(
        "list_offsets", 7, replica_id=-1, topics=[{"name": filled, "partitions": [part]}]
    )
    assert answer.topics[0].partitions[0].error_code.name == "unknown_leader_epoch"


def test_unknown_topics_and_partitions(connection: Connection, topic: Any, name: Any) -> None:
    assert list_offset(connection, name(), LATEST).error_code.name == "unknown_topic_or_partition"
    assert (
        list_offset(connection, topic(), LATEST, partition=5).error_code.name == "unknown_topic_or_partition"
    )


def test_a_partition_named_twice_is_an_error(connection: Connection, topic: Any) -> None:
    part = {"partition_index": 0, "timestamp": LATEST}
    answer = connection.call(
        "list_offsets", 7, replica_id=-1, topics=[{"name": topic(), "partitions": [part, part]}]
    )
    found = {p.error_code.name for t in answer.topics for p in t.partitions}
    assert found == {"invalid_request"}


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_the_end_is_the_same_for_both_isolation_levels(
    isolation_level: int, connection: Connection, filled: str
) -> None:
    part = {"partition_index": 0, "timestamp": LATEST}
    answer = connection.call(
        "list_offsets",
        7,
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[{"name": filled, "partitions": [part]}],
    )
    assert answer.topics[0].partitions[0].offset == 6


def epoch_end(connection: Connection, topic: str, epoch: int, current: int = -1, partition: int = 0) -> Any:
    part = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    answer = connection.call(
        "offset_for_leader_epoch", 4, replica_id=-1, topics=[{"topic": topic, "partitions": [part]}]
    )
    return answer.topics[0].partitions[0]


def test_the_current_epoch_ends_at_the_end_of_the_log(connection: Connection, filled: str) -> None:
    epoch = describe(connection, filled).partitions[0].leader_epoch
    answer = epoch_end(connection, filled, epoch)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, epoch, 6)


def test_an_epoch_that_never_was_has_no_end(connection: Connection, filled: str) -> None:
    answer = epoch_end(connection, filled, 50)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, -1, -1)


def test_epochs_ahead_of_the_leader_are_refused(connection: Connection, filled: str) -> None:
    assert epoch_end(connection, filled, 0, current=50).error_code.name == "unknown_leader_epoch"


def test_epochs_of_unknown_partitions(connection: Connection, filled: str, name: Any) -> None:
    assert epoch_end(connection, filled, 0, partition=7).error_code.name == "unknown_topic_or_partition"
    assert epoch_end(connection, name(), 0).error_code.name == "unknown_topic_or_partition"
