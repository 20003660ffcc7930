"""Every route of the HTTP port, every endpoint of the registry and every action of the console: as a stranger, as a user
without the right, who may do everything else, and as one with just that right.  The rows come from the tables of the
gateways; an action without a row fails."""

from __future__ import annotations

import base64
import http.client
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.process import free_port
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import Admin, NewTopic, Security
from tidelog.gateways.http.rights import RIGHTS
from tidelog.gateways.registry.rights import RIGHTS as REGISTRY
from tidelog.wire.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no HTTP port")

SECONDS = 60
PASSWORDS = {"root": "of-root", "ann": "of-ann"}
TOKEN = "t" * 43
"""Of the console's forms: what the cookie says, a form must say."""
REFUSED = re.compile(r"not allowed|no permission|may not|not authorized", re.IGNORECASE)

Right = tuple[str, str, str]
"""Operation, kind, name."""
IMPLIED = {"DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"}, "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"}}
OPERATIONS = {
    "TOPIC": "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    "GROUP": "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    "CLUSTER": "ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
    "TRANSACTIONAL_ID": "WRITE DESCRIBE",
}


class Action(NamedTuple):
    """What the table of routes leaves to the brokers, or to the registry, because a form or a body has the name."""

    needs: tuple[Right, ...]
    fields: Mapping[str, str] = {}
    body: Any = None


V3 = "/v3/clusters/{cluster}"
SUBJECT = {"name": "orders-value"}
ACTIONS: dict[tuple[str, str], Action] = {
    ("POST", V3 + "/topics"): Action((("CREATE", "TOPIC", "made"),), body={"topic_name": "made"}),
    ("POST", "/console/logout"): Action(()),
    ("POST", "/console/topics"): Action((("CREATE", "TOPIC", "made-too"),), {"name": "made-too"}),
    ("POST", "/console/settings"): Action(
        (("ALTER_CONFIGS", "TOPIC", "orders"),),
        {"kind": "topic", "name": "orders", "key": "retention.ms", "value": "3600000"},
    ),
    ("POST", "/console/groups/delete"): Action(
        (("DELETE", "GROUP", "g"),), {"name": "g", "confirmed": "yes"}
    ),
    ("POST", "/console/groups/remove"): Action((("READ", "GROUP", "g"),), {"name": "g", "member": "m"}),
    ("POST", "/console/groups/reset"): Action(
        (("READ", "GROUP", "g"), ("READ", "TOPIC", "orders")),
        {"name": "g", "topic": "orders", "to": "earliest", "confirmed": "yes"},
    ),
    ("POST", "/console/transactions/abort"): Action(
        (("WRITE", "TRANSACTIONAL_ID", "tx"),), {"name": "tx", "confirmed": "yes"}
    ),
    ("POST", "/console/schemas"): Action(
        (("WRITE", "TOPIC", "orders"),),
        {"subject": "orders-value", "kind": "AVRO", "schema": '"string"'},
    ),
    ("POST", "/console/schemas/try"): Action(
        (("DESCRIBE", "TOPIC", "orders"),), {**SUBJECT, "kind": "AVRO", "schema": '"string"'}
    ),
    ("POST", "/console/schemas/compatibility"): Action(
        (("ALTER", "TOPIC", "orders"),), {**SUBJECT, "mode": "FULL"}
    ),
    ("POST", "/console/schemas/delete"): Action((("ALTER", "TOPIC", "orders"),), {**SUBJECT, "version": "1"}),
}


def test_every_action_has_a_row() -> None:
    left = {
        (method, path)
        for (method, path), rule in RIGHTS.items()
        if method != "GET" and not rule.needs and not rule.is_open
    }
    assert left == set(ACTIONS)


class DoorBroker(TidelogBroker):
    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]  # the settings have the listener


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorBroker]:
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    port = free_port()
    running = DoorBroker(
        tmp_path_factory.mktemp("doors"),
        {
            "listeners": f"SEC://127.0.0.1:{port}",
            "listener.security.protocol.map": "SEC:SASL_PLAINTEXT",
            "inter.broker.listener.name": "SEC",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="root" password="{PASSWORDS["root"]}" {users};',
            "authorizer.class.name": "tidelog",
            "super.users": "User:root",
        },
    )
    running.port = port
    running.start()
    yield running
    assert running.alive(), running.log_tail()
    running.stop()


