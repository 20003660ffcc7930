"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources.  The codes are those Apache Kafka 4.3.1
answered, except where a value has no effect in Tidelog yet."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from tests.unit.broker.admin import Admin, versions
from tidelog.errors import name_of
from tidelog.metadata.topics.plans import TopicSpec
from tidelog.wire.messages import alter_configs as legacy
from tidelog.wire.messages import incremental_alter_configs as incremental
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest

pytestmark = pytest.mark.simulated

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Change = tuple[str, int, str | None]


async def started(random: Random, given: dict[str, str] | None = None) -> Admin:
    admin = await Admin.start(random, given)
    await admin.node.controller.create_topics([TopicSpec("a"), TopicSpec("b")])
    return admin


def describe(kind: int, name: str, *keys: str, **options: Any) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(resources=[resource], **options)


async def values(admin: Admin, kind: int, name: str, *keys: str) -> dict[str, tuple[str | None, int]]:
    (result,) = (await admin.ask(describe(kind, name, *keys))).results
    assert result.error_code == 0, result.error_message
    return {one.name: (one.value, one.config_source) for one in result.configs}


async def alter(admin: Admin, kind: int, name: str, *changes: Change, validate_only: bool = False) -> str:
    configs = [
        incremental.AlterableConfig(name=key, config_operation=how, value=value)
        for key, how, value in changes
    ]
    resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = (await admin.ask(request)).responses
    assert (answer.error_message is None) == (answer.error_code == 0)
    return name_of(answer.error_code)


async def replace(admin: Admin, kind: int, name: str, **settings: str | None) -> str:
    configs = [
        legacy.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()
    ]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (answer,) = (await admin.ask(legacy.AlterConfigsRequest(resources=[resource]))).responses
    return name_of(answer.error_code)


# Describing


@pytest.mark.parametrize("version", versions(DescribeConfigsRequest.API_KEY))
async def test_a_topic_is_described_in_every_version(random: Random, version: int) -> None:
    admin = await started(random)
    (result,) = (await admin.ask(describe(TOPIC, "a"), version)).results
    assert (result.resource_type, result.resource_name, result.error_code) == (TOPIC, "a", 0)
    assert len(result.configs) == 33


async def test_only_the_settings_asked_for_are_described(random: Random) -> None:
    admin = await started(random)
    assert await values(admin, TOPIC, "a", "retention.ms", "no.such") == {"retention.ms": ("604800000", 5)}


async def test_synonyms_and_words_come_when_asked_for(random: Random) -> None:
    admin = await started(random)
    asked = describe(TOPIC, "a", "segment.bytes", include_synonyms=True, include_documentation=True)
    ((plain,),) = [
        result.configs for result in (await admin.ask(describe(TOPIC, "a", "segment.bytes"))).results
    ]
    ((full,),) = [result.configs for result in (await admin.ask(asked)).results]
    assert (plain.synonyms, plain.documentation, plain.config_type) == ([], None, 3)
    assert [(one.name, one.value, one.source) for one in full.synonyms] == [
        ("log.segment.bytes", "1073741824", 5)
    ]
    assert full.documentation.startswith("Size at which")


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nope", "UNKNOWN_TOPIC_OR_PARTITION"),
        (TOPIC, "b b", "INVALID_TOPIC_EXCEPTION"),
        (TOPIC, "", "INVALID_TOPIC_EXCEPTION"),
        (BROKER, "7", "INVALID_REQUEST"),
        (BROKER, "x", "INVALID_REQUEST"),
        (LOGGER, "7", "INVALID_REQUEST"),
        (LOGGER, "", "INVALID_REQUEST"),
        (GROUP, "", "INVALID_REQUEST"),
        (CLIENT_METRICS, "", "INVALID_REQUEST"),
        (99, "x", "INVALID_REQUEST"),
    ],
)
async def test_what_is_not_there_is_not_described(random: Random, kind: int, name: str, error: str) -> None:
    admin = await started(random)
    (result,) = (await admin.ask(describe(kind, name))).results
    assert (name_of(result.error_code), result.configs) == (error, [])
    assert result.error_message


