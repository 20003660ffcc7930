"""Tenants in the metadata: what may be set, what may be created, and who is first."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.unit.metadata.cluster import Node
from tidelog import errors
from tidelog.metadata.access_records import CredentialName
from tidelog.metadata.changes import advance, read
from tidelog.metadata.image import Image
from tidelog.metadata.store import Changes, KeyChange, Snapshot
from tidelog.metadata.tenants import ENABLED, check_tenant_name, check_value, tenant_of_name, topics_of
from tidelog.metadata.topics.plans import NewPartitions, TopicPlan, TopicSpec
from tidelog.net.scram import ScramCredential
from tidelog.types import NodeId
from tidelog.wire.client_quotas import QuotaEntity

pytestmark = pytest.mark.simulated

ACME = QuotaEntity(tenant="acme")


async def started(random: Random, **limits: float) -> Node:
    node = await Node.start(random)
    await node.controller.access.alter_quotas(ACME, {ENABLED: 1.0, **limits})
    return node


def created(answers: list[TopicPlan | errors.TidelogError]) -> list[str]:
    return [answer.name if isinstance(answer, TopicPlan) else type(answer).__name__ for answer in answers]


@pytest.mark.parametrize("name", ["", "a.b", "a_b", "-a", "a/b", "é", "a" * 64, "a b"])
def test_names_that_no_tenant_can_have(name: str) -> None:
    with pytest.raises(errors.InvalidRequest):
        check_tenant_name(name)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (ENABLED, 0),
        ("topics_max", -1),
        ("topics_max", 1.5),
        ("partitions_max", float("nan")),
        ("partitions_max", float("inf")),
        ("producer_byte_rate", 0),
        ("producer_byte_rate", 0.5),
        ("request_percentage", 0),
        ("request_percentage", float("nan")),
        ("connection_creation_rate", 1),
        ("member:User:bob", 2),
        ("member:bob", 1),
        ("member:User:", 1),
        ("member:Broker:this cluster", 1),
    ],
)
def test_values_that_no_tenant_can_have(key: str, value: float) -> None:
    with pytest.raises(errors.InvalidRequest):
        check_value(key, value)


async def test_limits_bound_topics_and_partitions(random: Random) -> None:
    node = await started(random, topics_max=3, partitions_max=6)
    create = node.controller.create_topics
    made = await create([TopicSpec("acme.a", 2), TopicSpec("acme.b", 5), TopicSpec("acme.c", 4)])
    assert created(made) == ["acme.a", "PolicyViolation", "acme.c"]
    assert "would have 7 partitions, and its limit partitions_max is 6" in str(made[1])
    assert created(await create([TopicSpec("acmeX.a", 9), TopicSpec("acme", 9)])) == ["acmeX.a", "acme"]
    grown = await node.controller.create_partitions([NewPartitions("acme.a", 3)])
    assert created(grown) == ["PolicyViolation"]
    await node.controller.access.alter_quotas(ACME, {"partitions_max": 7.0})
    assert created(await node.controller.create_partitions([NewPartitions("acme.a", 3)])) == ["acme.a"]
    await node.controller.access.alter_quotas(ACME, {"partitions_max": None})
    assert created(await create([TopicSpec("acme.d", 1), TopicSpec("acme.e", 1)])) == [
        "acme.d",
        "PolicyViolation",
    ]
    await node.controller.delete_topics(["acme.c"])
    assert created(await create([TopicSpec("acme.e", 1)])) == ["acme.e"]
    assert topics_of(node.controller.image, "acme") == ["acme.a", "acme.d", "acme.e"]


async def test_creations_at_once_stay_within_the_limit(random: Random) -> None:
    node = await started(random, partitions_max=5)
    answers = await asyncio.gather(
        *(node.controller.create_topics([TopicSpec(f"acme.t{number}", 1)]) for number in range(12)),
        return_exceptions=True,
    )
    assert sum(isinstance(answer, list) and isinstance(answer[0], TopicPlan) for answer in answers) == 5
    assert len(topics_of(node.controller.image, "acme")) == 5


async def test_a_creation_that_another_broker_overtook_is_decided_again(random: Random) -> None:
    """Two decisions on the same image, of topics with different names: the second one sees what the first has taken."""
    node = await started(random, partitions_max=1)
    image = node.controller.newest
    first = node.controller._create([TopicSpec("acme.a", 1)], image)[1]
    second = node.controller._create([TopicSpec("acme.b", 1)], image)[1]
    assert await node.store.txn(first.compare, first.then) is not None
    assert await node.store.txn(second.compare, second.then) is None


async def test_ceilings_of_retention_bound_settings_and_defaults(random: Random) -> None:
    node = await started(random, retention_ms_max=1000, retention_bytes_max=500)
    controller = node.controller
    made = await controller.create_topics(
        [
            TopicSpec("acme.a", 1),
            TopicSpec("acme.b", 1, configs={"retention.ms": "1001"}),
            TopicSpec("acme.c", 1, configs={"retention.ms": "-1"}),
            TopicSpec("acme.d", 1, configs={"retention.bytes": "-1"}),
            TopicSpec("acme.e", 1, configs={"retention.ms": "1000", "retention.bytes": "7"}),
            TopicSpec("plain", 1, configs={"retention.ms": "-1"}),
        ]
    )
    refused = "PolicyViolation"
    assert created(made) == ["acme.a", refused, refused, refused, "acme.e", "plain"]
    assert "has retention.ms of 1000 at most, not 1001" in str(made[1])
    held = {name: controller.topic_config(name) for name in ("acme.a", "acme.e", "plain")}
    assert [(one.retention_ms, one.retention_bytes) for one in held.values()] == [
        (1000, 500),
        (1000, 7),
        (-1, -1),
    ]
    with pytest.raises(errors.PolicyViolation):
        await controller.alter_topic_configs("acme.a", lambda _: {"retention.ms": "2000"})
    await controller.alter_topic_configs("acme.a", lambda _: {"retention.ms": "900"})
    before = len(node.updates)
    await controller.access.alter_quotas(ACME, {"retention_ms_max": 100.0})
    assert controller.topic_config("acme.e").retention_ms == 100
    assert {name for update in node.updates[before:] for name in update.topic_configs} == {
        "acme.a",
        "acme.e",
    }
    # What was set before the limit stays as it is, and keeps nobody from changing something else.
    await controller.alter_topic_configs("acme.e", lambda now: {**now, "segment.ms": "5000"})


async def test_what_tenants_store_is_told_by_broker(random: Random) -> None:
    node = await started(random)
    report = node.controller.access.report_usage
    await report(NodeId(1), {"acme": 7})
    await report(NodeId(2), {"acme": 8, "zeta": 1})
    assert node.controller.image.tenant_usage == {1: {"acme": 7}, 2: {"acme": 8, "zeta": 1}}
    await report(NodeId(1), {})
    assert node.controller.image.tenant_usage == {2: {"acme": 8, "zeta": 1}}


async def test_only_an_empty_tenant_ends(random: Random) -> None:
    node = await started(random, topics_max=3)
    access = node.controller.access
    await node.controller.create_topics([TopicSpec("acme.a", 1)])
    with pytest.raises(errors.PolicyViolation, match="it has 1 topics"):
        await access.alter_quotas(ACME, {ENABLED: None})
    await node.controller.delete_topics(["acme.a"])
    credential = ScramCredential(b"s", 4096, b"k", b"v")
    name = CredentialName("SCRAM-SHA-256", "acme/ann")
    await access.alter_credentials({name: credential})
    with pytest.raises(errors.PolicyViolation, match="it has 1 users"):
        await access.alter_quotas(ACME, {ENABLED: None})
    await access.alter_credentials({}, [name])
    await access.alter_quotas(ACME, {ENABLED: None})
    assert ACME not in node.controller.image.quotas and not node.controller.image.tenant_creations
    with pytest.raises(errors.InvalidRequest, match="does not exist"):
        await access.alter_quotas(ACME, {"topics_max": 1.0})
    assert not (await node.store.range("tenants/")).entries


async def test_a_principal_has_one_tenant_at_most(random: Random) -> None:
    node = await started(random)
    access, zeta = node.controller.access, QuotaEntity(tenant="zeta")
    await access.alter_quotas(ACME, {"member:User:bob": 1.0})
    with pytest.raises(errors.InvalidRequest, match="a member of another tenant"):
        await access.alter_quotas(zeta, {ENABLED: 1.0, "member:User:bob": 1.0})
    with pytest.raises(errors.InvalidRequest, match="a user of tenant 'acme' by name"):
        await access.alter_quotas(zeta, {ENABLED: 1.0, "member:User:acme/eve": 1.0})
    await access.alter_quotas(ACME, {"member:User:bob": None})
    await access.alter_quotas(zeta, {ENABLED: 1.0, "member:User:bob": 1.0})


async def test_a_collision_with_a_name_outside_is_not_told(random: Random) -> None:
    node = await started(random)
    made = await node.controller.create_topics(
        [
            TopicSpec("acme_a", 1),
            TopicSpec("acme.a", 1),
            TopicSpec("acme.b.c", 1),
            TopicSpec("acme.b_c", 1),
        ]
    )
    assert created(made) == ["acme_a", "acme.a", "acme.b.c", "InvalidTopicException"]


async def test_dead_letters_of_a_tenant_stay_within_it(random: Random) -> None:
    node = await started(random)

    async def send_to(group: str, topic: str) -> None:
        await node.controller.alter_group_configs(group, lambda _: {"share.dead.letter.topic": topic})

    await send_to("acme.g", "acme.dead")
    await send_to("g", "dead")
    for topic in ("dead", "zeta.dead", "acme", "acmeX.dead"):
        with pytest.raises(errors.InvalidConfig, match=r"begins with 'acme\.'"):
            await send_to("acme.g", topic)


def test_a_name_belongs_to_a_tenant_that_there_is() -> None:
    change = KeyChange("quotas/tenant=acme", b'{"enabled":1.0}')
    image = advance(Image(), Changes(1, (change, KeyChange("tenants/acme", b"created"))))
    assert image.image.tenant_creations == {"acme": 1}
    assert tenant_of_name(image.image, "acme.x") == "acme"
    assert [tenant_of_name(image.image, name) for name in ("acme", "acmeX.y", "zeta.x", ".x", "")] == [
        None
    ] * 5
    assert read(Snapshot(1, [])).tenant_creations == {}
