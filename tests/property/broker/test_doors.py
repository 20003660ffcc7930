"""One table of what each Kafka API needs: every API that is served, asked as a stranger, as a user who may do everything but
that, and as one with just that right.  An API without a row fails."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.property.broker.doors import OWN_TOKENS, TABLE, TOPIC_ID, Row
from tests.property.broker.inside import LOADING_TURNS_MAX, Inside, broker_inside
from tests.property.broker.test_authorization import AUTHORIZER, PUBLIC, REFUSALS, answer_of
from tidelog.broker.routes import ROUTES
from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType
from tidelog.wire.error_codes import error_codes
from tidelog.wire.frame import RequestHeader, encode_request

pytestmark = pytest.mark.simulated

USER = "User:ann"
BY_NAME = {route.name: route for route in ROUTES.values()}
# An operation that comes with another one.
IMPLIED = {"DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"}, "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"}}
OPERATIONS = {
    "TOPIC": "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    "GROUP": "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    "CLUSTER": "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
    "TRANSACTIONAL_ID": "WRITE DESCRIBE",
    "DELEGATION_TOKEN": "DESCRIBE",
    "USER": "CREATE_TOKENS DESCRIBE_TOKENS",
}
NAMES = {
    "TOPIC": "orders",
    "GROUP": "g",
    "CLUSTER": "kafka-cluster",
    "TRANSACTIONAL_ID": "tx",
    "USER": "User:bob",
}


def test_every_api_has_a_row() -> None:
    assert {row.api for row in TABLE} | PUBLIC | OWN_TOKENS == set(BY_NAME)


def request_of(row: Row, ids: Mapping[str, UUID]) -> bytes:
    route = BY_NAME[row.api]
    module = import_module(f"tidelog.wire.messages.{route.message}")
    request = built(module, getattr(module, f"{row.api}Request"), row.fields, ids)
    header = RequestHeader(route.api_key, row.version, 1, "c")
    return encode_request(header, request.encode(row.version))[4:]


def built(module: Any, kind: Any, fields: Mapping[str, Any], ids: Mapping[str, UUID]) -> Any:
    """A message from plain values; mappings, and those in lists, become its structs."""
    known = kind.__init__.__annotations__
    values: dict[str, Any] = {}
    for name, value in fields.items():
        element = re.match(r"list\[(\w+)\]", known[name])
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            assert element is not None
            inner = getattr(module, element[1])
            values[name] = [built(module, inner, part, ids) for part in value]
        elif isinstance(value, Mapping):
            struct = getattr(module, known[name].removesuffix(" | None"))
            values[name] = built(module, struct, value, ids)
        else:
            values[name] = ids["orders"] if value == TOPIC_ID else value
    return kind(**values)


Right = tuple[str, str]


def alternatives(row: Row) -> list[list[Right]]:
    """Each of them is enough; all rights of it are needed."""
    return [
        [(right.split()[0], right.split()[1]) for right in one.split(", ")] for one in row.needs.split(" or ")
    ]


def binding(right: Right, name: str | None = None) -> AclBinding:
    operation, kind = right
    return AclBinding(
        AclResourceType[kind],
        AclPatternType.PREFIXED if kind == "GROUP" else AclPatternType.LITERAL,
        name or NAMES[kind],
        USER,
        "*",
        AclOperation[operation],
        AclPermission.ALLOW,
    )


def all_but(rights: set[Right], anywhere: bool) -> Iterator[AclBinding]:
    """Everything that neither is one of these rights nor implies one, on the same resources; and these on others."""
    for kind, operations in OPERATIONS.items():
        if kind not in NAMES:
            continue
        for operation in operations.split():
            implies = any(
                operation in IMPLIED.get(needed, ()) for needed, needed_kind in rights if needed_kind == kind
            )
            if (operation, kind) not in rights and not implies:
                yield binding((operation, kind))
    for operation, kind in rights:
        if kind != "CLUSTER" and not anywhere:
            yield binding((operation, kind), "other")


async def committed(inside: Inside, commit: bytes) -> None:
    """The group has an offset; its coordinator may have to load first."""
    for _ in range(LOADING_TURNS_MAX):
        answer = await inside.ask(commit)
        assert answer is not None
        if not set(error_codes(answer_of(BY_NAME["OffsetCommit"].api_key, 8, answer))):
            return
        await inside._services.groups.topic.ensure()
        await asyncio.sleep(0.1)
    raise AssertionError("the offset could not be committed")


def rows() -> Iterator[Any]:
    for number, row in enumerate(TABLE):
        yield pytest.param(row, id=f"{row.api}-{row.version}-{number}")


async def ask_as_everybody(inside: Inside, row: Row) -> None:
    access = inside._services.controller.access
    given: list[AclBinding] = []

    async def may(*bindings: AclBinding) -> None:
        if given:
            await access.delete_acls(list(given))
        given[:] = bindings
        if given:
            await access.create_acls(list(given))

    async def prepared() -> None:
        """What lists show is there: a topic, a group with an offset, a transactional id."""
        inside.session.principal = "User:root"
        await inside.restore()
        if row.api in ("ListGroups", "DeleteGroups", "OffsetDelete"):
            commit = next(one for one in TABLE if one.api == "OffsetCommit")
            await committed(inside, request_of(commit, ids()))
        if row.api == "ListTransactions":
            await inside.transactional_producer("tx")
        inside.session.principal = USER

    def ids() -> dict[str, UUID]:
        topics = inside._services.image().topics
        return {name: topics[name].id for name in ("orders",)}

    async def opens() -> bool:
        asked = request_of(row, ids())
        answer = await inside.ask(asked)
        assert answer is not None
        codes = set(error_codes(answer_of(BY_NAME[row.api].api_key, row.version, answer)))
        if row.shows:
            return row.shows.encode() in answer
        return not codes & REFUSALS

    await prepared()
    assert not await opens(), "a stranger"
    needed = {right for rights in alternatives(row) for right in rights}
    await may(*all_but(needed, row.anywhere))
    assert not await opens(), "a user with every other right"
    for rights in alternatives(row):
        for left_out in rights if len(rights) > 1 else ():
            await may(*(binding(right) for right in rights if right != left_out))
            assert not await opens(), f"a user without {left_out}"
        await may(*(binding(right) for right in rights))
        assert await opens(), f"a user with {rights}"
        await prepared()


SETTINGS = AUTHORIZER | {"delegation.token.secret.key": "k", "num.partitions": "2"}


@pytest.mark.parametrize("row", list(rows()))
async def test_a_door_opens_for_just_that_right(random: Random, row: Row) -> None:
    async with broker_inside(random, SETTINGS) as inside:
        await ask_as_everybody(inside, row)