async def test_a_broker_its_loggers_groups_and_client_metrics_are_described(random: Random) -> None:
    admin = await started(random, {"num.partitions": "3"})
    broker = await values(admin, BROKER, "1")
    assert broker["num.partitions"] == ("3", 4)
    assert broker["ssl.key.password"] == (None, 5)
    assert await values(admin, BROKER, "") == {"min.insync.replicas": ("1", 3)}
    assert (await values(admin, LOGGER, "1"))["root"][1] == 6
    assert len(await values(admin, GROUP, "g")) == 18
    assert len(await values(admin, CLIENT_METRICS, "m")) == 3


# Altering topics


async def test_settings_of_a_topic_are_set_added_to_taken_from_and_unset(random: Random) -> None:
    admin = await started(random)
    assert (
        await alter(admin, TOPIC, "a", ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact"))
        == "NONE"
    )
    assert await values(admin, TOPIC, "a", "retention.ms", "cleanup.policy") == {
        "cleanup.policy": ("delete,compact", 1),
        "retention.ms": ("5", 1),
    }
    assert (
        await alter(admin, TOPIC, "a", ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete"))
        == "NONE"
    )
    assert await values(admin, TOPIC, "a", "retention.ms", "cleanup.policy") == {
        "cleanup.policy": ("compact", 1),
        "retention.ms": ("604800000", 5),
    }


@pytest.mark.parametrize(
    ("topic", "changes", "error"),
    [
        ("a", [("retention.ms", SET, "x")], "INVALID_CONFIG"),
        ("a", [("no.such", SET, "1")], "INVALID_CONFIG"),
        ("a", [("no.such", DELETE, None)], "NONE"),
        ("a", [("retention.ms", APPEND, "1")], "INVALID_CONFIG"),
        ("a", [("retention.ms", SET, None)], "INVALID_REQUEST"),
        ("a", [("retention.ms", 9, "1")], "INVALID_REQUEST"),
        ("a", [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], "INVALID_REQUEST"),
        ("a", [("cleanup.policy", SET, "delete,")], "INVALID_CONFIG"),
        ("a", [("cleanup.policy", SET, "")], "NONE"),
        ("a", [("remote.storage.enable", SET, "true")], "INVALID_CONFIG"),
        ("a", [("remote.storage.enable", SET, "false")], "NONE"),
        ("a", [("min.compaction.lag.ms", SET, "2"), ("max.compaction.lag.ms", SET, "1")], "INVALID_CONFIG"),
        ("a", [], "NONE"),
        ("nope", [("retention.ms", SET, "1")], "UNKNOWN_TOPIC_OR_PARTITION"),
        ("b b", [], "INVALID_TOPIC_EXCEPTION"),
        ("", [], "INVALID_REQUEST"),
    ],
)
async def test_a_change_of_a_topics_settings_gets_kafkas_code(
    random: Random, topic: str, changes: list[Change], error: str
) -> None:
    admin = await started(random)
    assert await alter(admin, TOPIC, topic, *changes) == error


async def test_a_change_happens_as_a_whole_or_not_at_all(random: Random) -> None:
    admin = await started(random)
    assert (
        await alter(admin, TOPIC, "a", ("segment.ms", SET, "5"), ("retention.ms", SET, "x"))
        == "INVALID_CONFIG"
    )
    assert await alter(admin, TOPIC, "a", ("segment.ms", SET, "5"), validate_only=True) == "NONE"
    assert admin.node.controller.image.topic_overrides("a") == {}


async def test_a_resource_that_is_there_twice_is_refused_and_others_are_changed(random: Random) -> None:
    admin = await started(random)
    config = [incremental.AlterableConfig(name="retention.ms", config_operation=SET, value="5")]
    resources = [
        incremental.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=config)
        for name in "aab"
    ]
    answer = await admin.ask(incremental.IncrementalAlterConfigsRequest(resources=resources), 0)
    assert [name_of(one.error_code) for one in answer.responses] == [
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "NONE",
    ]
    image = admin.node.controller.image
    assert (image.topic_overrides("a"), image.topic_overrides("b")) == ({}, {"retention.ms": "5"})


async def test_the_old_way_replaces_all_settings(random: Random) -> None:
    admin = await started(random)
    image = admin.node.controller
    assert await replace(admin, TOPIC, "a", retention_ms="5", segment_ms="6") == "NONE"
    assert await replace(admin, TOPIC, "a", retention_ms="7") == "NONE"
    assert image.image.topic_overrides("a") == {"retention.ms": "7"}
    assert await replace(admin, TOPIC, "a", retention_ms=None) == "INVALID_REQUEST"
    assert await replace(admin, TOPIC, "a", no_such="1") == "INVALID_CONFIG"
    assert await replace(admin, TOPIC, "nope", retention_ms="1") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert await replace(admin, LOGGER, "1", root="INFO") == "INVALID_REQUEST"
    assert await replace(admin, BROKER, "1", message_max_bytes="9") == "NONE"
    assert image.image.broker_overrides(admin._services.node_id) == {"message.max.bytes": "9"}
    assert await replace(admin, BROKER, "1") == "NONE"
    assert image.image.broker_overrides(admin._services.node_id) == {}
    assert await replace(admin, TOPIC, "a") == "NONE"
    assert image.image.topic_overrides("a") == {}


# Altering brokers and the rest


async def test_settings_of_one_broker_win_over_those_of_all(random: Random) -> None:
    admin = await started(random)
    assert await alter(admin, BROKER, "", ("message.max.bytes", SET, "3000")) == "NONE"
    common = {"message.max.bytes": ("3000", 3), "min.insync.replicas": ("1", 3)}
    assert await values(admin, BROKER, "") == common
    assert await values(admin, TOPIC, "a", "max.message.bytes") == {"max.message.bytes": ("3000", 3)}
    assert await alter(admin, BROKER, "1", ("message.max.bytes", SET, "2000")) == "NONE"
    assert await values(admin, BROKER, "1", "message.max.bytes") == {"message.max.bytes": ("2000", 2)}
    assert await values(admin, TOPIC, "a", "max.message.bytes") == {"max.message.bytes": ("2000", 2)}


@pytest.mark.parametrize(
    ("kind", "name", "change", "error"),
    [
        (BROKER, "1", ("num.partitions", SET, "3"), "INVALID_REQUEST"),
        (BROKER, "1", ("message.max.bytes", SET, "x"), "INVALID_REQUEST"),
        (BROKER, "1", ("message.max.bytes", SET, "-1"), "INVALID_REQUEST"),
        (BROKER, "1", ("log.retention.ms", SET, "0"), "INVALID_REQUEST"),
        (BROKER, "1", ("log.roll.ms", SET, "0"), "INVALID_REQUEST"),
        (BROKER, "1", ("config.providers", SET, "file"), "INVALID_REQUEST"),
        (BROKER, "1", ("log.cleaner.threads", SET, "2"), "NONE"),
        (BROKER, "1", ("no.such", SET, "1"), "INVALID_CONFIG"),
        (BROKER, "1", ("num.partitions", DELETE, None), "NONE"),
        (BROKER, "1", ("min.insync.replicas", SET, "1"), "INVALID_CONFIG"),
        (BROKER, "", ("min.insync.replicas", DELETE, None), "INVALID_CONFIG"),
        (BROKER, "1", ("unclean.leader.election.enable", SET, "true"), "NONE"),
        (BROKER, "7", ("message.max.bytes", SET, "1"), "INVALID_REQUEST"),
        (BROKER, "x", ("message.max.bytes", SET, "1"), "INVALID_REQUEST"),
        (LOGGER, "1", ("no.such", SET, "INFO"), "INVALID_CONFIG"),
        (LOGGER, "1", ("root", SET, "LOUD"), "INVALID_CONFIG"),
        (LOGGER, "7", ("root", SET, "INFO"), "INVALID_REQUEST"),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "46000"), "NONE"),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "44999"), "INVALID_CONFIG"),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "60001"), "INVALID_CONFIG"),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "x"), "INVALID_CONFIG"),
        (GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "4999"), "INVALID_CONFIG"),
        (GROUP, "g", ("share.auto.offset.reset", SET, "foo"), "INVALID_CONFIG"),
        (GROUP, "g", ("share.dead.letter.topic", SET, "a b"), "INVALID_CONFIG"),
        (GROUP, "g", ("streams.num.standby.replicas", SET, "3"), "INVALID_CONFIG"),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "45000"), "NONE"),
        (GROUP, "g", ("consumer.session.timeout.ms", DELETE, None), "NONE"),
        (GROUP, "g", ("no.such", SET, "1"), "INVALID_CONFIG"),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "45000"), "INVALID_REQUEST"),
        (CLIENT_METRICS, "m", ("interval.ms", SET, "5000"), "NONE"),
        (CLIENT_METRICS, "m", ("interval.ms", SET, "99"), "INVALID_REQUEST"),
        (CLIENT_METRICS, "", ("interval.ms", SET, "300000"), "INVALID_REQUEST"),
        (99, "x", ("a", SET, "b"), "INVALID_REQUEST"),
    ],
)
async def test_a_change_of_other_settings_gets_its_code(
    random: Random, kind: int, name: str, change: Change, error: str
) -> None:
    admin = await started(random)
    assert await alter(admin, kind, name, change) == error


