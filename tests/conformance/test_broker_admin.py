"""DeleteRecords, DescribeLogDirs, AlterReplicaLogDirs, DescribeProducers, ElectLeaders, UpdateFeatures, telemetry."""

from __future__ import annotations

import os
import uuid
from typing import Any

import pytest

from tests.conformance.batches import batch, now_ms
from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, list_offset, new_producer_id, values


def delete_records(connection: Connection, topic: str, offset: int, partition: int = 0) -> Any:
    wanted = [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
    return connection.call("delete_records", 2, topics=wanted, timeout=10_000).topics[0].partitions[0]


def fill(connection: Connection, topic: str, count: int = 5) -> None:
    for index in range(count):
        append(connection, topic, batch([b"%d" % index]))


def test_records_before_an_offset_are_deleted(connection: Connection, topic: Any) -> None:
    known = topic()
    fill(connection, known)
    answer = delete_records(connection, known, 3)
    assert (answer.error_code, answer.low_watermark) == (0, 3)
    assert list_offset(connection, known, -2).offset == 3
    assert values(connection, known, start=3) == [b"3", b"4"]


def test_minus_1_deletes_everything(connection: Connection, topic: Any) -> None:
    known = topic()
    fill(connection, known)
    assert delete_records(connection, known, -1).low_watermark == 5
    assert list_offset(connection, known, -2).offset == list_offset(connection, known, -1).offset == 5
    assert append(connection, known, batch([b"next"])) == 5


def test_the_log_start_never_goes_back(connection: Connection, topic: Any) -> None:
    known = topic()
    fill(connection, known)
    delete_records(connection, known, 3)
    again = delete_records(connection, known, 1)
    assert (again.error_code, again.low_watermark) == (0, 3)


@pytest.mark.parametrize("offset", [6, 1000, -2])
def test_offsets_that_cannot_be_deleted(offset: int, connection: Connection, topic: Any) -> None:
    known = topic()
    fill(connection, known)
    assert delete_records(connection, known, offset).error_code.name == "offset_out_of_range"
    assert list_offset(connection, known, -2).offset == 0


def test_deleting_records_of_unknown_partitions(connection: Connection, topic: Any, name: Any) -> None:
    assert delete_records(connection, name(), 0).error_code.name == "unknown_topic_or_partition"
    assert delete_records(connection, topic(), 0, partition=4).error_code.name == "unknown_topic_or_partition"


def test_a_compacted_topic_keeps_its_records(connection: Connection, topic: Any) -> None:
    known = topic(config={"cleanup.policy": "compact"})
    assert delete_records(connection, known, 0).error_code.name == "policy_violation"


def test_log_folders_show_sizes(connection: Connection, broker: BrokerProcess, topic: Any) -> None:
    known = topic(partitions=2)
    sent = batch([b"x" * 1000])
    append(connection, known, sent, 1)
    wanted = [{"topic": known, "partitions": [0, 1]}]
    answer = connection.call("describe_log_dirs", 4, topics=wanted)
    assert answer.error_code == 0
    (folder,) = answer.results
    assert folder.error_code == 0
    assert os.path.samefile(folder.log_dir, broker.data)
    sizes = {p.partition_index: p.partition_size for t in folder.topics for p in t.partitions}
    assert sizes == {0: 0, 1: len(sent)}
    assert {(p.offset_lag, p.is_future_key) for t in folder.topics for p in t.partitions} == {(0, False)}
    assert 0 < folder.usable_bytes <= folder.total_bytes


def test_null_describes_all_partitions(connection: Connection, topic: Any) -> None:
    known = topic(partitions=2)
    answer = connection.call("describe_log_dirs", 4, topics=None)
    found = {(t.name, p.partition_index) for r in answer.results for t in r.topics for p in t.partitions}
    assert {(known, 0), (known, 1)} <= found


def test_unknown_partitions_are_in_no_log_folder(connection: Connection, name: Any) -> None:
    answer = connection.call("describe_log_dirs", 4, topics=[{"topic": name(), "partitions": [0]}])
    assert [r.topics for r in answer.results] == [()]


@pytest.mark.parametrize(
    ("path", "error"), [("/no/such/folder", "log_dir_not_found"), ("", "log_dir_not_found")]
)
def test_a_partition_cannot_move_to_an_unknown_folder(
    path: str, error: str, connection: Connection, topic: Any
) -> None:
    dirs = [{"path": path, "topics": [{"name": topic(), "partitions": [0]}]}]
    answer = connection.call("alter_replica_log_dirs", 2, dirs=dirs)
    assert answer.results[0].partitions[0].error_code.name == error


def test_an_unknown_partition_cannot_move(connection: Connection, broker: BrokerProcess, topic: Any) -> None:
    dirs = [{"path": str(broker.data), "topics": [{"name": topic(), "partitions": [7]}]}]
    answer = connection.call("alter_replica_log_dirs", 2, dirs=dirs)
    assert answer.results[0].partitions[0].error_code.name in {
        "unknown_topic_or_partition",
        "replica_not_available",
    }


def describe_producers(connection: Connection, topic: str, partition: int = 0) -> Any:
    wanted = [{"name": topic, "partition_indexes": [partition]}]
    return connection.call("describe_producers", 0, topics=wanted).topics[0].partitions[0]


def test_idempotent_producers_are_described(connection: Connection, topic: Any) -> None:
    known = topic()
    producer_id, epoch = new_producer_id(connection)
    before = now_ms()
    for sequence in (0, 1, 2):
        append(
            connection, known, batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        )
    append(connection, known, batch([b"plain"]))
    found = describe_producers(connection, known)
    assert found.error_code == 0
    (state,) = found.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (producer_id, epoch, 2)
    assert before - 1 <= state.last_timestamp <= now_ms()
    assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, -1)


