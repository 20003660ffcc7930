"""Settings of groups: described, changed, listed, and in effect."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.conformance.consumer_members import NONE, ConsumerMember
from tests.conformance.members import await_coordinator
from tests.conformance.raw import Connection

GROUP, SET, DELETE = 32, 0, 1
INVALID_CONFIG, INVALID_REQUEST = 40, 42
OF_GROUP, DEFAULT, STATIC_BROKER = 8, 5, 4


def alter(
    connection: Connection, group: str, name: str, value: str | None, validate_only: bool = False
) -> int:
    change = {"name": name, "config_operation": DELETE if value is None else SET, "value": value}
    wanted = {"resource_type": GROUP, "resource_name": group, "configs": [change]}
    answer = connection.call("incremental_alter_configs", 1, resources=[wanted], validate_only=validate_only)
    return int(answer.responses[0].error_code)


def described(connection: Connection, group: str, *names: str) -> dict[str, Any]:
    wanted = {
        "resource_type": GROUP,
        "resource_name": group,
        "configuration_keys": list(names) if names else None,
    }
    (result,) = connection.call(
        "describe_configs", 4, resources=[wanted], include_synonyms=True, include_documentation=False
    ).results
    assert result.error_code == NONE
    return {one.name: one for one in result.configs}


def eventually(check: Any) -> None:
    """Kafka's brokers learn of a change a moment after it was answered."""
    deadline = time.monotonic() + 10
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_setting_is_set_shown_and_unset(connection: Connection, name: Any) -> None:
    group, setting = name(), "consumer.session.timeout.ms"
    (before,) = described(connection, group, setting).values()
    assert (before.value, before.config_source, before.read_only) == ("45000", DEFAULT, False)
    assert alter(connection, group, setting, "50000") == NONE
    eventually(lambda: described(connection, group, setting)[setting].value == "50000")
    (after,) = described(connection, group, setting).values()
    assert after.config_source == OF_GROUP
    assert [(one.name, one.value, one.source) for one in after.synonyms] == [
        (setting, "50000", OF_GROUP),
        (f"group.{setting}", "45000", DEFAULT),
    ]
    assert alter(connection, group, setting, None) == NONE
    eventually(lambda: described(connection, group, setting)[setting].value == "45000")


def test_every_setting_of_groups_is_described(connection: Connection, name: Any) -> None:
    found = described(connection, name())
    assert found["share.auto.offset.reset"].value == "latest"
    assert found["streams.num.standby.replicas"].value == "0"
    assert len([known for known in found if known != "share.dead.letter.topic"]) == 17


def test_what_was_set_is_listed(connection: Connection, name: Any) -> None:
    group = name()

    def listed() -> bool:
        found = connection.call("list_config_resources", 1, resource_types=[GROUP]).config_resources
        return group in {one.resource_name for one in found}

    assert not listed()
    assert alter(connection, group, "consumer.session.timeout.ms", "50000") == NONE
    eventually(listed)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("consumer.session.timeout.ms", "44999"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.session.timeout.ms", "soon"),
        ("consumer.heartbeat.interval.ms", "15001"),
        ("consumer.assignment.interval.ms", "-1"),
        ("share.auto.offset.reset", "sometime"),
        ("share.isolation.level", "read_nothing"),
        ("no.such.setting", "1"),
    ],
)
def test_what_is_not_allowed_is_refused(setting: str, value: str, connection: Connection, name: Any) -> None:
    group = name()
    assert alter(connection, group, setting, value) == INVALID_CONFIG
    assert all(one.config_source != OF_GROUP for one in described(connection, group).values())


def test_a_group_has_a_name(connection: Connection) -> None:
    assert alter(connection, "", "consumer.session.timeout.ms", "50000") == INVALID_REQUEST


def test_a_check_changes_nothing(connection: Connection, name: Any) -> None:
    group = name()
    assert alter(connection, group, "consumer.session.timeout.ms", "50000", validate_only=True) == NONE
    assert alter(connection, group, "consumer.session.timeout.ms", "1", validate_only=True) == INVALID_CONFIG
    assert described(connection, group)["consumer.session.timeout.ms"].value == "45000"


def test_the_session_of_a_group_can_be_shorter_than_that_of_others(own_broker: Any) -> None:
    broker = own_broker({"group.consumer.min.session.timeout.ms": "500"})
    short, other = (ConsumerMember(broker.bootstrap, group) for group in ("short", "other"))
    await_coordinator(short.connection, "short")
    assert alter(short.connection, "short", "consumer.session.timeout.ms", "1000") == NONE
    eventually(lambda: described(short.connection, "short")["consumer.session.timeout.ms"].value == "1000")
    assert short.join("t") == NONE and other.join("t") == NONE
    deadline = time.monotonic() + 15
    while short.describe().members:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert len(other.describe().members) == 1
    short.close()
    other.close()