@pytest.fixture
def rights(broker: DoorBroker) -> Iterator[Rights]:
    login = Security(mechanism="PLAIN", username="root", password=PASSWORDS["root"])
    with Admin(bootstrap_servers=broker.bootstrap, security=login) as admin:
        given = Rights(admin)
        yield given
        given.are(())


class Rights:
    """What ann may do."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def are(self, rights: Iterable[Right]) -> None:
        self._admin.delete_acls(AclFilter(principal="User:ann"))
        bindings = [_binding(right) for right in dict.fromkeys(rights)]
        if bindings:
            self._admin.create_acls(bindings)

    def restore(self) -> None:
        """Requests may have deleted the topic."""
        known = [topic.name for topic in self._admin.list_topics()]
        if "orders" not in known:
            self._admin.create_topics([NewTopic("orders", 1, 1)])


def _binding(right: Right) -> AclBinding:
    operation, kind, name = right
    return AclBinding(
        AclResourceType[kind],
        AclPatternType.LITERAL,
        name,
        "User:ann",
        "*",
        AclOperation[operation],
        AclPermission.ALLOW,
    )


def all_but(needed: tuple[Right, ...]) -> Iterator[Right]:
    """Every right on the same resources that neither is one of these nor implies one, and these on other resources."""
    for _, kind, name in needed:
        of_resource = {one for one, one_kind, one_name in needed if (one_kind, one_name) == (kind, name)}
        for operation in OPERATIONS[kind].split():
            implies = any(operation in IMPLIED.get(one, ()) for one in of_resource)
            if operation not in of_resource and not implies:
                yield operation, kind, name
    for operation, kind, _ in needed:
        if kind != "CLUSTER":
            yield operation, kind, "other"


class HttpAnswer(NamedTuple):
    status: int
    text: str

    @property
    def is_refused(self) -> bool:
        return self.status == 403 or (self.status >= 400 and REFUSED.search(self.text) is not None)


def asked(
    broker: DoorBroker, method: str, path: str, *, user: str | None = "ann", action: Action | None = None
) -> HttpAnswer:
    host, _, port = broker.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
    headers, body = {"Cookie": f"tidelog_form={TOKEN}"}, None
    if user is not None:
        proof = base64.b64encode(f"{user}:{PASSWORDS[user]}".encode()).decode()
        headers["Authorization"] = f"Basic {proof}"
    if action is not None and action.body is None and path.startswith("/console"):
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode({**action.fields, "token": TOKEN})
    elif method != "GET":
        headers["Content-Type"] = "application/json"
        body = json.dumps({} if action is None else action.body)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        streams = "events" in path and answer.status == 200
        return HttpAnswer(answer.status, "" if streams else answer.read().decode(errors="replace"))
    finally:
        connection.close()


@pytest.fixture(scope="module")
def cluster(broker: DoorBroker) -> str:
    return str(json.loads(asked(broker, "GET", "/v3/clusters", user="root").text)["data"][0]["cluster_id"])


def filled(pattern: str, cluster: str) -> str:
    names = {"topic": "orders", "group": "g", "cluster": cluster, "rest:path": "x", "instance": "i"}
    return re.sub(r"\{([^}]+)\}", lambda match: names.get(match[1], "0"), pattern)


def needed_by(pattern: str, method: str) -> tuple[tuple[Right, ...], str]:
    """The rights of a row of the table of routes, and its query."""
    rights: list[Right] = []
    query = ""
    for need in RIGHTS[method, pattern].needs:
        name = {"{topic}": "orders", "{group}": "g", "?name": "g"}.get(need.name, need.name)
        if need.name == "?name":
            query = "?name=g"
        rights.append((need.operation.name, need.kind.name, name))
    return tuple(rights), query


@pytest.mark.parametrize(("method", "pattern"), [key for key, rule in RIGHTS.items() if rule.needs])
def test_a_route_opens_for_just_its_rights(
    broker: DoorBroker, rights: Rights, cluster: str, method: str, pattern: str
) -> None:
    needed, query = needed_by(pattern, method)
    path = filled(pattern, cluster) + query
    form = Action((), {"name": "orders", "total": "0"})
    rights.restore()
    assert asked(broker, method, path, user=None, action=form).status == 401
    rights.are(())
    assert asked(broker, method, path, action=form).status == 403
    rights.are(all_but(needed))
    assert asked(broker, method, path, action=form).status == 403
    for left_out in needed if len(set(needed)) > 1 else ():
        rights.are(tuple(right for right in needed if right != left_out))
        assert asked(broker, method, path, action=form).status == 403, left_out
    rights.are(needed)
    answer = asked(broker, method, path, action=form)
    assert answer.status not in (401, 403, 500), answer


@pytest.mark.parametrize(("method", "pattern"), list(ACTIONS))
def test_an_action_is_done_for_just_its_rights(
    broker: DoorBroker, rights: Rights, cluster: str, method: str, pattern: str
) -> None:
    action, path = ACTIONS[method, pattern], filled(pattern, cluster)
    rights.restore()
    assert asked(broker, method, path, user=None, action=action).status in (303, 401)
    if action.needs:
        rights.are(())
        assert asked(broker, method, path, action=action).is_refused
        rights.are(tuple((operation, kind, "other") for operation, kind, _ in action.needs))
        assert asked(broker, method, path, action=action).is_refused
    rights.are(action.needs)
    answer = asked(broker, method, path, action=action)
    assert not answer.is_refused and answer.status not in (401, 500), answer


def subject_rows() -> Iterator[tuple[str, str, tuple[Right, ...]]]:
    for (method, pattern), rule in REGISTRY.items():
        if "{}" in pattern and rule.subject is not None:
            yield method, pattern, ((rule.subject.name, "TOPIC", "orders"),)
        elif rule.cluster is not None:
            yield method, pattern, ((rule.cluster.name, "CLUSTER", "kafka-cluster"),)


@pytest.mark.parametrize(("method", "pattern", "needed"), list(subject_rows()))
def test_an_endpoint_of_the_registry_opens_for_just_its_right(
    broker: DoorBroker, rights: Rights, method: str, pattern: str, needed: tuple[Right, ...]
) -> None:
    path = "/" + pattern.replace("{}", "orders-value", 1).replace("{}", "1")
    schema = Action((), body={"schema": '"string"', "compatibility": "NONE", "mode": "READWRITE"})
    assert asked(broker, method, path, user=None, action=schema).status == 401
    rights.are(())
    assert asked(broker, method, path, action=schema).status == 403
    rights.are(all_but(needed))
    assert asked(broker, method, path, action=schema).status == 403
    rights.are(needed)
    answer = asked(broker, method, path, action=schema)
    assert answer.status not in (401, 403, 500), answer


@pytest.mark.parametrize(
    ("method", "pattern"), [key for key, rule in REGISTRY.items() if rule.filtered or rule.of_schema]
)
def test_an_endpoint_of_the_registry_leaves_out_what_may_not_be_seen(
    broker: DoorBroker, rights: Rights, method: str, pattern: str
) -> None:
    made = asked(
        broker,
        "POST",
        "/subjects/orders-value/versions",
        user="root",
        action=Action((), body={"schema": '"string"'}),
    )
    number = json.loads(made.text)["id"]
    shown = asked(broker, "GET", f"/schemas/ids/{number}/versions", user="root")
    assert "orders-value" in shown.text
    guid = json.loads(asked(broker, "GET", "/subjects/orders-value/versions/latest", user="root").text)[
        "guid"
    ]
    path = "/" + pattern.replace("{}", guid if "guids" in pattern else str(number))
    rights.are((("DESCRIBE", "TOPIC", "other"),))
    hidden = asked(broker, method, path)
    assert hidden.status == 404 or hidden.text == "[]", hidden
    rights.are((("DESCRIBE", "TOPIC", "orders"),))
    seen = asked(broker, method, path)
    assert seen.status == 200 and seen.text != "[]", seen
