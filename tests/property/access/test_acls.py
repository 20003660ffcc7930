"""The authorizer's index agrees with asking every ACL in turn; filters and decisions agree on what a pattern covers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import acls as reference
from tidelog.access.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    Authorizer,
    Reason,
)

names = st.sampled_from(["*", "a", "ab", "abc", "abd", "b", "hard", "hardcode"])
types = st.sampled_from([AclResourceType.TOPIC, AclResourceType.GROUP])
principals = st.sampled_from(["User:ann", "User:bob", "User:*"])
hosts = st.sampled_from(["*", "10.0.0.1", "10.0.0.2"])
operations = st.sampled_from([one for one in AclOperation if one > AclOperation.ANY])
bindings = st.builds(
    AclBinding,
    types,
    st.sampled_from([AclPatternType.LITERAL, AclPatternType.PREFIXED]),
    names,
    principals,
    hosts,
    operations,
    st.sampled_from([AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY]),
)
questions = st.tuples(
    principals, st.sampled_from(["10.0.0.1", "10.0.0.9"]), operations, types, names | st.just("zz")
)


@settings(max_examples=400)
@given(st.lists(bindings, max_size=12), st.booleans(), st.lists(questions, min_size=1, max_size=8))
def test_the_index_agrees_with_asking_every_acl(
    acls: list[AclBinding],
    everyone: bool,
    asked: list[tuple[str, str, AclOperation, AclResourceType, str]],
) -> None:
    authorizer = Authorizer(acls, ["User:bob"], everyone)
    for question in asked:
        expected = reference.allowed(acls, ["User:bob"], everyone, *question)
        decision = authorizer.decide(*question)
        assert decision.allowed == expected == authorizer.allowed(*question) == authorizer.allowed(*question)
        if decision.reason is Reason.ACL:
            assert decision.rule in acls and decision.rule.applies_to(*question[3:])
        else:
            assert decision.rule is None


@settings(max_examples=400)
@given(st.lists(bindings, max_size=10), questions)
def test_a_right_somewhere_agrees_with_asking_every_acl(
    acls: list[AclBinding], question: tuple[str, str, AclOperation, AclResourceType, str]
) -> None:
    principal, host, operation, kind, _ = question
    expected = reference.allowed(
        acls, [], False, principal, host, operation, kind, "hardcode"
    ) or reference.allowed_somewhere(acls, principal, host, operation, kind)
    authorizer = Authorizer(acls)
    for _again in range(2):
        assert authorizer.authorize_by_resource_type(principal, host, operation, kind) == expected


@given(bindings, types, names)
def test_a_filter_by_match_finds_what_applies(binding: AclBinding, kind: AclResourceType, name: str) -> None:
    matching = AclFilter(kind, AclPatternType.MATCH, name)
    assert matching.matches(binding) == reference.covers(binding, kind, name)
    exact = AclFilter(kind, binding.pattern_type, name)
    assert exact.matches(binding) == ((kind, name) == (binding.resource_type, binding.name))
