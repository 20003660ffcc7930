"""A broker's registration and its image when the store cannot be reached or its answers are lost."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.unit.metadata.cluster import NODE, record
from tidelog.config import BrokerConfig
from tidelog.metadata.controller import Controller
from tidelog.metadata.records import CONTROLLER, broker_key, topic_key
from tidelog.metadata.registration import Registration
from tidelog.metadata.store import Put, Unanswered
from tidelog.testing import VirtualClock, VirtualMetadata, Weather

pytestmark = pytest.mark.simulated

TOPIC = b'{"id":"%s","replicas":[[1]]}' % (b"1" * 32)


async def check_knows_its_place(metadata: VirtualMetadata, registration: Registration) -> None:
    other = metadata.connect("other")
    broker, controller = await other.get(broker_key(NODE)), await other.get(CONTROLLER)
    assert broker is not None and broker.revision == registration.epoch
    assert controller is not None and controller.revision == registration.control_revision


@pytest.mark.parametrize("seed", range(10))
async def test_a_registration_whose_answer_was_lost_is_made_again(random: Random, seed: int) -> None:
    metadata = VirtualMetadata(random)
    registration = Registration(metadata.connect("broker"), NODE, record(9092), VirtualClock(), 60_000)
    await registration.register()
    keeping = asyncio.ensure_future(registration.keep())
    metadata.cut_off("broker")
    await asyncio.sleep(70)
    assert metadata.content() == {}
    # Reads and leases are requested again until they succeed; a transaction is not.
    metadata.weather = Weather(lost_answers=0.7, patience_ms=3_000)
    metadata.reconnect("broker")
    await asyncio.sleep(60)
    metadata.weather = Weather()
    await asyncio.sleep(90)
    await check_knows_its_place(metadata, registration)
    keeping.cancel()


async def test_control_that_was_taken_unknowingly_is_given_back(random: Random) -> None:
    metadata = VirtualMetadata(random)
    other = metadata.connect("other")
    await other.txn((), [Put(CONTROLLER, b"9")])
    registration = Registration(metadata.connect("broker"), NODE, record(9092), VirtualClock(), 60_000)
    await registration.register()
    await other.txn((), [Put(CONTROLLER, b"9", (await other.lease(1)).id)])
    await asyncio.sleep(1)
    metadata.weather = Weather(lost_answers=1.0)
    try:
        await registration.take_control()
        raise AssertionError("the answer was lost")
    except Unanswered:
        assert metadata.content()[CONTROLLER] == b"%d" % NODE
        assert registration.control_revision is None
    metadata.weather = Weather()
    keeping = asyncio.ensure_future(registration.keep())
    await asyncio.sleep(20)
    await check_knows_its_place(metadata, registration)
    keeping.cancel()


async def test_an_image_that_fell_behind_waits_for_the_store_to_catch_up(random: Random) -> None:
    metadata = VirtualMetadata(random)
    store = metadata.connect("broker")
    controller = await Controller.start(store, NODE, BrokerConfig(), random)
    metadata.cut_off("broker")
    await metadata.connect("other").txn((), [Put(topic_key("a"), TOPIC)])
    metadata.compact()
    following = asyncio.ensure_future(anext(controller.follow()))
    await asyncio.sleep(0.01)
    metadata.reconnect("broker")
    metadata.weather = Weather(lost_requests=1.0)
    await asyncio.sleep(60)
    assert not following.done()
    metadata.weather = Weather()
    assert (await following).topics == ("a",)
