"""Every API that is served, in every version, as a user of a tenant: what is outside of the tenant stays as it is, and
is not told of."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.property.broker.inside import TOPICS, Inside, broker_inside
from tests.property.broker.requests import SERVED, bent_frame, frame
from tests.property.broker.test_authorization import answer_of
from tidelog.broker.routes import FETCH, PRODUCE, ROUTES
from tidelog.metadata.access.access_records import CredentialName
from tidelog.metadata.tenants import ENABLED
from tidelog.metadata.topics.plans import TopicSpec
from tidelog.net.scram import ScramCredential
from tidelog.record import BatchBuilder
from tidelog.testing import seeds
from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType
from tidelog.wire.client_quotas import QuotaEntity
from tidelog.wire.error_codes import error_codes
from tidelog.wire.frame import RequestHeader, encode_request
from tidelog.wire.messages import alter_client_quotas as quotas
from tidelog.wire.messages import alter_user_scram_credentials as users
from tidelog.wire.messages import create_acls, delete_acls, describe_acls
from tidelog.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.simulated

OPEN = {}
WITH_ACLS = {
    "authorizer.class.name": "tidelog",
    # Whatever rights a user of a tenant has, they end at the tenant.
    "super.users": "User:acme/ann;User:root",
    "delegation.token.secret.key": "brokers only",
}
OWN = ("acme.orders", "acme.keyed")
OUTSIDE = (*TOPICS, "acmeX.orders", "zeta.orders")
NAMES_OUTSIDE = ("acmeX.orders", "zeta.orders", "zeta/eve", "zeta.g", "zeta.t", "secret-host")
READ, WRITE = AclOperation.READ, AclOperation.WRITE
ANY_ACL = (1, None, 1, None, None, 1, 1)


def rule(
    name: str, principal: str, host: str = "*", kind: AclResourceType = AclResourceType.TOPIC
) -> AclBinding:
    return AclBinding(kind, AclPatternType.LITERAL, name, principal, host, READ, AclPermission.ALLOW)


RULES = [
    rule("zeta.orders", "User:zeta/eve"),
    rule("acme.orders", "User:zeta/eve", "secret-host"),
    rule("acme.orders", "User:acme/bob"),
    rule("acme.g", "User:acme/bob", kind=AclResourceType.GROUP),
]


async def settle(inside: Inside) -> None:
    """Three tenants with topics, users, quotas and ACLs; the session is of tenant acme."""
    controller = inside._services.controller
    await inside.restore()
    for tenant in ("acme", "acmeX", "zeta"):
        if QuotaEntity(tenant=tenant) not in controller.image.quotas:
            await controller.access.alter_quotas(QuotaEntity(tenant=tenant), {ENABLED: 1.0})
    await controller.create_topics([TopicSpec(name, 2) for name in (*OWN, *OUTSIDE)])
    credential = ScramCredential(b"salt", 4096, b"key", b"key")
    names = [CredentialName("SCRAM-SHA-512", user) for user in ("acme/ann", "acme/bob", "zeta/eve")]
    await controller.access.alter_credentials(dict.fromkeys(names, credential))
    await controller.access.alter_quotas(QuotaEntity(user="zeta/eve"), {"producer_byte_rate": 1e9})
    await controller.access.alter_quotas(QuotaEntity(user="acme/bob"), {"producer_byte_rate": 1e9})
    await controller.access.create_acls(RULES)
    topics = controller.image.topics
    everything = (*OWN, *OUTSIDE)
    inside.known = replace(inside.known, topics=everything, ids=[topics[name].id for name in everything])
    inside.session.principal = "User:acme/ann"


def outside(inside: Inside) -> object:
    """All that is not the tenant's, and that a request could change."""
    image = inside._services.image()
    return (
        [
            (topic.name, topic.id, topic.partitions)
            for topic in image.topics.values()
            if topic.name in OUTSIDE
        ],
        {rule for rule in image.acls.values() if not (owned(rule.name) and owned(rule.principal))},
        {entity: values for entity, values in image.quotas.items() if not owned(entity.user or "")},
        {name: image.topic_overrides(name) for name in OUTSIDE},
        {name: image.group_overrides(name) for name in image.group_configs if not owned(name)},
        dict(image.broker_configs),
        [user for users in image.credentials.values() for user in users if not owned(user)],
        [
            (partition.name, partition.log.start, partition.log.end)
            for partition in inside.held()
            if partition.topic in OUTSIDE and partition.log.end
        ],
    )


