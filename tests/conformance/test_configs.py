"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import batches
from tests.conformance.batches import batch
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, await_leaders, create_topic, fetch, list_offset, produce

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5

# Every topic setting of Apache Kafka 4.3 and its default.
TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def resources(kind: int, name: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"resource_type": kind, "resource_name": name} | fields]


def describe(
    connection: Connection, kind: int, name: str, keys: list[str] | None = None, **fields: Any
) -> Any:
    wanted = resources(kind, name, configuration_keys=keys)
    return connection.call("describe_configs", 4, resources=wanted, **fields).results[0]


def settings(connection: Connection, topic: str) -> dict[str, str | None]:
    return {c.name: c.value for c in describe(connection, TOPIC, topic).configs}


def alter(connection: Connection, topic: str, *changes: tuple[int, str, str | None], **fields: Any) -> Any:
    configs = [{"config_operation": how, "name": key, "value": value} for how, key, value in changes]
    kind = fields.pop("kind", TOPIC)
    answer = connection.call(
        "incremental_alter_configs", 1, resources=resources(kind, topic, configs=configs), **fields
    )
    return answer.responses[0]


def shows(connection: Connection, topic: str, key: str, value: str) -> None:
    wait_until(lambda: settings(connection, topic)[key] == value, 10, f"{key} is {value}")


def test_a_topic_has_kafkas_settings_and_defaults(connection: Connection, topic: Any) -> None:
    assert settings(connection, topic()) == TOPIC_DEFAULTS


def test_only_the_asked_settings_are_described(connection: Connection, topic: Any) -> None:
    found = describe(connection, TOPIC, topic(), ["retention.ms", "no.such.setting"])
    assert [c.name for c in found.configs] == ["retention.ms"]
    assert describe(connection, TOPIC, topic(), []).configs


def test_a_setting_tells_its_source_type_and_synonyms(connection: Connection, topic: Any) -> None:
    known = topic(config={"segment.bytes": "2000000"})
    found = describe(connection, TOPIC, known, ["segment.bytes", "retention.ms"], include_synonyms=True)
    by_name = {c.name: c for c in found.configs}
    segment = by_name["segment.bytes"]
    integer, long = 3, 5
    assert (segment.value, segment.config_source, segment.config_type) == ("2000000", DYNAMIC_TOPIC, integer)
    assert [(s.name, s.value, s.source) for s in segment.synonyms] == [
        ("segment.bytes", "2000000", DYNAMIC_TOPIC),
        ("log.segment.bytes", "1073741824", DEFAULT),
    ]
    assert not segment.read_only
    assert not segment.is_sensitive
    assert (by_name["retention.ms"].config_source, by_name["retention.ms"].config_type) == (DEFAULT, long)


def test_synonyms_and_documentation_come_when_asked_for(connection: Connection, topic: Any) -> None:
    known = topic()
    plain = describe(connection, TOPIC, known, ["retention.ms"]).configs[0]
    assert (plain.synonyms, plain.documentation) == ((), None)
    full = describe(connection, TOPIC, known, ["retention.ms"], include_documentation=True).configs[0]
    assert full.documentation


@pytest.mark.parametrize(
    ("kind", "resource", "error"),
    [
        (TOPIC, "no-such-topic", "unknown_topic_or_partition"),
        (TOPIC, "bad name", "invalid_topic_exception"),
        (TOPIC, "", "invalid_topic_exception"),
        (BROKER, "999", "invalid_request"),
        (BROKER, "one", "invalid_request"),
        (77, "x", "invalid_request"),
    ],
)
def test_describing_what_is_not_there(kind: int, resource: str, error: str, connection: Connection) -> None:
    found = describe(connection, kind, resource)
    assert found.error_code.name == error
    assert not found.configs


def test_a_broker_describes_its_settings(connection: Connection) -> None:
    node = connection.call("metadata", 12, topics=[]).brokers[0].node_id
    found = {c.name: c for c in describe(connection, BROKER, str(node)).configs}
    assert found["node.id"].value == str(node)
    assert found["node.id"].read_only
    assert found["log.segment.bytes"].value == "1073741824"
    assert found["log.segment.bytes"].config_source == DEFAULT
    assert found["log.cleaner.backoff.ms"].value == "100"
    assert found["log.cleaner.backoff.ms"].config_source == STATIC_BROKER
    for name in ("log.dirs", "listeners", "num.partitions", "auto.create.topics.enable", "message.max.bytes"):
        assert name in found


