"""Many ACLs and users through a controller on every metadata store, whatever fits into one transaction there."""

from __future__ import annotations

import asyncio
from random import Random

from tests.contract.test_metadata_store import world
from tests.contract.world import World
from tidelog.config import BrokerConfig
from tidelog.metadata.access_records import CredentialName
from tidelog.metadata.controller import Controller
from tidelog.net.scram import ScramCredential
from tidelog.types import NodeId
from tidelog.wire.acls import (
    AclBinding,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from tidelog.wire.client_quotas import QuotaEntity

__all__ = ["world"]

MANY = 300
CREDENTIAL = ScramCredential(b"salt", 4096, b"stored", b"server")


async def follow(controller: Controller) -> None:
    async for _ in controller.follow():
        pass


async def test_hundreds_of_acls_and_users_are_written_and_deleted(world: World) -> None:
    controller = await Controller.start(await world.open(), NodeId(1), BrokerConfig(), Random(1))
    following = asyncio.ensure_future(follow(controller))
    acls = [
        AclBinding(
            AclResourceType.TOPIC,
            AclPatternType.PREFIXED,
            f"team/{number}é",
            "User:ann",
            "*",
            AclOperation.ALL,
            AclPermission.ALLOW,
        )
        for number in range(MANY)
    ]
    await controller.access.create_acls(acls)
    names = [CredentialName("SCRAM-SHA-512", f"user/{number}") for number in range(MANY)]
    await controller.access.alter_credentials(dict.fromkeys(names, CREDENTIAL))
    await controller.access.alter_quotas(QuotaEntity("a&b=c", ""), {"producer_byte_rate": 1e6})
    image = controller.image
    assert {*image.acls.values()} == {*acls} and len(image.users("SCRAM-SHA-512")) == MANY
    again = await Controller.start(await world.open(), NodeId(1), BrokerConfig(), Random(2))
    assert (again.image.acls, again.image.credentials, again.image.quotas, again.image.secret) == (
        image.acls,
        image.credentials,
        image.quotas,
        image.secret,
    )
    following.cancel()
    following = asyncio.ensure_future(follow(again))
    await again.access.delete_acls(again.image.acls.values())
    await again.access.alter_credentials({}, names)
    assert not again.image.acls and not again.image.users("SCRAM-SHA-512")
    following.cancel()
