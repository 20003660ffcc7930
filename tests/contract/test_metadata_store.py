"""What every metadata store guarantees: one scenario per guarantee, run on every implementation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from tests.contract.world import (
    RealEtcd,
    SharedOnSocket,
    SimulatedEtcd,
    SimulatedSqlite,
    ThreadedSqlite,
    World,
)
from tidelog.metadata.store import (
    ABSENT,
    Changes,
    Compacted,
    Compare,
    Delete,
    DeletePrefix,
    KeyChange,
    LeaseEnded,
    MetadataStore,
    Put,
    StoredEntry,
    TooLarge,
)
from tidelog.testing import Weather

LONG_MS = 20_000


WORLDS: dict[str, Callable[[pytest.FixtureRequest], World]] = {
    "simulated sqlite": lambda request: SimulatedSqlite(),
    "threaded sqlite": lambda request: ThreadedSqlite(request.getfixturevalue("tmp_path")),
    "shared on a socket": lambda request: SharedOnSocket(request.getfixturevalue("tmp_path")),
    "etcd": lambda request: RealEtcd(request.getfixturevalue("etcd")),
    "simulated etcd": lambda request: SimulatedEtcd(Weather()),
    "slow simulated etcd": lambda request: SimulatedEtcd(Weather(delay_ms_max=15)),
}


@pytest.fixture(params=list(WORLDS))
def world(request: pytest.FixtureRequest) -> World:
    return WORLDS[request.param](request)


async def put(store: MetadataStore, *pairs: tuple[str, bytes]) -> int:
    revision = await store.txn((), [Put(key, value) for key, value in pairs])
    assert revision is not None
    return revision


async def content(store: MetadataStore, prefix: str = "") -> dict[str, bytes]:
    return {entry.key: entry.value for entry in (await store.range(prefix)).entries}


async def now(store: MetadataStore) -> int:
    return (await store.range("")).revision


async def test_a_key_that_was_never_put_is_not_there(world: World) -> None:
    store = await world.open()
    assert await store.get("a") is None
    assert (await store.range("")).entries == []


async def test_what_was_put_is_read_with_the_revision_that_wrote_it(world: World) -> None:
    store = await world.open()
    first = await put(store, ("a", b"1"), ("b", b""))
    second = await put(store, ("a", b"2"))
    assert second > first
    assert await store.get("a") == StoredEntry("a", b"2", second)
    assert await store.get("b") == StoredEntry("b", b"", first)


async def test_a_range_has_the_keys_below_a_prefix_in_order_and_the_stores_revision(world: World) -> None:
    store = await world.open()
    await put(store, ("t/b", b""), ("t", b""), ("t/a/1", b""), ("t0", b""), ("s/z", b""), ("t/é", b""))
    last = await put(store, ("t/c", b""))
    snapshot = await store.range("t/")
    assert [entry.key for entry in snapshot.entries] == ["t/a/1", "t/b", "t/c", "t/é"]
    assert snapshot.revision == last
    assert len((await store.range("")).entries) == 7


async def test_a_transaction_happens_only_if_all_comparisons_hold(world: World) -> None:
    store = await world.open()
    first = await put(store, ("a", b"1"))
    assert await store.txn([Compare("a", ABSENT)], [Put("a", b"2")]) is None
    assert await store.txn([Compare("a", first + 1)], [Put("a", b"2")]) is None
    assert await store.txn([Compare("b", first)], [Put("a", b"2")]) is None
    assert await store.txn([Compare("a", first), Compare("b", first)], [Put("a", b"2")]) is None
    assert await content(store) == {"a": b"1"}
    second = await store.txn([Compare("a", first), Compare("b", ABSENT)], [Put("a", b"2"), Put("b", b"3")])
    assert second is not None and second > first
    assert await content(store) == {"a": b"2", "b": b"3"}


async def test_of_two_who_swap_at_once_one_wins(world: World) -> None:
    store = await world.open()
    first = await put(store, ("a", b"0"))
    tries = [store.txn([Compare("a", first)], [Put("a", b"%d" % who)]) for who in range(10)]
    results = await asyncio.gather(*tries)
    assert len([revision for revision in results if revision is not None]) == 1


async def test_a_hundred_at_once_all_happen_each_in_a_revision_of_its_own(world: World) -> None:
    store = await world.open()
    tries = [store.txn([Compare(f"k/{who}", ABSENT)], [Put(f"k/{who}", b"")]) for who in range(100)]
    revisions = await asyncio.gather(*tries)
    assert None not in revisions and len(set(revisions)) == 100
    stored = {entry.key: entry.revision for entry in (await store.range("k/")).entries}
    assert stored == {f"k/{who}": revision for who, revision in enumerate(revisions)}


async def test_keys_are_deleted_one_by_one_or_below_a_prefix(world: World) -> None:
    store = await world.open()
    await put(store, ("a", b""), ("b/1", b""), ("b/2", b""), ("b", b""), ("c", b""))
    await store.txn((), [Delete("a"), DeletePrefix("b/"), Put("c", b"new")])
    assert await content(store) == {"b": b"", "c": b"new"}


async def test_deleting_nothing_succeeds_without_a_new_revision(world: World) -> None:
    store = await world.open()
    revision = await put(store, ("a", b""))
    assert await store.txn((), [Delete("b"), DeletePrefix("c")]) == revision
    assert (await store.range("")).revision == revision


async def test_many_operations_fit_into_one_transaction_and_many_keys_into_a_range(world: World) -> None:
    store = await world.open()
    many = min(store.operations_max, 5_000)
    keys = sorted(f"k/{number}" for number in range(max(many, 2_500)))
    first = keys[:many]
    revision = await put(store, *((key, b"") for key in first))
    compare = [Compare(key, revision) for key in first]
    assert await store.txn(compare, [Put(key, b"x") for key in first]) is not None
    for at in range(many, len(keys), many):
        await put(store, *((key, b"x") for key in keys[at : at + many]))
    assert [(entry.key, entry.value) for entry in (await store.range("")).entries] == [
        (key, b"x") for key in keys
    ]


async def test_a_transaction_that_is_too_large_is_refused_and_one_at_the_bound_is_not(world: World) -> None:
    store = await world.open()
    bound = min(store.bytes_max, 1 << 22)
    await put(store, ("a", bytes(bound // 2)), ("b", bytes(bound // 2 - 2)))
    with pytest.raises(TooLarge):
        await store.txn([Compare("c", ABSENT)], [Put("c", bytes(store.bytes_max))])
    assert {key: len(value) for key, value in (await content(store)).items()} == {
        "a": bound // 2,
        "b": bound // 2 - 2,
    }


async def test_revisions_and_content_outlast_the_process(world: World) -> None:
    store = await world.open()
    revision = await put(store, ("a", b"1"))
    again = await world.open()
    assert await again.get("a") == StoredEntry("a", b"1", revision)
    assert await put(again, ("b", b"2")) > revision


# Watches


async def take(watch: AsyncGenerator[Changes, None], count: int) -> list[Changes]:
    taken = []
    async for changes in watch:
        taken.append(changes)
        if len(taken) == count:
            break
    return taken


async def test_a_watch_yields_each_revision_once_with_all_its_changes(world: World) -> None:
    store = await world.open()
    start = await put(store, ("old", b""))
    watch = store.watch("", start + 1)
    async with aclosing(watch):
        waiting = asyncio.ensure_future(take(watch, 3))
        first = await put(store, ("a", b"1"), ("b", b"2"))
        second = await put(store, ("a", b"3"))
        third = await store.txn((), [Delete("a")])
        assert third is not None
        assert [(changes.revision, sorted(changes.changes)) for changes in await waiting] == [
            (first, [KeyChange("a", b"1"), KeyChange("b", b"2")]),
            (second, [KeyChange("a", b"3")]),
            (third, [KeyChange("a", None)]),
        ]


async def test_a_watch_resumes_where_another_stopped(world: World) -> None:
    store = await world.open()
    revisions = [await put(store, ("a", b"%d" % number)) for number in range(6)]
    for start in revisions:
        watch = store.watch("", start)
        async with aclosing(watch):
            seen = await take(watch, len([revision for revision in revisions if revision >= start]))
        assert [changes.revision for changes in seen] == [
            revision for revision in revisions if revision >= start
        ]


async def test_a_watch_sees_only_what_is_below_its_prefix(world: World) -> None:
    store = await world.open()
    watch = store.watch("t/", await now(store) + 1)
    async with aclosing(watch):
        await put(store, ("t/a", b"1"), ("s/a", b"1"))
        await put(store, ("s/b", b"2"))
        last = await put(store, ("t/c", b"3"))
        seen = await take(watch, 2)
    assert [changes.changes for changes in seen] == [(KeyChange("t/a", b"1"),), (KeyChange("t/c", b"3"),)]
    assert seen[-1].revision == last


async def test_a_change_is_seen_by_watchers_even_if_its_author_was_cancelled(world: World) -> None:
    store = await world.open()
    watch = store.watch("", await now(store) + 1)
    async with aclosing(watch):
        author = asyncio.ensure_future(put(store, ("a", b"1")))
        await asyncio.sleep(0)
        author.cancel()
        await asyncio.wait([author])
        await put(store, ("b", b"2"))
        seen = [change.key for changes in await take(watch, 2) for change in changes.changes]
        assert sorted(seen) == ["a", "b"]


async def test_changes_that_are_gone_are_refused_not_skipped(world: World) -> None:
    store = await world.open()
    start = await put(store, ("a", b""))
    await put(store, ("b", b""))
    await world.forget(store)
    last = await put(store, ("c", b""))
    seen = []
    watch = store.watch("", start)
    async with aclosing(watch):
        with pytest.raises(Compacted):
            async for changes in watch:
                seen.append(changes.revision)
    assert seen == []
    watch = store.watch("", last)
    async with aclosing(watch):
        assert [changes.revision for changes in await take(watch, 1)] == [last]


# Leases


async def gone(store: MetadataStore, key: str, from_revision: int) -> None:
    watch = store.watch(key, from_revision)
    async with aclosing(watch):
        async for changes in watch:
            if KeyChange(key, None) in changes.changes:
                return


async def test_keys_vanish_together_when_their_lease_ends(world: World) -> None:
    store = await world.open()
    lease, other = await store.lease(LONG_MS), await store.lease(LONG_MS)
    first = await store.txn((), [Put("a", b"", lease.id), Put("b", b"", lease.id), Put("c", b"", other.id)])
    assert first is not None
    await put(store, ("d", b""))
    await lease.end()
    await lease.end()
    assert set(await content(store)) == {"c", "d"}
    watch = store.watch("", first)
    async with aclosing(watch):
        last = (await take(watch, 3))[-1]
    assert sorted(last.changes) == [KeyChange("a", None), KeyChange("b", None)]


async def test_a_lease_that_is_not_kept_alive_ends(world: World) -> None:
    store = await world.open()
    lease = await store.lease(world.ttl_ms)
    revision = await store.txn((), [Put("a", b"", lease.id)])
    assert revision is not None
    await gone(store, "a", revision + 1)
    assert await store.get("a") is None
    assert not await lease.keep_alive()


async def test_a_lease_that_is_kept_alive_outlasts_its_time(world: World) -> None:
    store = await world.open()
    lease = await store.lease(world.ttl_ms)
    await store.txn((), [Put("a", b"", lease.id)])
    for _ in range(6):
        await asyncio.sleep(lease.ttl_ms / 2000)
        assert await lease.keep_alive()
    assert await store.get("a") is not None


async def test_nothing_can_be_bound_to_a_lease_that_has_ended(world: World) -> None:
    store = await world.open()
    lease = await store.lease(world.ttl_ms)
    await lease.end()
    with pytest.raises(LeaseEnded):
        await store.txn((), [Put("a", b"", lease.id)])
    assert await store.get("a") is None


async def test_a_key_put_again_without_a_lease_stays(world: World) -> None:
    store = await world.open()
    lease = await store.lease(world.ttl_ms)
    await store.txn((), [Put("a", b"1", lease.id)])
    await put(store, ("a", b"2"))
    await lease.end()
    assert await content(store) == {"a": b"2"}


async def test_the_leases_of_a_dead_process_end(world: World) -> None:
    store = await world.open()
    lease = await store.lease(world.ttl_ms)
    revision = await store.txn((), [Put("a", b"", lease.id), Put("b", b"")])
    assert revision is not None
    again = await world.open()
    if await again.get("a") is not None:
        await gone(again, "a", revision + 1)
    assert set(await content(again)) == {"b"}
    assert (await again.range("")).revision > revision


async def test_closing_ends_leases_and_watches(world: World) -> None:
    store = await world.open()
    lease = await store.lease(LONG_MS)
    start = await store.txn((), [Put("a", b"", lease.id), Put("b", b"")])
    assert start is not None

    async def watch_all() -> list[Any]:
        return [changes async for changes in store.watch("", start)]

    watching = asyncio.ensure_future(watch_all())
    await asyncio.sleep(0)
    await store.close()
    await watching
    assert set(await content(await world.open())) == {"b"}
