"""Every API that is served, in every version, as a stranger, as a super user, and with one right."""

from __future__ import annotations

import asyncio
from importlib import import_module
from random import Random
from typing import Any

import pytest

from tests.property.broker.inside import TOPICS, Inside, broker_inside
from tests.property.broker.requests import SERVED, bent_frame, frame
from tidelog.broker.authorization.guards import everybody
from tidelog.broker.authorization.table import GUARDS
from tidelog.broker.gate import BEFORE_LOGIN, NotLoggedIn
from tidelog.broker.routes import PRODUCE, ROUTES
from tidelog.testing import seeds
from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType
from tidelog.wire.error_codes import error_codes
from tidelog.wire.frame import decode_response_header

pytestmark = pytest.mark.simulated

AUTHORIZER = {"authorizer.class.name": "tidelog", "super.users": "User:root"}
REFUSALS = {29, 30, 31, 53, 64, 65}
# A stranger may ask these: who is there, what is served, and who a coordinator's client is.
PUBLIC = {
    "ApiVersions",
    "DescribeCluster",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "SaslHandshake",
    "SaslAuthenticate",
}


def test_every_api_has_a_guard() -> None:
    assert set(GUARDS) == {route.name for route in ROUTES.values()}


def stranger(inside: Inside) -> None:
    inside.session.principal = "User:stranger"


def state(inside: Inside) -> object:
    """All that a request could change."""
    image = inside._services.image()
    return (
        [(topic.name, topic.id, topic.partitions) for topic in image.topics.values()],
        dict(image.acls.items()),
        dict(image.quotas),
        {name: image.topic_overrides(name) for name in image.topics},
        [
            (partition.name, partition.log.start, partition.log.end)
            for partition in inside.held()
            if partition.topic in TOPICS and partition.log.end
        ],
        inside.offsets(),
    )


def answer_of(api_key: int, version: int, answer: bytes) -> Any:
    route = ROUTES[api_key]
    _, at = decode_response_header(api_key, version, answer[4:])
    response = getattr(import_module(f"tidelog.wire.messages.{route.message}"), f"{route.name}Response")
    return response.decode(answer[4 + at :], version)


@pytest.mark.parametrize("seed", seeds(5))
async def test_a_stranger_changes_nothing_and_sees_nothing(random: Random, seed: int) -> None:
    async with broker_inside(random, AUTHORIZER) as inside:
        await inside.restore()
        stranger(inside)
        before = state(inside)
        for api_key, version in SERVED * 3:
            asked = frame(random, api_key, version, inside.known)
            if random.random() < 0.2:
                asked = bent_frame(random, asked)
            answer = await inside.ask(asked)
            assert state(inside) == before, (
                f"a stranger changed something: {ROUTES[api_key].name} {asked.hex()}"
            )
            if answer is None or ROUTES[api_key].name in PUBLIC or api_key in (PRODUCE, 1):
                continue
            for name in TOPICS:
                # What the client has named itself may come back to it.
                assert name.encode() in asked or name.encode() not in answer, (
                    f"{ROUTES[api_key].name} {asked.hex()}"
                )


@pytest.mark.simulated(seed=1)
async def test_a_sound_request_of_a_stranger_is_told_that_it_may_not(random: Random) -> None:
    async with broker_inside(random, AUTHORIZER) as inside:
        await inside.restore()
        stranger(inside)
        told = set()
        for api_key, version in SERVED * 20:
            answer = await inside.ask(frame(random, api_key, version, inside.known))
            if answer is not None and REFUSALS & set(error_codes(answer_of(api_key, version, answer))):
                told.add(ROUTES[api_key].name)
        # Lists of what may be described are empty; tokens are for those who have logged in.
        silent = PUBLIC | {
            "ListGroups",
            "ListTransactions",
            "DescribeDelegationToken",
            "RenewDelegationToken",
        }
        silent |= {"ExpireDelegationToken", "CreateDelegationToken"}
        assert {route.name for route in ROUTES.values()} - told <= silent


@pytest.mark.simulated(seed=2)
async def test_a_super_user_is_refused_nothing(random: Random) -> None:
    async with broker_inside(random, AUTHORIZER) as inside:
        inside.session.principal = "User:root"
        for number, (api_key, version) in enumerate(SERVED * 3):
            if number % 20 == 0:
                await inside.restore()
            answer = await inside.ask(frame(random, api_key, version, inside.known))
            if answer is not None:
                assert not REFUSALS & set(error_codes(answer_of(api_key, version, answer))), ROUTES[
                    api_key
                ].name


@pytest.mark.simulated(seed=3)
async def test_a_right_that_is_taken_away_ends_at_once_also_on_the_shortcut(random: Random) -> None:
    from tidelog.record import BatchBuilder
    from tidelog.wire.frame import RequestHeader, encode_request
    from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    def produce(version: int) -> bytes:
        builder = BatchBuilder()
        builder.add(b"k", b"v", 1_700_000_000_000)
        topic = TopicProduceData("orders", partition_data=[PartitionProduceData(0, builder.build())])
        request = ProduceRequest(None, 1, 1000, [topic])
        return encode_request(RequestHeader(PRODUCE, version, 1, "c"), request.encode(version))[4:]

    rule = AclBinding(
        AclResourceType.TOPIC,
        AclPatternType.LITERAL,
        "orders",
        "User:ann",
        "*",
        AclOperation.WRITE,
        AclPermission.ALLOW,
    )
    async with broker_inside(random, AUTHORIZER) as inside:
        access = inside._services.controller.access
        inside.session.principal = "User:ann"
        assert await inside.ask_shortcut(produce(9)) is None, "nobody has decided yet"
        assert set(error_codes(answer_of(PRODUCE, 9, await inside.ask(produce(9)) or b""))) == {29}
        await access.create_acls([rule])
        assert not set(error_codes(answer_of(PRODUCE, 9, await inside.ask(produce(9)) or b"")))
        assert await inside.ask_shortcut(produce(9)) is not None, "the gate's decision is remembered"
        await access.delete_acls([rule])
        await asyncio.sleep(0.1)
        assert await inside.ask_shortcut(produce(9)) is None
        assert set(error_codes(answer_of(PRODUCE, 9, await inside.ask(produce(9)) or b""))) == {29}


@pytest.mark.simulated(seed=4)
async def test_before_a_login_nothing_passes_but_the_login(random: Random) -> None:
    async with broker_inside(random) as inside:
        await inside.restore()
        inside.session.admitted = False
        for api_key, version in SERVED:
            asked = frame(random, api_key, version, inside.known)
            if api_key in BEFORE_LOGIN:
                await inside.ask(asked)
                continue
            with pytest.raises(NotLoggedIn):
                await inside.ask(asked)
            if api_key == PRODUCE:
                assert await inside.ask_shortcut(asked) is None


def test_apis_without_a_guard_are_those_that_ask_the_gate_themselves() -> None:
    unguarded = {name for name, guard in GUARDS.items() if guard is everybody}
    assert unguarded == {
        *PUBLIC - {"DescribeCluster"},
        "Produce",
        "Fetch",
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "DescribeDelegationToken",
    }