def test_set_and_delete_change_one_setting(connection: Connection, topic: Any) -> None:
    known = topic(config={"retention.ms": "5000"})
    assert alter(connection, known, (SET, "max.message.bytes", "2000")).error_code == 0
    shows(connection, known, "max.message.bytes", "2000")
    assert settings(connection, known)["retention.ms"] == "5000"
    assert alter(connection, known, (DELETE, "retention.ms", None)).error_code == 0
    shows(connection, known, "retention.ms", "604800000")
    assert settings(connection, known)["max.message.bytes"] == "2000"


def test_append_and_subtract_change_a_list(connection: Connection, topic: Any) -> None:
    known = topic()
    assert alter(connection, known, (APPEND, "cleanup.policy", "compact")).error_code == 0
    shows(connection, known, "cleanup.policy", "delete,compact")
    assert alter(connection, known, (SUBTRACT, "cleanup.policy", "delete")).error_code == 0
    shows(connection, known, "cleanup.policy", "compact")


def test_setting_the_default_by_hand_is_still_a_setting(connection: Connection, topic: Any) -> None:
    known = topic()
    assert alter(connection, known, (SET, "retention.ms", "604800000")).error_code == 0
    wait_until(
        lambda: (
            describe(connection, TOPIC, known, ["retention.ms"]).configs[0].config_source == DYNAMIC_TOPIC
        ),
        10,
        "the source is the topic",
    )


BAD_CHANGES: dict[str, tuple[list[tuple[int, str, str | None]], str]] = {
    "unknown setting": ([(SET, "no.such.setting", "1")], "invalid_config"),
    "not a number": ([(SET, "retention.ms", "soon")], "invalid_config"),
    "too small": ([(SET, "segment.bytes", "100")], "invalid_config"),
    "below the least segment": ([(SET, "segment.bytes", "1048575")], "invalid_config"),
    "negative": ([(SET, "max.message.bytes", "-1")], "invalid_config"),
    "too large": ([(SET, "segment.bytes", "4000000000")], "invalid_config"),
    "unknown choice": ([(SET, "compression.type", "rar")], "invalid_config"),
    "not true or false": ([(SET, "preallocate", "maybe")], "invalid_config"),
    "ratio above 1": ([(SET, "min.cleanable.dirty.ratio", "1.5")], "invalid_config"),
    "no replicas in sync": ([(SET, "min.insync.replicas", "0")], "invalid_config"),
    "null": ([(SET, "retention.ms", None)], "invalid_request"),
    "twice in one request": ([(SET, "retention.ms", "1"), (SET, "retention.ms", "2")], "invalid_request"),
    "append to a number": ([(APPEND, "retention.ms", "1")], "invalid_config"),
    "lag the wrong way round": (
        [(SET, "min.compaction.lag.ms", "2000"), (SET, "max.compaction.lag.ms", "1000")],
        "invalid_config",
    ),
}


@pytest.mark.parametrize("case", BAD_CHANGES)
def test_bad_changes_are_refused(case: str, connection: Connection, topic: Any) -> None:
    changes, error = BAD_CHANGES[case]
    known = topic()
    refused = alter(connection, known, *changes)
    assert refused.error_code.name == error
    assert refused.error_message
    assert settings(connection, known) == TOPIC_DEFAULTS


def test_an_unknown_operation_is_refused(connection: Connection, topic: Any) -> None:
    known = topic()
    assert alter(connection, known, (9, "retention.ms", "1")).error_code != 0
    assert settings(connection, known) == TOPIC_DEFAULTS


def test_one_bad_change_spoils_its_resource(connection: Connection, topic: Any) -> None:
    known = topic()
    refused = alter(connection, known, (SET, "retention.ms", "1000"), (SET, "flush.ms", "x"))
    assert refused.error_code.name == "invalid_config"
    assert settings(connection, known) == TOPIC_DEFAULTS


