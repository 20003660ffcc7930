"""What the gate costs a request: a decision that the session remembers, one that is made, and one among very many ACLs."""

from __future__ import annotations

from collections.abc import Iterator

from bench.micro.timing import Case
from tidelog.access.acls import Authorizer
from tidelog.broker.gate import Gate
from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType

MANY = 20_000


def rule(topic: str, pattern: AclPatternType) -> AclBinding:
    return AclBinding(
        AclResourceType.TOPIC, pattern, topic, "User:ann", "*", AclOperation.ALL, AclPermission.ALLOW
    )


def remembered() -> Iterator[Case]:
    authorizer = Authorizer([rule("orders", AclPatternType.LITERAL)], frozenset(), False)
    gate = Gate(lambda: authorizer)
    gate.learned()
    session = gate.open("PLAINTEXT", "127.0.0.1:1")
    session.principal = "User:ann"
    assert gate.may_write(session, "orders") and gate.may_read(session, "orders")
    yield Case("nothing (the loop and the call)", lambda: None)
    yield Case("may write, remembered by the session", lambda: session.remembers_write("orders"))
    yield Case("may read, remembered by the session", lambda: session.may_read("orders"))


def decided(name: str, bindings: list[AclBinding]) -> Case:
    authorizer = Authorizer(bindings, frozenset(), False)

    def decide() -> bool:
        return authorizer.allowed(
            "User:ann", "127.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC, "orders"
        )

    assert decide()
    return Case(f"a decision, {name}", decide)


def cases() -> Iterator[Case]:
    rules = [rule("orders", AclPatternType.LITERAL)]
    yield from remembered()
    yield decided("1 ACL", rules)
    yield decided(
        f"{MANY:,} ACLs", [rule(f"team-{number}-", AclPatternType.PREFIXED) for number in range(MANY)] + rules
    )