def owned(name: str) -> bool:
    return name.startswith(("acme.", "acme/", "User:acme/"))


# How each API is kept within a tenant.  `names`: each name and id in it is asked for; `scoped`: cut to the tenant for its
# administrators; `refused`: of the cluster alone; `open`: tells and changes nothing that belongs to somebody.
BOUNDARIES = {
    "open": """
        ApiVersions SaslHandshake SaslAuthenticate GetTelemetrySubscriptions PushTelemetry
        DescribeCluster
    """,
    "names": """
        Produce Fetch ListOffsets Metadata OffsetCommit OffsetFetch FindCoordinator JoinGroup
        Heartbeat LeaveGroup SyncGroup DescribeGroups ListGroups CreateTopics DeleteTopics
        DeleteRecords InitProducerId AddOffsetsToTxn EndTxn TxnOffsetCommit DescribeTransactions
        ListTransactions OffsetForLeaderEpoch DescribeConfigs AlterConfigs IncrementalAlterConfigs
        CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken
        CreatePartitions DeleteGroups OffsetDelete DescribeProducers ConsumerGroupHeartbeat
        ConsumerGroupDescribe ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge
        DescribeShareGroupOffsets AlterShareGroupOffsets DeleteShareGroupOffsets
        DescribeTopicPartitions AddPartitionsToTxn StreamsGroupHeartbeat StreamsGroupDescribe
    """,
    "scoped": """
        DescribeAcls CreateAcls DeleteAcls DescribeClientQuotas AlterClientQuotas
        DescribeUserScramCredentials AlterUserScramCredentials DescribeLogDirs
        ListPartitionReassignments ListConfigResources
    """,
    "refused": """
        AlterReplicaLogDirs ElectLeaders AlterPartitionReassignments UpdateFeatures DescribeQuorum
        UnregisterBroker AddRaftVoter RemoveRaftVoter WriteTxnMarkers InitializeShareGroupState ReadShareGroupState
        WriteShareGroupState DeleteShareGroupState ReadShareGroupStateSummary
    """,
}


def test_every_api_has_its_boundary() -> None:
    names = [name for listed in BOUNDARIES.values() for name in listed.split()]
    assert sorted(names) == sorted(route.name for route in ROUTES.values())


@pytest.mark.simulated(seed=4)
async def test_what_is_of_the_cluster_alone_is_refused_to_whoever_is_of_a_tenant(random: Random) -> None:
    async with broker_inside(random, WITH_ACLS) as inside:
        await settle(inside)
        refused = set()
        for api_key, version in SERVED * 10:
            name = ROUTES[api_key].name
            if name not in BOUNDARIES["refused"].split():
                continue
            answer = await inside.ask(frame(random, api_key, version, inside.known))
            codes = set() if answer is None else set(error_codes(answer_of(api_key, version, answer)))
            assert codes <= {0, 31}, name
            refused |= {name} if 31 in codes else set()
        assert refused == set(BOUNDARIES["refused"].split())


@pytest.mark.parametrize("given", [OPEN, WITH_ACLS], ids=["open", "super user"])
@pytest.mark.parametrize("seed", seeds(3))
async def test_nothing_outside_is_changed_or_told(random: Random, seed: int, given: dict[str, str]) -> None:
    async with broker_inside(random, given) as inside:
        await settle(inside)
        before = outside(inside)
        for number, (api_key, version) in enumerate(SERVED * 3):
            asked = frame(random, api_key, version, inside.known)
            if random.random() < 0.2:
                asked = bent_frame(random, asked)
            if number % 40 == 0:
                await settle(inside)
            answer = await inside.ask(asked)
            name = ROUTES[api_key].name
            assert outside(inside) == before, f"{name} changed something outside: {asked.hex()}"
            if api_key == PRODUCE:
                await inside.ask_shortcut(asked)
            assert outside(inside) == before
            for hidden in NAMES_OUTSIDE:
                # What the client has named itself may come back to it.
                if answer is not None and hidden.encode() not in asked:
                    assert hidden.encode() not in answer, f"{name} told of {hidden}: {asked.hex()}"


