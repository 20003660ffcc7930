"""What tools ask about security, of a broker without an authorizer, users and quotas."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.raw import Connection

ANY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
ACL = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:ann",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "ann"}],
    "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_there_are_no_access_rules(connection: Connection, version: int) -> None:
    told = connection.call("describe_acls", version, **ANY_ACL)
    made = connection.call("create_acls", version, creations=[ACL, ACL]).results
    gone = connection.call("delete_acls", version, filters=[ANY_ACL]).filter_results
    assert [len(made), len(gone), len(told.resources)] == [2, 1, 0]
    for one in (told, *made, *gone):
        assert one.error_code.name == "security_disabled"
        assert one.error_message.startswith("No Authorizer is configured")


def test_users_that_are_not_there(connection: Connection) -> None:
    for users in (None, []):
        answer = connection.call("describe_user_scram_credentials", 0, users=users)
        assert answer.error_code == 0 and not answer.results
    names: list[Any] = [{"name": name} for name in ("ann", "bob", "ann")]
    answer = connection.call("describe_user_scram_credentials", 0, users=names)
    assert {one.user: one.error_code.name for one in answer.results} == {
        "ann": "duplicate_resource",
        "bob": "resource_not_found",
    }


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_that_are_not_there(connection: Connection, version: int) -> None:
    def asked(*kinds: str) -> Any:
        parts = [{"entity_type": kind, "match_type": 2, "match": None} for kind in kinds]
        return connection.call("describe_client_quotas", version, components=parts, strict=False)

    for kinds in ((), ("user",), ("user", "client-id"), ("ip",)):
        answer = asked(*kinds)
        assert answer.error_code == 0 and answer.entries == (), kinds
    assert asked("planet").error_code.name == "unsupported_version"
    assert asked("user", "user").error_code.name == "invalid_request"
