"""Decisions of the authorizer that the documentation of Kafka's ACLs spells out."""

from __future__ import annotations

import pytest

from tidelog.access import acls
from tidelog.access.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    Authorizer,
    Decision,
    Reason,
    parse_super_users,
)

TOPIC, LITERAL, PREFIXED = AclResourceType.TOPIC, AclPatternType.LITERAL, AclPatternType.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
HOST = "10.0.0.1"


def rule(
    name: str = "orders",
    principal: str = "User:ann",
    permission: AclPermission = ALLOW,
    operation: AclOperation = READ,
    pattern: AclPatternType = LITERAL,
    host: str = "*",
) -> AclBinding:
    return AclBinding(TOPIC, pattern, name, principal, host, operation, permission)


def test_a_decision_names_its_rule() -> None:
    wide, narrow = rule("ord", pattern=PREFIXED), rule()
    authorizer = Authorizer([wide, narrow], ["User:root"])
    assert authorizer.decide("User:ann", HOST, READ, TOPIC, "orders") == Decision(True, Reason.ACL, narrow)
    assert authorizer.decide("User:ann", HOST, READ, TOPIC, "ordinary") == Decision(True, Reason.ACL, wide)
    assert authorizer.decide("User:bob", HOST, READ, TOPIC, "orders") == (False, Reason.NO_MATCHING_ACL, None)
    assert authorizer.decide("User:bob", HOST, READ, TOPIC, "other") == (False, Reason.NO_ACL_FOUND, None)
    assert authorizer.decide("User:root", HOST, READ, TOPIC, "other") == (True, Reason.SUPER_USER, None)


def test_deny_wins_wherever_it_stands() -> None:
    for deny in (
        rule(permission=DENY),
        rule("or", pattern=PREFIXED, permission=DENY),
        rule("*", "User:*", DENY, AclOperation.ALL),
    ):
        authorizer = Authorizer([rule(), deny, rule("o", pattern=PREFIXED)])
        assert authorizer.decide("User:ann", HOST, READ, TOPIC, "orders") == Decision(False, Reason.ACL, deny)


def test_allow_implies_describe_and_deny_does_not() -> None:
    may = Authorizer([rule()])
    assert may.allowed("User:ann", HOST, DESCRIBE, TOPIC, "orders")
    assert not may.allowed("User:ann", HOST, AclOperation.DESCRIBE_CONFIGS, TOPIC, "orders")
    denied = Authorizer([rule(permission=DENY), rule(operation=DESCRIBE)])
    assert denied.allowed("User:ann", HOST, DESCRIBE, TOPIC, "orders")
    assert not denied.allowed("User:ann", HOST, READ, TOPIC, "orders")


def test_everyone_is_allowed_only_where_there_is_no_acl() -> None:
    authorizer = Authorizer([rule()], allow_if_no_acl=True)
    assert authorizer.allowed("User:bob", HOST, READ, TOPIC, "other")
    assert not authorizer.allowed("User:bob", HOST, READ, TOPIC, "orders")


@pytest.mark.parametrize("host", ["::1", "0:0:0:0:0:0:0:1"])
def test_a_host_is_an_address_however_it_is_written(host: str) -> None:
    for written in ("::1", "0:0:0:0:0:0:0:1"):
        assert Authorizer([rule(host=written)]).allowed("User:ann", host, READ, TOPIC, "orders")
    assert Authorizer([rule(host=HOST)]).allowed("User:ann", f"::ffff:{HOST}", READ, TOPIC, "orders")


def test_groups_of_a_session_count() -> None:
    authorizer = Authorizer([rule(principal="Group:staff")])
    assert authorizer.decide("User:ann", HOST, READ, TOPIC, "orders", ["Group:staff"]).allowed
    assert not authorizer.decide("User:ann", HOST, READ, TOPIC, "orders").allowed
    assert authorizer.authorize_by_resource_type("User:ann", HOST, READ, TOPIC, ["Group:staff"])
    assert not authorizer.authorize_by_resource_type("User:ann", HOST, READ, TOPIC)


def test_super_users_are_split_at_semicolons() -> None:
    assert parse_super_users("User:ann; User:CN=a,O=b;") == {"User:ann", "User:CN=a,O=b"}
    assert parse_super_users(None) == frozenset()


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "CACHED_DECISIONS_MAX", 3)
    authorizer = Authorizer([rule()])
    for number in range(20):
        assert not authorizer.allowed("User:ann", HOST, READ, TOPIC, f"topic-{number}")
    assert len(authorizer._cache) <= 3


def test_many_acls_do_not_slow_a_decision_down() -> None:
    """Steps, not seconds: a decision among 20,000 prefixes looks at the few that cover the name."""
    many = Authorizer(
        [rule(f"team{number}-", f"User:{number}", pattern=PREFIXED) for number in range(20_000)]
    )
    patterns = many._by_type[TOPIC]
    assert len(patterns.lengths) == 5 and len(list(patterns.covering("team77-x"))) == 1


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), "literal prefix wildcard"),
        (AclFilter(name="orders"), "literal"),
        (AclFilter(pattern_type=AclPatternType.MATCH, name="orders"), "literal prefix wildcard"),
        (AclFilter(pattern_type=AclPatternType.MATCH, name="other"), "wildcard"),
        (AclFilter(pattern_type=PREFIXED), "prefix"),
        (AclFilter(pattern_type=PREFIXED, name="orders"), ""),
        (AclFilter(principal="User:bob"), "prefix"),
        (AclFilter(host="*", operation=READ, permission=ALLOW), "literal prefix wildcard"),
        (AclFilter(permission=DENY), ""),
        (AclFilter(AclResourceType.GROUP), ""),
    ],
)
def test_filters(wanted: AclFilter, found: str) -> None:
    there = {
        "literal": rule(),
        "prefix": rule("ord", "User:bob", pattern=PREFIXED),
        "wildcard": rule("*"),
    }
    assert [name for name, binding in there.items() if wanted.matches(binding)] == found.split()
    assert not wanted.unknown and AclFilter(AclResourceType.UNKNOWN).unknown
