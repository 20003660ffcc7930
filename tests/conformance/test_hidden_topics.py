"""What a user may not describe does not exist: neither by a regular expression of a group, nor by creating it unseen."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.members import await_coordinator
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.secured import PLAIN_PASSWORD, SecuredBroker
from tidelog import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType, Admin, NewTopic

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka is set up without users")

SECONDS = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    settings = {"group.consumer.min.heartbeat.interval.ms": "100", "tidelog.group.heartbeat.hold.ms": "0"}
    broker = SecuredBroker(tmp_path_factory.mktemp("hidden"), settings)
    broker.start()
    yield broker
    assert broker.alive(), broker.log_tail()
    broker.stop()


@pytest.fixture
def admin(broker: SecuredBroker) -> Iterator[Admin]:
    """A super user."""
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        yield admin


def allow(
    admin: Admin, kind: AclResourceType, name: str, operation: AclOperation, prefixed: bool = False
) -> AclBinding:
    pattern = AclPatternType.PREFIXED if prefixed else AclPatternType.LITERAL
    binding = AclBinding(kind, pattern, name, "User:ann", "*", operation, AclPermission.ALLOW)
    admin.create_acls([binding])
    return binding


@pytest.fixture
def ann(broker: SecuredBroker) -> Iterator[Connection]:
    with Connection(broker.at("LOGIN")) as connection:
        assert not connection.call("sasl_handshake", 1, mechanism="PLAIN").error_code
        login = f"\0ann\0{PLAIN_PASSWORD}".encode()
        assert not connection.call("sasl_authenticate", 2, auth_bytes=login).error_code
        yield connection


class RegexMember:
    def __init__(self, connection: Connection, group: str, regex: str) -> None:
        self.connection = connection
        self.fields: dict[str, Any] = {"group_id": group, "member_id": str(uuid.uuid4())}
        self.epoch = 0
        self.regex = regex
        self.topics: set[uuid.UUID] = set()

    def beat(self) -> set[uuid.UUID]:
        """The ids of all topics that it is assigned partitions of."""
        joining = {
            "subscribed_topic_regex": self.regex,
            "rebalance_timeout": 10_000,
            "topic_partitions": (),
        }
        answer = self.connection.call(
            "consumer_group_heartbeat",
            1,
            member_epoch=self.epoch,
            **self.fields,
            **(joining if not self.epoch else {}),
        )
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.topics = {topic.topic_id for topic in answer.assignment.topic_partitions}
        return self.topics


def ids(admin: Admin, *names: str) -> set[uuid.UUID]:
    return {description.id for description in admin.describe_topics(list(names)).values()}


def test_a_regular_expression_matches_no_topic_that_the_member_may_not_describe(
    broker: SecuredBroker, admin: Admin, ann: Connection
) -> None:
    admin.create_topics([NewTopic("plans-secret", 2, 1), NewTopic("plans-open", 1, 1)])
    allow(admin, AclResourceType.GROUP, "readers", AclOperation.READ)
    allow(admin, AclResourceType.TOPIC, "plans-open", AclOperation.DESCRIBE)
    with Connection(broker.bootstrap) as connection:
        await_coordinator(connection, "readers")
    both, is_open = ids(admin, "plans-secret", "plans-open"), ids(admin, "plans-open")
    member = RegexMember(ann, "readers", "plans-.*")
    wait_until(lambda: member.beat() == is_open, SECONDS, "the open topic is assigned")
    admin.create_topics([NewTopic("plans-later", 1, 1)])
    for _ in range(20):
        assert member.beat() == is_open, "a topic that is made later"
    right = allow(admin, AclResourceType.TOPIC, "plans-secret", AclOperation.DESCRIBE)
    wait_until(lambda: member.beat() == both, SECONDS, "the right counts without another subscription")
    admin.delete_acls([right])
    wait_until(lambda: member.beat() == is_open, SECONDS, "so does its end")


def test_topics_that_are_created_unseen_are_charged_and_recorded(
    broker: SecuredBroker, admin: Admin, ann: Connection
) -> None:
    allow(admin, AclResourceType.TOPIC, "made-", AclOperation.CREATE, prefixed=True)
    allow(admin, AclResourceType.TOPIC, "made-", AclOperation.DESCRIBE, prefixed=True)
    names = [f"made-{number}" for number in range(30)]

    def asked(some: list[str]) -> Any:
        return ann.call(
            "metadata",
            9,
            topics=[{"name": name} for name in some],
            allow_auto_topic_creation=True,
        )

    first = asked(names[:1])
    assert [topic.error_code for topic in first.topics] == [0] and not first.throttle_time.total_seconds()
    wait_until(lambda: _recorded(broker, names[0]), SECONDS, "the audit trail has it")
    (event,) = _recorded(broker, names[0])
    assert event["principal"] == "User:ann" and event["change"] == {"auto_created": True, "partitions": 1}
    admin.alter_client_quotas({_ann(): {"controller_mutation_rate": 1.0}})
    wait_until(lambda: asked(names[1:]).throttle_time.total_seconds() > 1, SECONDS, "the quota counts")
    admin.alter_client_quotas({_ann(): {"controller_mutation_rate": None}})


def _ann() -> Any:
    from tidelog import QuotaEntity

    return QuotaEntity(user="ann")


def _recorded(broker: SecuredBroker, topic: str) -> list[dict[str, Any]]:
    events = []
    for line in broker.log_text().splitlines():
        _, found, text = line.partition('{"')
        if found and f'"{topic}"' in line and '"auto_created"' in line:
            events.append(json.loads('{"' + text))
    return events
