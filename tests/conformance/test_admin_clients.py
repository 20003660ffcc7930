"""Topics, settings and records administered through the client libraries' own admin clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
import kafka.errors
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.conformance.clients import Message, confluent_produce
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import await_leaders, describe

SECONDS = 20
confluent_admin: Any = confluent_kafka.admin


@pytest.fixture
def confluent(bootstrap: str) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def kafka_python(bootstrap: str) -> Iterator[Any]:
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()


def the(futures: dict[Any, Any]) -> Any:
    """The result of the only future."""
    (future,) = futures.values()
    return future.result(SECONDS)


def confluent_error(futures: dict[Any, Any]) -> str:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        the(futures)
    return str(caught.value.args[0].name())


def test_confluent_creates_lists_and_deletes(confluent: Any, connection: Connection, name: Any) -> None:
    fresh = name()
    the(confluent.create_topics([confluent_admin.NewTopic(fresh, 3, 1, config={"retention.ms": "1000000"})]))
    await_leaders(connection, fresh, 3)
    listed = confluent.list_topics(timeout=SECONDS)
    assert sorted(listed.topics[fresh].partitions) == [0, 1, 2]
    assert listed.cluster_id
    assert len(listed.brokers) == 1
    the(confluent.delete_topics([fresh]))
    wait_until(lambda: fresh not in confluent.list_topics(timeout=SECONDS).topics, 10, "the topic is gone")


def test_confluent_sees_errors(confluent: Any, topic: Any, name: Any) -> None:
    new = confluent_admin.NewTopic
    assert confluent_error(confluent.create_topics([new(topic(), 1, 1)])) == "TOPIC_ALREADY_EXISTS"
    assert confluent_error(confluent.create_topics([new("bad name", 1, 1)])) == "TOPIC_EXCEPTION"
    assert confluent_error(confluent.create_topics([new(name(), 1, 5)])) == "INVALID_REPLICATION_FACTOR"
    wrong = new(name(), 1, 1, config={"no.such": "1"})
    assert confluent_error(confluent.create_topics([wrong])) == "INVALID_CONFIG"
    assert confluent_error(confluent.delete_topics([name()])) == "UNKNOWN_TOPIC_OR_PART"
    grow = confluent_admin.NewPartitions
    assert (
        confluent_error(confluent.create_partitions([grow(topic(partitions=3), 2)])) == "INVALID_PARTITIONS"
    )


def test_confluent_adds_partitions(confluent: Any, connection: Connection, topic: Any) -> None:
    known = topic()
    the(confluent.create_partitions([confluent_admin.NewPartitions(known, 3)]))
    await_leaders(connection, known, 3)


def test_confluent_describes_and_alters_settings(confluent: Any, topic: Any) -> None:
    known = topic()
    resource = confluent_admin.ConfigResource(confluent_admin.ResourceType.TOPIC, known)
    found = the(confluent.describe_configs([resource]))
    assert found["cleanup.policy"].value == "delete"
    assert found["cleanup.policy"].is_default
    entry = confluent_admin.ConfigEntry(
        "retention.ms", "5000", incremental_operation=confluent_admin.AlterConfigOpType.SET
    )
    resource = confluent_admin.ConfigResource(
        confluent_admin.ResourceType.TOPIC, known, incremental_configs=[entry]
    )
    the(confluent.incremental_alter_configs([resource]))
    plain = confluent_admin.ConfigResource(confluent_admin.ResourceType.TOPIC, known)
    wait_until(lambda: the(confluent.describe_configs([plain]))["retention.ms"].value == "5000", 10, "set")


def test_confluent_lists_offsets_and_deletes_records(confluent: Any, bootstrap: str, topic: Any) -> None:
    known = topic()
    confluent_produce(bootstrap, known, [Message(b"%d" % i) for i in range(10)])
    where = confluent_kafka.TopicPartition(known, 0)
    latest = {where: confluent_admin.OffsetSpec.latest()}
    assert the(confluent.list_offsets(latest)).offset == 10
    assert 0 <= the(confluent.list_offsets({where: confluent_admin.OffsetSpec.max_timestamp()})).offset < 10
    deleted = the(confluent.delete_records([confluent_kafka.TopicPartition(known, 0, 4)]))
    assert deleted.low_watermark == 4
    assert the(confluent.list_offsets({where: confluent_admin.OffsetSpec.earliest()})).offset == 4


def test_confluent_describes_topics_and_the_cluster(confluent: Any, topic: Any) -> None:
    known = topic(partitions=2)
    described = the(confluent.describe_topics(confluent_kafka.TopicCollection([known])))
    assert (described.name, len(described.partitions)) == (known, 2)
    cluster = confluent.describe_cluster().result(SECONDS)
    assert len(cluster.nodes) == 1
    assert cluster.controller.id == cluster.nodes[0].id


def test_confluent_elects_leaders(confluent: Any, topic: Any) -> None:
    where = confluent_kafka.TopicPartition(topic(), 0)
    found = confluent.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [where]).result(SECONDS)
    ((_, error),) = found.items()
    assert error.name() == "ELECTION_NOT_NEEDED"


def test_confluent_reads_watermarks_and_times(bootstrap: str, topic: Any) -> None:
    known = topic()
    confluent_produce(bootstrap, known, [Message(b"x")] * 5)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition(known, 0), SECONDS) == (0, 5)
        (found,) = consumer.offsets_for_times([confluent_kafka.TopicPartition(known, 0, 1)], SECONDS)
        assert found.offset == 0
    finally:
        consumer.close()


def test_kafka_python_creates_lists_and_deletes(kafka_python: Any, connection: Connection, name: Any) -> None:
    fresh = name()
    kafka_python.create_topics([kafka.admin.NewTopic(fresh, 2, 1)])
    await_leaders(connection, fresh, 2)
    assert fresh in kafka_python.list_topics()
    (found,) = kafka_python.describe_topics([fresh])
    assert len(found["partitions"]) == 2
    kafka_python.delete_topics([fresh])
    wait_until(lambda: fresh not in kafka_python.list_topics(), 10, "the topic is gone")


def test_kafka_python_sees_errors(kafka_python: Any, topic: Any, name: Any) -> None:
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        kafka_python.create_topics([kafka.admin.NewTopic(topic(), 1, 1)])
    with pytest.raises(kafka.errors.InvalidReplicationFactorError):
        kafka_python.create_topics([kafka.admin.NewTopic(name(), 1, 3)])
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        kafka_python.delete_topics([name()])


def test_kafka_python_adds_partitions(kafka_python: Any, connection: Connection, topic: Any) -> None:
    known = topic()
    kafka_python.create_partitions({known: kafka.admin.NewPartitions(4)})
    await_leaders(connection, known, 4)


def test_kafka_python_alters_settings(kafka_python: Any, topic: Any) -> None:
    known = topic()
    kind = kafka.admin.ConfigResourceType.TOPIC
    kafka_python.alter_configs([kafka.admin.ConfigResource(kind, known, {"flush.ms": "4321"})])
    wait_until(
        lambda: "4321" in str(kafka_python.describe_configs([kafka.admin.ConfigResource(kind, known)])),
        10,
        "set",
    )


def test_kafka_python_describes_the_cluster_and_log_folders(kafka_python: Any, topic: Any) -> None:
    known = topic()
    cluster = kafka_python.describe_cluster()
    assert len(cluster["brokers"]) == 1
    assert known in str(kafka_python.describe_log_dirs())


def test_kafka_python_deletes_records(
    kafka_python: Any, bootstrap: str, connection: Connection, topic: Any
) -> None:
    known = topic()
    confluent_produce(bootstrap, known, [Message(b"x")] * 6)
    kafka_python.delete_records({kafka.TopicPartition(known, 0): 2})
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        where = kafka.TopicPartition(known, 0)
        assert consumer.beginning_offsets([where])[where] == 2
        assert consumer.end_offsets([where])[where] == 6
        assert consumer.offsets_for_times({where: 1})[where].offset == 2
    finally:
        consumer.close()


def test_kafka_python_sees_features_and_producers(kafka_python: Any, topic: Any) -> None:
    assert "metadata.version" in str(kafka_python.describe_features())
    assert kafka_python.describe_producers([kafka.TopicPartition(topic(), 0)])


async def test_aiokafka_administers_a_topic(bootstrap: str, connection: Connection, name: Any) -> None:
    fresh = name()
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(fresh, 1, 1, topic_configs={"retention.ms": "60000"})])
        await admin.create_partitions({fresh: NewPartitions(3)})
        assert fresh in await admin.list_topics()
        configs = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, fresh)])
        assert "60000" in str(configs)
    finally:
        await admin.close()
    await_leaders(connection, fresh, 3)
    assert len(describe(connection, fresh).partitions) == 3