def test_producers_of_unknown_partitions(connection: Connection, topic: Any, name: Any) -> None:
    assert describe_producers(connection, name()).error_code.name == "unknown_topic_or_partition"
    assert describe_producers(connection, topic(), 3).error_code.name == "unknown_topic_or_partition"


def elect(connection: Connection, topic: str, partition: int = 0, kind: int = 0) -> str:
    wanted = [{"topic": topic, "partitions": [partition]}]
    answer = connection.call("elect_leaders", 2, election_type=kind, topic_partitions=wanted, timeout=5000)
    if answer.error_code != 0:
        return str(answer.error_code.name)
    return str(answer.replica_election_results[0].partition_result[0].error_code.name)


@pytest.mark.parametrize("kind", [0, 1])
def test_a_led_partition_needs_no_election(kind: int, connection: Connection, topic: Any) -> None:
    assert elect(connection, topic(), kind=kind) == "election_not_needed"


def test_electing_for_unknown_partitions(connection: Connection, topic: Any, name: Any) -> None:
    assert elect(connection, name()) == "unknown_topic_or_partition"
    assert elect(connection, topic(), partition=5) == "unknown_topic_or_partition"


def test_electing_everywhere_lists_only_changes(connection: Connection, topic: Any) -> None:
    topic()
    answer = connection.call("elect_leaders", 2, election_type=0, topic_partitions=None, timeout=5000)
    assert answer.error_code == 0
    assert all(result.partition_result == () for result in answer.replica_election_results)


def update_feature(connection: Connection, feature: str, level: int, **fields: Any) -> Any:
    wanted = [{"feature": feature, "max_version_level": level, "upgrade_type": 1}]
    return connection.call("update_features", 1, timeout=5000, feature_updates=wanted, **fields)


def feature_error(answer: Any) -> str:
    errors = [r.error_code.name for r in answer.results if r.error_code != 0]
    return str(errors[0] if errors else answer.error_code.name)


def test_an_unknown_feature_is_refused(connection: Connection) -> None:
    answer = update_feature(connection, "no.such.feature", 1)
    assert feature_error(answer) == "invalid_update_version"


def test_a_level_that_is_not_supported_is_refused(connection: Connection) -> None:
    answer = update_feature(connection, "metadata.version", 9999)
    assert feature_error(answer) == "invalid_update_version"


def test_the_present_level_is_accepted(connection: Connection) -> None:
    told = connection.call("api_versions", 4, client_software_name="tests", client_software_version="1")
    level = {f.name: f.max_version_level for f in told.finalized_features}["metadata.version"]
    assert feature_error(update_feature(connection, "metadata.version", level, validate_only=True)) == "none"


def test_a_client_gets_an_id_and_nothing_to_send(connection: Connection) -> None:
    answer = connection.call("get_telemetry_subscriptions", 0)
    assert answer.error_code == 0
    assert answer.client_instance_id
    assert answer.requested_metrics == ()
    assert answer.push_interval.total_seconds() > 0


def test_a_client_keeps_its_id(connection: Connection) -> None:
    first = connection.call("get_telemetry_subscriptions", 0)
    # Asking again before the push interval is over may be throttled, but the id stays.
    again = connection.call("get_telemetry_subscriptions", 0, client_instance_id=first.client_instance_id)
    assert again.error_code.name in {"none", "throttling_quota_exceeded"}
    if again.error_code == 0:
        assert again.client_instance_id == first.client_instance_id


def test_pushed_metrics_are_taken_or_refused_with_a_known_error(connection: Connection) -> None:
    given = connection.call("get_telemetry_subscriptions", 0)
    push = {"client_instance_id": given.client_instance_id, "subscription_id": given.subscription_id}
    assert connection.call("push_telemetry", 0, **push, metrics=b"").error_code == 0
    wrong = connection.call("push_telemetry", 0, **(push | {"subscription_id": given.subscription_id + 1}))
    assert wrong.error_code.name in {"unknown_subscription_id", "throttling_quota_exceeded"}


def test_a_push_needs_an_id(connection: Connection) -> None:
    assert connection.call("push_telemetry", 0, client_instance_id=None).error_code.name == "invalid_request"
    unknown = connection.call("push_telemetry", 0, client_instance_id=uuid.uuid4(), subscription_id=5)
    assert unknown.error_code.name in {"unknown_subscription_id", "none"}


def test_a_deleted_topic_leaves_the_log_folder(
    connection: Connection, broker: BrokerProcess, topic: Any
) -> None:
    known = topic()
    append(connection, known, batch([b"x"]))
    assert (broker.data / f"{known}-0").is_dir()
    connection.call("delete_topics", 6, topics=[{"name": known}], timeout=5000)
    wait_until(lambda: not (broker.data / f"{known}-0").exists(), 20, "the folder is gone")