async def test_settings_of_a_group_are_kept_listed_and_unset(random: Random) -> None:
    admin = await started(random)
    assert await alter(admin, GROUP, "g/1", ("consumer.session.timeout.ms", SET, "46000")) == "NONE"
    assert await alter(admin, GROUP, "g/1", ("consumer.heartbeat.interval.ms", SET, "6000")) == "NONE"
    assert await values(admin, GROUP, "g/1", "consumer.session.timeout.ms") == {
        "consumer.session.timeout.ms": ("46000", 8)
    }
    assert await values(admin, GROUP, "other", "consumer.session.timeout.ms") == {
        "consumer.session.timeout.ms": ("45000", 5)
    }
    image = admin.node.controller.image
    assert dict(image.group_overrides("g/1")) == {
        "consumer.heartbeat.interval.ms": "6000",
        "consumer.session.timeout.ms": "46000",
    }
    (listed,) = (await admin.ask(ListConfigResourcesRequest(resource_types=[GROUP]))).config_resources
    assert (listed.resource_name, listed.resource_type) == ("g/1", GROUP)
    assert [update.group_configs for update in admin.node.updates if update.group_configs] == [
        ("g/1",),
        ("g/1",),
    ]
    for name in ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"):
        assert await alter(admin, GROUP, "g/1", (name, DELETE, None)) == "NONE"
    assert list(admin.node.controller.image.group_configs) == []


