"""A transaction whose answer is lost is sent again, and its outcome is reported correctly in every case."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from tests.contract.etcd import Etcd
from tests.contract.proxy import Proxy
from tests.contract.world import RealEtcd
from tidelog.metadata.etcd.store import EtcdStore
from tidelog.metadata.store import ABSENT, Changes, Compare, Delete, Put

TRIES_MAX = 10


@asynccontextmanager
async def swallowed_answer(etcd: Etcd) -> AsyncIterator[tuple[EtcdStore, EtcdStore, Proxy]]:
    """A store behind a proxy that loses the answer of the next transaction (the store is directly on etcd after the
    failover), a store without faults, and the proxy."""
    async with RealEtcd(etcd) as world:
        proxy, store = await connected_through_proxy(etcd, world)
        other = world.store("other")
        proxy.swallows = True
        yield store, other, proxy
        assert proxy.swallowed.is_set(), "no answer was lost"
        await proxy.stop()


async def connected_through_proxy(etcd: Etcd, world: RealEtcd) -> tuple[Proxy, EtcdStore]:
    """The store is connected and knows its slot: the next request that it sends is the transaction.  On a busy machine a
    store may have left the proxy for the other endpoint: then another store tries."""
    for _ in range(TRIES_MAX):
        proxy = Proxy(etcd.endpoints[0])
        await proxy.start()
        store = world.store(endpoints=(proxy.endpoint, *etcd.endpoints))
        await store.txn((), [Put("first", b"")])
        before = proxy.answers
        await store.txn((), [Put("first", b"")])
        if proxy.answers > before:
            return proxy, store
        await proxy.stop()
    raise AssertionError("no store stays with its proxy")


async def changes(store: EtcdStore, from_revision: int, last: str) -> list[Changes]:
    seen = []
    async with aclosing(store.watch("", from_revision)) as watch:
        async for changes in watch:
            seen.append(changes)
            if any(change.key == last for change in changes.changes):
                break
    return seen


async def test_it_has_happened_once_and_its_author_learns_the_revision(etcd: Etcd) -> None:
    async with swallowed_answer(etcd) as (store, other, _):
        before = (await other.range("")).revision
        revision = await store.txn([Compare("a", ABSENT)], [Put("a", b"1")])
        entry = await other.get("a")
        assert entry is not None and entry.revision == revision
        await other.txn((), [Put("end", b"")])
        assert len(await changes(other, before + 1, "end")) == 2


async def test_it_does_not_happen_a_second_time_over_what_others_did_since(etcd: Etcd) -> None:
    async with swallowed_answer(etcd) as (store, other, proxy):
        writing = asyncio.ensure_future(store.txn((), [Put("a", b"old")]))
        await proxy.swallowed.wait()
        revision = await other.txn((), [Put("a", b"new")])
        written = await writing
        assert written is not None and revision is not None and written < revision
        entry = await other.get("a")
        assert entry is not None and entry.value == b"new"


async def test_a_comparison_that_did_not_hold_is_told_as_such(etcd: Etcd) -> None:
    async with swallowed_answer(etcd) as (store, other, _):
        revision = await other.txn((), [Put("a", b"1")])
        assert revision is not None
        assert await store.txn([Compare("a", revision - 1)], [Put("a", b"2")]) is None
        assert await store.txn([Compare("a", revision)], [Put("a", b"3")]) is not None
        assert await store.txn([Compare("a", revision)], [Put("a", b"4")]) is None
        entry = await other.get("a")
        assert entry is not None and entry.value == b"3"


async def test_what_was_deleted_is_told_as_deleted(etcd: Etcd) -> None:
    async with swallowed_answer(etcd) as (store, other, _):
        revision = await other.txn((), [Put("a", b"1")])
        assert revision is not None
        assert await store.txn([Compare("a", revision)], [Delete("a")]) is not None
        assert await other.get("a") is None