def test_validate_only_changes_nothing(connection: Connection, topic: Any) -> None:
    known = topic()
    assert alter(connection, known, (SET, "retention.ms", "1000"), validate_only=True).error_code == 0
    assert alter(connection, known, (SET, "retention.ms", "x"), validate_only=True).error_code != 0
    assert settings(connection, known) == TOPIC_DEFAULTS


def test_changing_an_unknown_topic(connection: Connection, name: Any) -> None:
    refused = alter(connection, name(), (SET, "retention.ms", "1000"))
    assert refused.error_code.name == "unknown_topic_or_partition"


def test_the_old_request_replaces_all_settings(connection: Connection, topic: Any) -> None:
    known = topic(config={"retention.ms": "5000", "flush.ms": "7000"})
    wanted = resources(TOPIC, known, configs=[{"name": "retention.ms", "value": "6000"}])
    answer = connection.call("alter_configs", 2, resources=wanted)
    assert answer.responses[0].error_code == 0
    shows(connection, known, "retention.ms", "6000")
    assert settings(connection, known)["flush.ms"] == TOPIC_DEFAULTS["flush.ms"]


def test_the_old_request_checks_as_well(connection: Connection, topic: Any) -> None:
    wanted = resources(TOPIC, topic(), configs=[{"name": "retention.ms", "value": "x"}])
    answer = connection.call("alter_configs", 2, resources=wanted)
    assert answer.responses[0].error_code.name == "invalid_config"


def test_changed_settings_take_effect(connection: Connection, topic: Any) -> None:
    known = topic()
    large = batch([b"x" * 5000], codec="gzip", base_timestamp=1000)
    append(connection, known, large)
    changes = {"max.message.bytes": "900", "compression.type": "uncompressed", "retention.ms": "-1"}
    alter(connection, known, *((SET, key, value) for key, value in changes.items()))
    wait_until(
        lambda: produce(connection, known, large).error_code.name == "message_too_large", 10, "a limit"
    )
    alter(
        connection,
        known,
        (DELETE, "max.message.bytes", None),
        (SET, "message.timestamp.type", "LogAppendTime"),
    )
    wait_until(lambda: produce(connection, known, large).error_code == 0, 10, "no limit")
    end = list_offset(connection, known, -1).offset
    (stored,) = batches.read(fetch(connection, known, end - 1).records)
    assert stored.attributes == batches.LOG_APPEND_TIME


def test_settings_that_changed_before_anybody_came_take_effect(connection: Connection, name: Any) -> None:
    known = name()
    wanted = {"name": known, "num_partitions": 2, "replication_factor": 1}
    created = connection.call("create_topics", 7, topics=[wanted], timeout=10_000)
    assert created.topics[0].error_code == 0, created
    assert alter(connection, known, (APPEND, "cleanup.policy", "compact")).error_code == 0
    await_leaders(connection, known, 2)
    for partition in range(2):
        wait_until(
            lambda at=partition: (
                produce(connection, known, batch([b"no key"]), at).error_code.name == "invalid_record"
            ),
            10,
            "records need a key",
        )


def test_brokers_settings_are_defaults_for_topics(own_broker: Any) -> None:
    settings = {
        "log.message.timestamp.type": "LogAppendTime",
        "message.max.bytes": "2000",
        "log.retention.ms": "-1",
    }
    with Connection(own_broker(settings).bootstrap) as connection:
        create_topic("{}:{}".format(*connection.socket.getpeername()), "defaults", 1)
        found = {c.name: c for c in describe(connection, TOPIC, "defaults", include_synonyms=True).configs}
        for key, value in {
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": "2000",
            "retention.ms": "-1",
        }.items():
            assert (found[key].value, found[key].config_source) == (value, STATIC_BROKER)
        assert produce(connection, "defaults", batch([b"x" * 3000])).error_code.name == "message_too_large"
        append(connection, "defaults", batch([b"x"], base_timestamp=1000))
        (stored,) = batches.read(fetch(connection, "defaults", 0).records)
        assert stored.attributes & batches.LOG_APPEND_TIME