async def test_the_level_of_a_logger_can_be_set_and_unset(random: Random) -> None:
    logger = logging.getLogger("tidelog.test_of_levels")
    admin = await started(random)
    assert await alter(admin, LOGGER, "1", (logger.name, SET, "ERROR")) == "NONE"
    assert logger.level == logging.ERROR
    assert await values(admin, LOGGER, "1", logger.name) == {logger.name: ("ERROR", 6)}
    assert await alter(admin, LOGGER, "1", (logger.name, DELETE, None)) == "NONE"
    assert logger.level == logging.NOTSET


# Listing


async def test_resources_are_listed_by_type(random: Random) -> None:
    admin = await started(random)

    async def listed(version: int, *kinds: int) -> Any:
        answer = await admin.ask(ListConfigResourcesRequest(resource_types=list(kinds)), version)
        found = {(one.resource_type, one.resource_name) for one in answer.config_resources}
        return found if answer.error_code == 0 else name_of(answer.error_code)

    assert await listed(0) == set()
    assert await listed(1) == {(TOPIC, "a"), (TOPIC, "b"), (BROKER, "1"), (LOGGER, "1")}
    assert await listed(1, TOPIC) == {(TOPIC, "a"), (TOPIC, "b")}
    assert await listed(1, CLIENT_METRICS, GROUP) == set()
    assert await listed(1, TOPIC, 99) == "UNSUPPORTED_VERSION"
