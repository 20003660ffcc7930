"""Which process may register as a broker, how soon, and what happens when the registration is removed."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from tests.unit.metadata.cluster import NODE, record
from tidelog import errors
from tidelog.metadata import changes
from tidelog.metadata.image import Image
from tidelog.metadata.records import CONTROLLER, BrokerRecord, broker_key
from tidelog.metadata.registration import TAKEN_MS, Registration, await_place
from tidelog.metadata.store import Delete
from tidelog.testing import VirtualClock, VirtualMetadata

pytestmark = pytest.mark.simulated

LEASE_MS = 60_000


def life(metadata: VirtualMetadata, home: str, incarnation: str) -> Registration:
    registered = record(9092)._replace(home=home, incarnation=incarnation)
    return Registration(metadata.connect(incarnation), NODE, registered, VirtualClock(), LEASE_MS)


def image(metadata: VirtualMetadata) -> Image:
    return changes.read(metadata.select(""))


async def test_a_process_that_was_killed_is_back_before_its_lease_ends(random: Random) -> None:
    metadata = VirtualMetadata(random)
    first = life(metadata, "boot/a", "one")
    epoch = await first.register()
    began = asyncio.get_running_loop().time()
    store = metadata.connect("two")
    await await_place(store, NODE, "boot/a", VirtualClock(), LEASE_MS)
    second = life(metadata, "boot/a", "two")
    assert await second.register() > epoch
    assert asyncio.get_running_loop().time() - began < 1
    assert second.control_revision == second.epoch


async def test_a_place_that_becomes_free_while_the_store_is_slow_is_not_taken_by_another(
    random: Random,
) -> None:
    metadata = VirtualMetadata(random)
    await life(metadata, "boot/a", "one").register()
    second = life(metadata, "boot/a", "two")
    txn = second._store.txn

    async def slow(*change: Any) -> int | None:
        """The lease of the earlier registration ends before the change arrives."""
        second._store.txn = txn  # type: ignore[method-assign]
        await asyncio.sleep((LEASE_MS + TAKEN_MS) / 1000 + 1)
        return await txn(*change)

    second._store.txn = slow  # type: ignore[method-assign]
    epoch = await second.register()
    assert image(metadata).brokers[NODE].epoch == epoch


async def test_the_keys_of_the_last_life_do_not_go_with_its_lease(random: Random) -> None:
    metadata = VirtualMetadata(random)
    await life(metadata, "boot/a", "one").register()
    await asyncio.sleep(LEASE_MS / 2000)
    second = life(metadata, "boot/a", "two")
    await second.register()
    await asyncio.sleep(LEASE_MS / 2000 + 1)
    assert set(metadata.content()) == {broker_key(NODE), CONTROLLER}
    assert BrokerRecord.decode(metadata.content()[broker_key(NODE)]).incarnation == "two"


@pytest.mark.parametrize("home", ["boot/b", "boot-2/a", ""])
async def test_other_data_or_another_boot_waits_and_is_refused_while_the_first_one_lives(
    random: Random, home: str
) -> None:
    metadata = VirtualMetadata(random)
    first = life(metadata, "boot/a", "one")
    await first.register()
    keeping = asyncio.ensure_future(first.keep())
    before, began = metadata.content(), asyncio.get_running_loop().time()
    with pytest.raises(errors.DuplicateBrokerRegistration, match=r"give this broker another node\.id"):
        await await_place(metadata.connect("two"), NODE, home, VirtualClock(), LEASE_MS)
    assert asyncio.get_running_loop().time() - began >= (LEASE_MS + TAKEN_MS) / 1000
    with pytest.raises(errors.DuplicateBrokerRegistration):
        await life(metadata, home, "two").register()
    assert metadata.content() == before
    keeping.cancel()


async def test_a_place_that_others_took_away_is_taken_anew_at_once(random: Random) -> None:
    metadata = VirtualMetadata(random)
    first = life(metadata, "boot/a", "one")
    epoch = await first.register()
    keeping = asyncio.ensure_future(first.keep())
    await asyncio.sleep(0.1)
    await metadata.connect("other").txn((), [Delete(broker_key(NODE)), Delete(CONTROLLER)])
    first.learned(image(metadata))
    await asyncio.sleep(1)
    assert first.epoch > epoch
    assert image(metadata).brokers[NODE].epoch == first.epoch
    keeping.cancel()


async def test_an_image_from_before_the_registration_says_nothing_about_it(random: Random) -> None:
    metadata = VirtualMetadata(random)
    empty = image(metadata)
    first = life(metadata, "boot/a", "one")
    first.learned(empty)
    epoch = await first.register()
    first.learned(empty)
    keeping = asyncio.ensure_future(first.keep())
    await asyncio.sleep(LEASE_MS / 1000)
    assert first.epoch == epoch
    keeping.cancel()


async def test_a_broker_that_leaves_does_not_come_back(random: Random) -> None:
    metadata = VirtualMetadata(random)
    first = life(metadata, "boot/a", "one")
    await first.register()
    await first.leave()
    keeping = asyncio.ensure_future(first.keep())
    await metadata.connect("other").txn((), [Delete(broker_key(NODE))])
    first.learned(image(metadata))
    await asyncio.sleep(LEASE_MS / 1000)
    assert NODE not in image(metadata).brokers
    keeping.cancel()


async def test_a_second_process_on_a_copy_of_the_data_ends_the_first(random: Random) -> None:
    metadata = VirtualMetadata(random)
    first = life(metadata, "boot/a", "one")
    await first.register()
    first.learned(image(metadata))
    await life(metadata, "boot/a", "two").register()
    with pytest.raises(errors.DuplicateBrokerRegistration, match="Another process runs as broker 1"):
        first.learned(image(metadata))


async def test_a_controller_that_asks_again_before_it_was_told_stays_in_control(random: Random) -> None:
    metadata = VirtualMetadata(random)
    registration = life(metadata, "boot/a", "one")
    await registration.register()
    await metadata.connect("other").txn((), [Delete(CONTROLLER)])
    await registration.take_control()
    taken = registration.control_revision
    assert taken is not None
    await registration.take_control()  # its watch is late: it still believes that nobody is
    assert registration.control_revision == taken


async def test_a_lease_is_proven_while_renewals_are_answered_and_for_a_little_less_than_it_lasts(
    random: Random,
) -> None:
    metadata = VirtualMetadata(random)
    broker = life(metadata, "boot/a", "one")
    assert not broker.is_proven()
    await broker.register()
    broker.learned(image(metadata))
    keeping = asyncio.ensure_future(broker.keep())
    await asyncio.sleep(3 * LEASE_MS / 1000)
    assert broker.is_proven()
    metadata.cut_off("one")
    await asyncio.sleep(LEASE_MS / 2000)
    assert broker.is_proven()
    while broker.is_proven():
        await asyncio.sleep(0.01)
    assert broker_key(NODE) in metadata.content(), "the store has not given the place away yet"
    await asyncio.sleep(LEASE_MS / 1000)
    metadata.reconnect("one")
    await asyncio.sleep(LEASE_MS / 1000)
    broker.learned(image(metadata))
    assert broker.is_proven() and metadata.content()[broker_key(NODE)]
    keeping.cancel()


async def test_a_place_that_others_took_away_proves_nothing(random: Random) -> None:
    metadata = VirtualMetadata(random)
    broker = life(metadata, "boot/a", "one")
    await broker.register()
    await metadata.connect("other").txn((), [Delete(broker_key(NODE))])
    broker.learned(image(metadata))
    assert not broker.is_proven()


async def test_a_late_answer_about_control_does_not_undo_a_newer_registration(random: Random) -> None:
    metadata = VirtualMetadata(random)
    broker = life(metadata, "boot/a", "one")
    await broker.register()
    await metadata.connect("other").txn((), [Delete(CONTROLLER)])
    store, arrived = broker._store, asyncio.Event()
    txn = store.txn

    async def late(compare: Any, then: Any) -> int | None:
        answer = await txn(compare, then)
        await arrived.wait()
        return answer

    store.txn = late  # type: ignore[method-assign]
    taking = asyncio.ensure_future(broker.take_control())
    await asyncio.sleep(1)
    store.txn = txn  # type: ignore[method-assign]
    await broker._register()
    arrived.set()
    await taking
    stored = metadata.find(CONTROLLER)
    assert stored is not None and broker.control_revision == stored.revision


async def test_a_lease_that_was_taken_anew_proves_nothing_until_the_metadata_of_then_are_known(
    random: Random,
) -> None:
    """While there was no lease, other leaders may have been elected; a broker that does not know that yet must not lead."""
    metadata = VirtualMetadata(random)
    broker = life(metadata, "boot/a", "one")
    await broker.register()
    broker.learned(before := image(metadata))
    assert broker.is_proven()
    keeping = asyncio.ensure_future(broker.keep())
    metadata.cut_off("one")
    await asyncio.sleep(2 * LEASE_MS / 1000)
    assert broker_key(NODE) not in metadata.content()
    metadata.reconnect("one")
    await asyncio.sleep(LEASE_MS / 1000)
    assert metadata.content()[broker_key(NODE)]
    broker.learned(before)
    assert not broker.is_proven()
    broker.learned(image(metadata))
    assert broker.is_proven()
    keeping.cancel()
