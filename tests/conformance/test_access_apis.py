"""ACLs, users and quotas: what is stored, what is refused and in which words.  Kafka's own tools, too.

Differences that stay: Kafka ends the connection for a code 0, answers ANY in a new ACL with UNKNOWN_SERVER_ERROR, takes
NaN for a quota, and looks host names up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import apache_kafka
from tests.conformance.conftest import BrokerFactory
from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.raw import Connection
from tests.conformance.test_security_apis import ACL, ANY_ACL

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SALTED = b"x" * 32
INVALID = "invalid_request"
TWICE = "A user credential cannot be altered twice in the same request"


@pytest.fixture
def guarded(own_broker: BrokerFactory) -> Iterator[BrokerProcess]:
    yield own_broker(SETTINGS)


@pytest.fixture
def asked(guarded: BrokerProcess) -> Iterator[Connection]:
    with Connection(guarded.bootstrap) as connection:
        yield connection


def created(connection: Connection, *acls: dict[str, Any]) -> list[tuple[str, str]]:
    results = connection.call("create_acls", 3, creations=list(acls)).results
    return [(one.error_code.name, one.error_message) for one in results]


def described(connection: Connection, **wanted: Any) -> set[tuple[str, str]]:
    answer = connection.call("describe_acls", 3, **{**ANY_ACL, **wanted})
    assert answer.error_code.name == "none"
    return {(one.resource_name, acl.principal) for one in answer.resources for acl in one.acls}


def deleted(connection: Connection, *filters: dict[str, Any]) -> list[Any]:
    results = connection.call(
        "delete_acls", 3, filters=[{**ANY_ACL, **one} for one in filters]
    ).filter_results
    return [
        (one.error_code.name, one.error_message, {acl.resource_name for acl in one.matching_acls})
        for one in results
    ]


def test_acls(asked: Connection) -> None:
    assert (
        created(asked, ACL, ACL, {**ACL, "principal": "User:bob", "resource_pattern_type": 4})
        == [("none", "")] * 3
    )
    only = "The only valid name for the CLUSTER resource is kafka-cluster"
    no_colon = (
        "Could not parse principal from `ann` "
        "(no colon is present separating the principal type from the principal name)"
    )
    for change, answer in (
        ({"resource_type": 4}, (INVALID, only)),
        ({"resource_name": ""}, (INVALID, "Invalid empty resource name")),
        ({"resource_type": 99}, (INVALID, "Invalid resourceType UNKNOWN")),
        ({"operation": 99}, (INVALID, "Invalid operation UNKNOWN")),
        ({"principal": "ann"}, (INVALID, no_colon)),
        ({"principal": "Group:staff", "host": "foo.example", "resource_name": "a b/c"}, ("none", "")),
        ({"resource_type": 7, "resource_name": "User:zoe", "operation": 13}, ("none", "")),
        ({"resource_type": 4, "resource_name": "kafka-cluster", "operation": 12}, ("none", "")),
    ):
        assert created(asked, {**ACL, **change}) == [answer], change
    stored = {
        ("orders", "User:ann"),
        ("orders", "User:bob"),
        ("a b/c", "Group:staff"),
        ("User:zoe", "User:ann"),
        ("kafka-cluster", "User:ann"),
    }
    wait_until(lambda: described(asked) == stored, 10, "the ACLs are known")
    orders = {("orders", "User:ann"), ("orders", "User:bob")}
    for change, found in (
        ({"resource_name_filter": "orders"}, orders),
        ({"resource_name_filter": "orders", "pattern_type_filter": 3}, {("orders", "User:ann")}),
        ({"resource_name_filter": "orders.eu", "pattern_type_filter": 2}, {("orders", "User:bob")}),
        ({"resource_name_filter": "orders.eu"}, set()),
        ({"resource_type_filter": 2, "principal_filter": "User:bob"}, {("orders", "User:bob")}),
        ({"host_filter": "foo.example"}, {("a b/c", "Group:staff")}),
        ({"operation": 13}, {("User:zoe", "User:ann")}),
        ({"permission_type": 2}, set()),
        ({"permission_type": 99}, set()),
        ({"resource_type_filter": 99}, set()),
    ):
        assert described(asked, **change) == found, change
    assert deleted(asked, {"operation": 99}, {"pattern_type_filter": 99}, {"resource_name_filter": "x"}) == [
        (INVALID, "Unknown entryFilter.", set()),
        (INVALID, "Unknown patternFilter.", set()),
        ("none", None, set()),
    ]
    assert deleted(asked, {"principal_filter": "User:bob"}) == [("none", None, {"orders"})]
    wait_until(lambda: len(described(asked)) == 4, 10, "the ACL is gone")


def altered(connection: Connection, deletions: Any = (), upsertions: Any = ()) -> dict[str, tuple[str, Any]]:
    fields = ("name", "mechanism", "iterations", "salt", "salted_password")
    answer = connection.call(
        "alter_user_scram_credentials",
        0,
        deletions=[dict(zip(fields, one, strict=False)) for one in deletions],
        upsertions=[dict(zip(fields, one, strict=True)) for one in upsertions],
    )
    return {one.user: (one.error_code.name, one.error_message) for one in answer.results}


def users(connection: Connection, *names: str) -> dict[str, Any]:
    wanted = [{"name": name} for name in names] or None
    answer = connection.call("describe_user_scram_credentials", 0, users=wanted)
    return {
        one.user: {info.mechanism: info.iterations for info in one.credential_infos}
        or (one.error_code.name, one.error_message)
        for one in answer.results
    }


def test_users(asked: Connection) -> None:
    good = ("none", None)
    assert altered(asked, (), [("ann", 1, 4096, b"s", SALTED), ("a=,b/é", 2, 8192, b"", SALTED)]) == {
        "ann": good,
        "a=,b/é": good,
    }
    unacceptable = "unacceptable_credential"
    for deletions, upsertions, answer in (
        ((), [("zoe", 1, 4095, b"s", SALTED)], {"zoe": (unacceptable, "Too few iterations")}),
        ((), [("zoe", 1, 16385, b"s", SALTED)], {"zoe": (unacceptable, "Too many iterations")}),
        ((), [("", 1, 4096, b"s", SALTED)], {"": (unacceptable, "Username must not be empty")}),
        (
            (),
            [("zoe", 3, 4096, b"s", SALTED)],
            {"zoe": ("unsupported_sasl_mechanism", "Unknown SCRAM mechanism")},
        ),
        ((), [("zoe", 1, 4096, b"s", SALTED)] * 2, {"zoe": ("duplicate_resource", TWICE)}),
        ([("ann", 1)], [("ann", 1, 4096, b"s", SALTED)], {"ann": ("duplicate_resource", TWICE)}),
        ([("ann", 1), ("ann", 2)], (), {"ann": ("duplicate_resource", TWICE)}),
        (
            [("zoe", 1)],
            (),
            {"zoe": ("resource_not_found", "Attempt to delete a user credential that does not exist")},
        ),
    ):
        assert altered(asked, deletions, upsertions) == answer
    wait_until(lambda: users(asked) == {"ann": {1: 4096}, "a=,b/é": {2: 8192}}, 10, "the users are known")
    assert users(asked, "ann", "zoe") == {
        "ann": {1: 4096},
        "zoe": ("resource_not_found", "Attempt to describe a user credential that does not exist: zoe"),
    }
    assert users(asked, "ann", "ann")["ann"] == (
        "duplicate_resource",
        "Cannot describe SCRAM credentials for the same user twice in a single request: ann",
    )
    assert altered(asked, [("ann", 1)]) == {"ann": good}
    wait_until(lambda: list(users(asked)) == ["a=,b/é"], 10, "the user is gone")


Entity = dict[str, str | None]


def quotas_set(connection: Connection, entity: Entity, **values: float | None) -> tuple[str, Any]:
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()
        ],
    }
    (answer,) = connection.call("alter_client_quotas", 1, entries=[entry], validate_only=False).entries
    return answer.error_code.name, answer.error_message


def quotas(connection: Connection, *parts: tuple[str, int, str | None], strict: bool = False) -> list[Any]:
    components = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in parts]
    answer = connection.call("describe_client_quotas", 1, components=components, strict=strict)
    if answer.entries is None:
        return [answer.error_code.name, answer.error_message]
    found = (
        (
            {one.entity_type: one.entity_name for one in entry.entity},
            {one.key: one.value for one in entry.values},
        )
        for entry in answer.entries
    )
    return sorted(found, key=lambda one: sorted(map(repr, one[0].items())))


def test_quotas(asked: Connection) -> None:
    rate = {"producer_byte_rate": 1000.0}
    ann: Entity = {"user": "ann"}
    wanted: list[Entity] = [ann, {"user": "ann", "client-id": None}, {"user": None}, {"client-id": "a b"}]
    for entity in wanted:
        assert quotas_set(asked, entity, **rate) == ("none", None)
    assert quotas_set(asked, {"ip": "10.0.0.1"}, connection_creation_rate=5.0) == ("none", None)
    for entity, values, said in (
        ({}, rate, "Invalid empty client quota entity"),
        ({"planet": "x"}, rate, "Unhandled client quota entity type: planet"),
        ({"user": ""}, rate, "Empty user not supported"),
        (ann, {"producer_byte_rate": -1.0}, "Quota producer_byte_rate must be greater than 0"),
        (ann, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        (ann, {"producer_byte_rate": 1e30}, "Proposed value for producer_byte_rate is too large for a LONG."),
        (ann, {"bogus": 1.0}, "Invalid configuration key bogus"),
        (ann, {"connection_creation_rate": 1.0}, "Invalid configuration key connection_creation_rate"),
        ({"ip": "10.0.0.1"}, rate, "Invalid configuration key producer_byte_rate"),
        (
            {"ip": "10.0.0.1"},
            {"connection_creation_rate": 1e12},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ):
        assert quotas_set(asked, entity, **values) == (INVALID, said)
    assert quotas_set(asked, ann, request_percentage=0.5, consumer_byte_rate=None) == ("none", None)
    both = rate | {"request_percentage": 0.5}
    wait_until(
        lambda: quotas(asked, ("user", 0, "ann"), strict=True) == [(ann, both)], 10, "the quota is known"
    )
    assert len(quotas(asked)) == 5 and quotas(asked, strict=True) == []
    assert quotas(asked, ("user", 1, None)) == [({"user": None}, rate)]
    assert quotas(asked, ("user", 2, None), ("client-id", 2, None)) == [(wanted[1], rate)]
    assert quotas(asked, ("client-id", 0, "a b")) == [({"client-id": "a b"}, rate)]
    assert quotas(asked, ("ip", 2, None)) == [({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0})]
    for parts, answer in (
        ([("user", 0, None)], [INVALID, "Request specified MATCH_TYPE_EXACT, but set match string to null."]),
        ([("user", 3, None)], [INVALID, "Unknown match type 3"]),
        ([("planet", 2, None)], ["unsupported_version", "Unsupported entity type planet"]),
        ([("", 2, None)], [INVALID, "Invalid empty entity type."]),
        (
            [("user", 2, None), ("ip", 2, None)],
            [
                INVALID,
                "Invalid entity filter component combination. IP filter component should not be used with "
                "user or clientId filter component.",
            ],
        ),
    ):
        assert quotas(asked, *parts) == answer
    assert quotas_set(asked, ann, producer_byte_rate=None, request_percentage=None) == ("none", None)
    wait_until(lambda: len(quotas(asked)) == 4, 10, "the quota is gone")


def test_kafkas_own_tools(guarded: BrokerProcess) -> None:
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    server = ("--bootstrap-server", guarded.bootstrap)

    def tool(name: str, *arguments: str) -> str:
        return apache_kafka.tool(name, *server, *arguments)

    tool("acls", "--add", "--allow-principal", "User:ann", "--consumer", "--topic", "orders.", "--group", "*",
         "--resource-pattern-type", "prefixed")  # fmt: skip
    tool(
        "acls",
        "--add",
        "--deny-principal",
        "User:*",
        "--deny-host",
        "10.0.0.9",
        "--operation",
        "Read",
        "--topic",
        "*",
    )
    shown = tool("acls", "--list")
    assert "ResourcePattern(resourceType=TOPIC, name=orders., patternType=PREFIXED)" in shown
    assert "(principal=User:*, host=10.0.0.9, operation=READ, permissionType=DENY)" in shown
    assert "User:*" not in tool("acls", "--list", "--topic", "orders.eu", "--principal", "User:ann")
    tool("acls", "--remove", "--force", "--topic", "*")
    assert "User:*" not in tool("acls", "--list")

    tool("configs", "--alter", "--entity-type", "users", "--entity-name", "ann", "--add-config",
         "SCRAM-SHA-512=[iterations=8192,password=secret]")  # fmt: skip
    tool("configs", "--alter", "--entity-type", "users", "--entity-name", "ann", "--entity-type", "clients",
         "--entity-default", "--add-config", "producer_byte_rate=1024,request_percentage=50")  # fmt: skip
    tool("configs", "--alter", "--entity-type", "ips", "--entity-name", "10.0.0.1", "--add-config",
         "connection_creation_rate=7")  # fmt: skip
    assert "SCRAM-SHA-512=iterations=8192" in tool("configs", "--describe", "--entity-type", "users")
    shown = tool("configs", "--describe", "--entity-type", "users", "--entity-type", "clients")
    assert "producer_byte_rate=1024.0" in shown and "request_percentage=50.0" in shown
    assert "connection_creation_rate=7.0" in tool("configs", "--describe", "--entity-type", "ips")
    tool(
        "configs",
        "--alter",
        "--entity-type",
        "users",
        "--entity-name",
        "ann",
        "--delete-config",
        "SCRAM-SHA-512",
    )
    assert "SCRAM" not in tool("configs", "--describe", "--entity-type", "users")