def test_a_broker_setting_can_be_changed_while_it_runs(own_broker: Any) -> None:
    with Connection(own_broker().bootstrap) as connection:
        node = str(connection.call("metadata", 12, topics=[]).brokers[0].node_id)
        changed = alter(connection, node, (SET, "log.retention.ms", "7200000"), kind=BROKER)
        assert changed.error_code == 0, changed
        wait_until(
            lambda: _broker_setting(connection, node, "log.retention.ms") == ("7200000", DYNAMIC_BROKER),
            10,
            "set",
        )
        alter(connection, node, (DELETE, "log.retention.ms", None), kind=BROKER)
        wait_until(lambda: _broker_setting(connection, node, "log.retention.ms")[1] == DEFAULT, 10, "unset")


def test_a_read_only_broker_setting_is_refused(connection: Connection) -> None:
    node = str(connection.call("metadata", 12, topics=[]).brokers[0].node_id)
    refused = alter(connection, node, (SET, "log.dirs", "elsewhere"), kind=BROKER)
    assert refused.error_code.name == "invalid_request"


def _broker_setting(connection: Connection, node: str, key: str) -> tuple[str | None, int]:
    found = describe(connection, BROKER, node, [key]).configs[0]
    return found.value, found.config_source


def test_resources_with_settings_are_listed(connection: Connection, topic: Any) -> None:
    known = topic()
    answer = connection.call("list_config_resources", 1, resource_types=[TOPIC])
    assert answer.error_code == 0
    assert (known, TOPIC) in {(r.resource_name, r.resource_type) for r in answer.config_resources}
    brokers = connection.call("list_config_resources", 1, resource_types=[BROKER]).config_resources
    node = str(connection.call("metadata", 12, topics=[]).brokers[0].node_id)
    assert [(r.resource_name, r.resource_type) for r in brokers] == [(node, BROKER)]


def test_all_kinds_of_resources_are_listed_by_default(connection: Connection, topic: Any) -> None:
    known = topic()
    answer = connection.call("list_config_resources", 1, resource_types=[])
    kinds = {r.resource_type for r in answer.config_resources}
    assert {TOPIC, BROKER} <= kinds
    assert known in {r.resource_name for r in answer.config_resources}


def test_listing_an_unknown_kind_is_refused(connection: Connection) -> None:
    answer = connection.call("list_config_resources", 1, resource_types=[99])
    assert answer.error_code.name == "unsupported_version"


def test_the_first_version_lists_client_metrics_only(connection: Connection) -> None:
    assert connection.call("list_config_resources", 0).config_resources == ()


def test_the_cluster_has_one_min_isr(connection: Connection, topic: Any) -> None:
    """Brokers with values of their own could disagree on which replicas are eligible leaders."""
    name, created = "min.insync.replicas", topic()

    def shown(kind: int, resource: str) -> list[tuple[str | None, int]]:
        return [
            (config.value, config.config_source)
            for config in describe(connection, kind, resource, [name]).configs
        ]

    node = str(connection.call("metadata", 12, topics=[]).brokers[0].node_id)
    for kind, resource in ((TOPIC, created), (BROKER, node), (BROKER, "")):
        assert shown(kind, resource) == [("1", DYNAMIC_DEFAULT)]
    for how, value in ((SET, "2"), (DELETE, None)):
        refused = alter(connection, node, (how, name, value), kind=BROKER)
        assert refused.error_code.name == "invalid_config"
        assert refused.error_message == f"Broker-level {name} cannot be altered while ELR is enabled."
    refused = alter(connection, "", (DELETE, name, None), kind=BROKER)
    assert refused.error_code.name == "invalid_config"
    assert refused.error_message == f"Cluster-level {name} cannot be removed while ELR is enabled."
    for configs in ([], [{"name": "message.max.bytes", "value": "1048588"}]):
        wanted = resources(BROKER, "", configs=configs)
        replaced = connection.call("alter_configs", 2, resources=wanted).responses[0]
        assert replaced.error_message == f"Cluster-level {name} cannot be removed while ELR is enabled."
    assert alter(connection, created, (SET, name, "1")).error_code == 0
    assert shown(TOPIC, created) == [("1", DYNAMIC_TOPIC)]