async def call(inside: Inside, api_key: int, version: int, request: Any) -> Any:
    asked = encode_request(RequestHeader(api_key, version, 1, "c"), request.encode(version))[4:]
    answer = await inside.ask(asked)
    assert answer is not None
    return answer_of(api_key, version, answer)


def produce(name: str, topic_id: Any = None) -> ProduceRequest:
    builder = BatchBuilder()
    builder.add(b"k", b"v", 1_700_000_000_000)
    topic = TopicProduceData(name, partition_data=[PartitionProduceData(0, builder.build())])
    if topic_id is not None:
        topic.topic_id = topic_id
    return ProduceRequest(None, 1, 1000, [topic])


@pytest.mark.parametrize("given", [OPEN, WITH_ACLS], ids=["open", "super user"])
@pytest.mark.simulated(seed=1)
async def test_names_and_ids_outside_are_answered_as_if_they_did_not_exist(
    random: Random, given: dict[str, str]
) -> None:
    async with broker_inside(random, given) as inside:
        await settle(inside)
        ids = {name: inside._services.image().topics[name].id for name in (*OWN, *OUTSIDE)}
        listed = await call(inside, 3, 12, MetadataRequest(None))
        assert sorted(topic.name for topic in listed.topics) == sorted(OWN)
        for name in OUTSIDE:
            missing = name + "-missing"
            for asked in (name, missing):
                assert set(error_codes(await call(inside, PRODUCE, 9, produce(asked)))) == {29}
                known = await call(inside, 3, 12, MetadataRequest([MetadataRequestTopic(name=asked)], True))
                assert set(error_codes(known)) == {29}
            by_id = await call(inside, PRODUCE, 13, produce("", ids[name]))
            assert set(error_codes(by_id)) == {100}
            known = await call(inside, 3, 12, MetadataRequest([MetadataRequestTopic(ids[name], None)]))
            assert set(error_codes(known)) == {100}
            wanted = FetchTopic("", ids[name], [FetchPartition(0, -1, 0, -1, -1, 1 << 20)])
            fetched = await call(inside, FETCH, 13, FetchRequest(max_wait_ms=0, min_bytes=0, topics=[wanted]))
            assert set(error_codes(fetched)) == {100}
            gone = await call(
                inside, 20, 6, DeleteTopicsRequest([DeleteTopicState(None, ids[name])], timeout_ms=1000)
            )
            assert set(error_codes(gone)) == {100}
        assert not set(error_codes(await call(inside, PRODUCE, 9, produce("acme.orders"))))
        assert not set(error_codes(await call(inside, PRODUCE, 13, produce("", ids["acme.orders"]))))


