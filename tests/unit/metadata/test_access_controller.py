"""Changes of ACLs, credentials, quotas and tokens: what is stored, what the image shows, and who wins."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.unit.metadata.cluster import Node
from tidelog import errors
from tidelog.metadata import access_records
from tidelog.metadata.access_records import CredentialName, TokenRecord
from tidelog.net.scram import ScramCredential
from tidelog.wire.acls import (
    AclBinding,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from tidelog.wire.client_quotas import QuotaEntity

pytestmark = pytest.mark.simulated

TOKEN = TokenRecord("User:ann", "User:ann", (), 1, 100, 200)


def acl(name: str, principal: str = "User:ann") -> AclBinding:
    return AclBinding(
        AclResourceType.TOPIC,
        AclPatternType.LITERAL,
        name,
        principal,
        "*",
        AclOperation.READ,
        AclPermission.ALLOW,
    )


async def written(node: Node, prefix: str) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in (await node.store.range(prefix)).entries}


async def test_an_acl_is_one_key_however_often_it_is_made(random: Random) -> None:
    node = await Node.start(random)
    await node.controller.access.create_acls([acl("a"), acl("b"), acl("a")])
    before = node.controller.image
    assert {*before.acls.values()} == {acl("a"), acl("b")}
    await node.controller.access.create_acls([acl("b")])
    assert node.controller.image.acls is before.acls
    assert len(await written(node, "acls/")) == 2


async def test_acls_are_deleted_whether_they_are_there_or_not(random: Random) -> None:
    node = await Node.start(random)
    access = node.controller.access
    await access.create_acls([acl("a"), acl("b")])
    await access.delete_acls([acl("a"), acl("c"), acl("a")])
    assert [*node.controller.image.acls.values()] == [acl("b")]
    await access.delete_acls([])
    await access.delete_acls([acl("a")])


async def test_many_acls_go_in_pieces(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    node = await Node.start(random)
    monkeypatch.setattr(node.controller.access, "_operations_max", 8)
    await node.controller.access.create_acls([acl(f"topic-{number}") for number in range(50)])
    assert len(node.controller.image.acls) == 50
    await node.controller.access.delete_acls(node.controller.image.acls.values())
    assert not node.controller.image.acls
    assert max(len(update.image.acls) - len(update.before.acls) for update in node.updates) == 8


async def test_credentials_are_stored_salted_and_known_by_mechanism(random: Random) -> None:
    node = await Node.start(random)
    access = node.controller.access
    credential = ScramCredential.of_password("SCRAM-SHA-256", "geheim", b"salt", 4096)
    name = CredentialName("SCRAM-SHA-256", "a/b")
    assert node.controller.image.secret == b""
    await access.alter_credentials({name: credential})
    image = node.controller.image
    assert dict(image.users("SCRAM-SHA-256")) == {"a/b": credential}
    assert not image.users("SCRAM-SHA-512") and len(image.secret) == 32
    assert not any(b"geheim" in value for value in (await written(node, "")).values())
    await access.alter_credentials({CredentialName("SCRAM-SHA-512", "c"): credential}, [name])
    after = node.controller.image
    assert not after.users("SCRAM-SHA-256") and list(after.users("SCRAM-SHA-512")) == ["c"]
    assert after.secret == image.secret and after.acls is image.acls


async def test_quotas_are_changed_key_by_key(random: Random) -> None:
    node = await Node.start(random)
    access, entity = node.controller.access, QuotaEntity("ann", "")
    await access.alter_quotas(entity, {"producer_byte_rate": 5.0, "request_percentage": 0.5})
    await access.alter_quotas(entity, {"producer_byte_rate": 7.0}, validate_only=True)
    await access.alter_quotas(entity, {"request_percentage": None, "consumer_byte_rate": None})
    before = node.controller.image.quotas
    assert {one: stored.values for one, stored in before.items()} == {entity: {"producer_byte_rate": 5.0}}
    await access.alter_quotas(entity, {"producer_byte_rate": 5.0})
    assert node.controller.image.quotas is before
    await access.alter_quotas(entity, {"producer_byte_rate": None})
    assert not node.controller.image.quotas and not await written(node, "quotas/")


async def test_two_who_change_the_quotas_of_one_entity_both_have_their_way(random: Random) -> None:
    node = await Node.start(random)
    keys = [f"key-{number}" for number in range(5)]
    await asyncio.gather(
        *(node.controller.access.alter_quotas(QuotaEntity("ann"), {key: 1.0}) for key in keys)
    )
    assert sorted(node.controller.image.quotas[QuotaEntity("ann")].values) == keys


async def test_tokens_are_made_changed_and_dropped(random: Random) -> None:
    node = await Node.start(random)
    access = node.controller.access
    assert await access.change_token("t", lambda before: TOKEN) == TOKEN
    later = TOKEN._replace(expires_ms=150)
    assert await access.change_token("t", lambda before: later) == later
    assert node.controller.image.tokens["t"].record == later
    assert await access.drop_expired_tokens(150) == []
    assert await access.drop_expired_tokens(151) == ["t"]
    assert not node.controller.image.tokens

    def refuse(before: TokenRecord | None) -> TokenRecord | None:
        assert before is None
        raise errors.DelegationTokenNotFound()

    with pytest.raises(errors.DelegationTokenNotFound):
        await access.change_token("t", refuse)


async def test_a_restart_reads_it_all_back(random: Random) -> None:
    node = await Node.start(random)
    access = node.controller.access
    await access.create_acls([acl("a")])
    await access.alter_quotas(QuotaEntity(ip="10.0.0.1"), {"connection_creation_rate": 5.0})
    credential = ScramCredential(b"salt", 4096, b"stored", b"server")
    await access.alter_credentials({CredentialName("SCRAM-SHA-256", "ann"): credential})
    await access.change_token("t", lambda before: TOKEN)
    before = node.controller.image
    after = (await node.restarted(random, clean=True)).controller.image
    for name in ("acls", "credentials", "quotas", "tokens", "secret"):
        assert getattr(after, name) == getattr(before, name), name


def test_an_acl_of_a_newer_broker_does_not_stop_this_one() -> None:
    value = access_records.encode_acl(acl("a"))
    newer = value[: value.rindex(b",3,")] + b",99,3]"
    assert access_records.decode_acl(newer) == acl("a")._replace(operation=AclOperation.UNKNOWN)
