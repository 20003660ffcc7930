"""The simulated store under faults: what its users see, and what has really happened."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from random import Random

import pytest

from tidelog import testing
from tidelog.metadata.store import Compacted, Compare, KeyChange, Put, Unanswered
from tidelog.testing import Process, VirtualClock, VirtualMetadata, Weather

pytestmark = pytest.mark.simulated

PUT = [Put("a", b"1")]


async def test_a_lost_answer_is_a_change_that_its_author_does_not_know_of(random: Random) -> None:
    metadata = VirtualMetadata(random, Weather(lost_answers=1.0, patience_ms=500))
    with pytest.raises(Unanswered):
        await metadata.connect("broker").txn((), PUT)
    assert metadata.content() == {"a": b"1"}


async def test_a_lost_request_is_no_change(random: Random) -> None:
    metadata = VirtualMetadata(random, Weather(lost_requests=1.0))
    with pytest.raises(Unanswered):
        await metadata.connect("broker").txn((), PUT)
    assert metadata.content() == {}


async def test_reads_and_leases_are_asked_for_again_when_an_answer_is_lost(random: Random) -> None:
    metadata = VirtualMetadata(random, Weather(lost_answers=0.3, lost_requests=0.3))
    store = metadata.connect("broker")
    lease = await store.lease(60_000)
    for _ in range(20):
        assert await lease.keep_alive()
        await store.range("")


async def test_while_the_store_is_away_calls_fail_no_lease_ends_and_watches_wait(random: Random) -> None:
    metadata = VirtualMetadata(random)
    store = metadata.connect("broker")
    lease = await store.lease(1_000)
    await store.txn((), [Put("leased", b"", lease.id)])
    watch = store.watch("", metadata.revision + 1)
    metadata.go_away()
    with pytest.raises(Unanswered):
        await store.txn((), PUT)
    with pytest.raises(Unanswered):
        await lease.keep_alive()
    metadata.come_back()
    assert await lease.keep_alive()
    assert "leased" in metadata.content()
    await asyncio.sleep(1.5)
    async with aclosing(watch):
        assert (await anext(watch)).changes == (KeyChange("leased", None),)


async def test_who_is_cut_off_is_alone_with_it_and_loses_its_lease(random: Random) -> None:
    metadata = VirtualMetadata(random)
    near, other = metadata.connect("one"), metadata.connect("other")
    lease = await near.lease(1_000)
    await near.txn((), [Put("leased", b"", lease.id)])
    metadata.cut_off("one")
    with pytest.raises(Unanswered):
        await near.get("leased")
    assert await other.get("leased") is None
    metadata.reconnect("one")
    assert not await lease.keep_alive()


async def test_a_request_that_was_given_up_may_happen_later(random: Random) -> None:
    metadata = VirtualMetadata(random, Weather(late_ms_max=60_000, patience_ms=1_000))
    metadata.cut_off("broker")
    for number in range(20):
        with pytest.raises(Unanswered):
            await metadata.connect("broker").txn([Compare(f"k{number}", 0)], [Put(f"k{number}", b"")])
    await asyncio.sleep(1)
    assert metadata.content() == {}
    metadata.reconnect("broker")
    await asyncio.sleep(1)
    assert 0 < len(metadata.content()) < 20


async def test_the_lease_of_a_killed_process_ends(random: Random) -> None:
    metadata, clock = VirtualMetadata(random, Weather(delay_ms_max=50)), VirtualClock()
    process = Process("broker")

    async def work() -> None:
        store = metadata.connect("broker")
        lease = await store.lease(1_000)
        await store.txn((), [Put("leased", b"", lease.id)])
        while await lease.keep_alive():
            await asyncio.sleep(0.3)

    process.spawn(work())
    while "leased" not in metadata.content():
        await clock.advance_ms(1)
    await clock.advance_ms(3_000)
    assert "leased" in metadata.content()
    process.kill()
    await clock.advance_ms(1_100)
    assert "leased" not in metadata.content()


async def test_a_transaction_on_its_way_happens_although_its_author_is_killed(random: Random) -> None:
    metadata, clock = VirtualMetadata(random, Weather(delay_ms_max=1_000)), VirtualClock()
    process = Process("broker")
    process.spawn(metadata.connect("broker").txn((), PUT))
    await clock.advance_ms(0)
    process.kill()
    assert metadata.content() == {}
    await clock.advance_ms(1_000)
    assert metadata.content() == {"a": b"1"}


async def test_a_watch_that_was_cut_off_during_a_compaction_is_told_so(random: Random) -> None:
    metadata = VirtualMetadata(random)
    near, other = metadata.connect("one"), metadata.connect("other")
    watch = near.watch("", metadata.revision + 1)
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0.01)
    metadata.cut_off("one")
    await other.txn((), PUT)
    metadata.compact()
    metadata.reconnect("one")
    with pytest.raises(Compacted):
        await waiting


async def writes_in_bad_weather(random: Random) -> list[str]:
    metadata = VirtualMetadata(random, Weather(50, 0.2, 0.2, 3_000, 1_000))
    story = []
    for number in range(50):
        try:
            revision = await metadata.connect("broker").txn((), [Put(f"{number}", b"")])
            story.append(f"{number} at {revision}")
        except Unanswered:
            story.append(f"{number} {f'{number}' in metadata.content()}")
    return story


def test_one_seed_gives_one_run() -> None:
    first = testing.run(writes_in_bad_weather, seed=7)
    assert first == testing.run(writes_in_bad_weather, seed=7) != testing.run(writes_in_bad_weather, seed=8)
    assert {line.split()[1] for line in first} >= {"at", "True", "False"}