@pytest.mark.simulated(seed=2)
async def test_an_administrator_of_a_tenant_manages_what_is_its_own(random: Random) -> None:
    async with broker_inside(random, WITH_ACLS) as inside:
        await settle(inside)
        told = await call(inside, 29, 3, describe_acls.DescribeAclsRequest(*ANY_ACL))
        assert {(one.resource_name, acl.principal) for one in told.resources for acl in one.acls} == {
            ("acme.orders", "User:acme/bob"),
            ("acme.g", "User:acme/bob"),
        }

        def creation(name: str, principal: str, pattern: int = 3) -> create_acls.AclCreation:
            return create_acls.AclCreation(2, name, pattern, principal, "*", 3, 3)

        made = await call(
            inside,
            30,
            3,
            create_acls.CreateAclsRequest(
                [
                    creation("zeta.orders", "User:acme/ann"),
                    creation("acme.", "User:acme/carl", 4),
                    creation("*", "User:acme/ann"),
                    creation("acme", "User:acme/ann", 4),
                    creation("acme.orders", "User:*"),
                ]
            ),
        )
        assert [result.error_code for result in made.results] == [31, 0, 31, 31, 31]
        gone = await call(
            inside, 31, 3, delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(*ANY_ACL)])
        )
        assert len(gone.filter_results) == 1 and len(gone.filter_results[0].matching_acls) == 3
        assert set(inside._services.image().acls.values()) == set(RULES[:2])

        told = await call(inside, 50, 0, DescribeUserScramCredentialsRequest(None))
        assert sorted(result.user for result in told.results) == ["acme/ann", "acme/bob"]
        asked = DescribeUserScramCredentialsRequest([UserName("zeta/eve"), UserName("zeta/nobody")])
        told = await call(inside, 50, 0, asked)
        assert [result.error_code for result in told.results] == [91, 91]
        changed = await call(
            inside,
            51,
            0,
            users.AlterUserScramCredentialsRequest(
                [users.ScramCredentialDeletion("zeta/eve", 2), users.ScramCredentialDeletion("acme/bob", 2)],
                [users.ScramCredentialUpsertion("root", 2, 4096, b"s" * 16, b"p" * 64)],
            ),
        )
        assert {result.user: result.error_code for result in changed.results} == {
            "zeta/eve": 31,
            "root": 31,
            "acme/bob": 0,
        }

        told = await call(inside, 48, 1, DescribeClientQuotasRequest([], False))
        entities = [{part.entity_type: part.entity_name for part in entry.entity} for entry in told.entries]
        assert {"tenant": "acme"} in entities and {"user": "acme/bob"} in entities and len(entities) == 2

        def quota(**parts: str | None) -> quotas.AlterClientQuotasRequestEntryData:
            entity = [quotas.EntityData(kind.replace("_", "-"), name) for kind, name in parts.items()]
            return quotas.AlterClientQuotasRequestEntryData(
                entity, [quotas.OpData("producer_byte_rate", 5.0, False)]
            )

        parts: list[dict[str, str | None]] = [
            {"tenant": "acme"},
            {"user": "zeta/eve"},
            {"user": None},
            {"client_id": "c"},
            {"ip": "10.0.0.1"},
            {"user": "acme/ann", "client_id": "c"},
        ]
        changed = await call(
            inside, 49, 1, quotas.AlterClientQuotasRequest([quota(**one) for one in parts], False)
        )
        assert sorted(entry.error_code for entry in changed.entries) == [0, 31, 31, 31, 31, 31]

        told = await call(inside, 35, 4, DescribeLogDirsRequest(None))
        assert {topic.name for result in told.results for topic in result.topics} == set(OWN)
        assert {result.total_bytes for result in told.results} == {-1}
        told = await call(inside, 74, 1, ListConfigResourcesRequest([]))
        assert {resource.resource_name for resource in told.config_resources} == set(OWN)

        renewer = CreatableRenewers("User", "zeta/eve")
        token = await call(inside, 38, 3, CreateDelegationTokenRequest(None, None, [renewer], -1))
        assert token.error_code == 65
        token = await call(inside, 38, 3, CreateDelegationTokenRequest("User", "zeta/eve", [], -1))
        assert token.error_code == 65
        token = await call(inside, 38, 3, CreateDelegationTokenRequest(None, None, [], -1))
        assert token.error_code == 0


@pytest.mark.simulated(seed=3)
async def test_who_lost_the_tenant_can_do_nothing_from_that_moment(random: Random) -> None:
    async with broker_inside(random, OPEN) as inside:
        await settle(inside)
        asked = encode_request(RequestHeader(PRODUCE, 9, 1, "c"), produce("zeta.orders").encode(9))[4:]
        own = encode_request(RequestHeader(PRODUCE, 9, 1, "c"), produce("zeta.mine").encode(9))[4:]
        access = inside._services.controller.access
        inside.session.principal = "User:dora"
        assert not set(error_codes(answer_of(PRODUCE, 9, await inside.ask(asked) or b""))), "of no tenant"
        await inside.ask(asked)
        assert await inside.ask_shortcut(asked) is not None, "the gate's decision is remembered"
        await access.alter_quotas(QuotaEntity(tenant="acme"), {"member:User:dora": 1.0})
        assert await inside.ask_shortcut(asked) is None, "what was decided before counts no more"
        assert set(error_codes(answer_of(PRODUCE, 9, await inside.ask(asked) or b""))) == {29}
        inside.session.principal = "User:gone/dora"
        for frame_of_topic in (asked, own):
            assert set(error_codes(answer_of(PRODUCE, 9, await inside.ask(frame_of_topic) or b""))) == {29}
        listed = await call(inside, 3, 12, MetadataRequest(None))
        assert not listed.topics
