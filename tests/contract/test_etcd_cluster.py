"""The etcd store on three members of which one is killed, frozen, restarted, or all are away.

Times are bounds far above what is usual: what counts is that things go on, and what is seen when they do."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import pytest

from tests.contract.etcd import Etcd, Member
from tests.contract.world import RealEtcd
from tidelog.metadata.etcd.store import EtcdStore
from tidelog.metadata.store import (
    Compacted,
    Compare,
    Delete,
    KeyChange,
    LeaseEnded,
    MetadataStore,
    Put,
    Unanswered,
)

FAILOVER_SECONDS_MAX = 30
WRITES = 30


@pytest.fixture
def world(three: Etcd) -> RealEtcd:
    return RealEtcd(three)


def first(world: RealEtcd, member: Member) -> tuple[str, ...]:
    """All endpoints with this member's first, which is where a client starts."""
    others = [endpoint for endpoint in world.etcd.endpoints if endpoint != member.endpoint]
    return (member.endpoint, *others)


async def start_at(world: RealEtcd, member: Member, writer: str = "1") -> EtcdStore:
    """A store that is connected to this member."""
    await world.leader()
    store = world.store(writer, endpoints=first(world, member))
    await store.range("")
    return store


async def count_up(store: MetadataStore, key: str, times: int) -> list[int]:
    """Counts up in one key by compare-and-swap; returns the revisions that wrote the key."""
    revisions = []
    for _ in range(times):
        entry = await store.get(key)
        value, revision = (0, 0) if entry is None else (int(entry.value), entry.revision)
        written = await store.txn([Compare(key, revision)], [Put(key, b"%d" % (value + 1))])
        assert written is not None, "nobody else writes this key"
        revisions.append(written)
    return revisions


async def collect(store: MetadataStore, from_revision: int, until: bytes) -> list[tuple[int, KeyChange]]:
    """Collects the changes of a watch until a change has that value."""
    seen = []
    watch = store.watch("", from_revision)
    async with aclosing(watch):
        async for changes in watch:
            for change in changes.changes:
                seen.append((changes.revision, change))
                if change.value == until:
                    return seen
    raise AssertionError("the watch has ended")


def trouble(kind: str, member: Member) -> None:
    if kind == "killed":
        member.kill()
    else:
        member.freeze()


@pytest.mark.parametrize("kind", ["killed", "frozen"])
@pytest.mark.parametrize("near", [True, False], ids=["connected to it", "connected to another"])
async def test_a_lost_leader_costs_about_a_second_and_no_change(
    world: RealEtcd, kind: str, near: bool
) -> None:
    lost = await world.leader()
    other = next(member for member in world.etcd.members if member is not lost)
    store = await start_at(world, lost if near else other)
    watcher = await start_at(world, lost if near else other, "watcher")
    start = (await store.range("")).revision
    watching = asyncio.ensure_future(collect(watcher, start + 1, b"last"))
    before = await count_up(store, "n", WRITES)

    trouble(kind, lost)
    after = await asyncio.wait_for(count_up(store, "n", WRITES), FAILOVER_SECONDS_MAX)
    end = await store.txn((), [Put("end", b"last")])
    seen = await asyncio.wait_for(watching, FAILOVER_SECONDS_MAX)
    values = [b"%d" % (number + 1) for number in range(2 * WRITES)]
    assert seen == [
        *(
            (revision, KeyChange("n", value))
            for revision, value in zip([*before, *after], values, strict=True)
        ),
        (end, KeyChange("end", b"last")),
    ]


async def test_a_request_that_a_frozen_member_passes_on_late_has_no_effect(world: RealEtcd) -> None:
    frozen = await world.leader()
    store = await start_at(world, frozen)
    await count_up(store, "n", 1)
    frozen.freeze()
    # One copy of the request waits in the frozen member, another copy has succeeded elsewhere.
    assert await store.txn([Compare("late", 0)], [Put("late", b"1")]) is not None
    entry = await store.get("late")
    assert entry is not None
    other = world.store("other", endpoints=first(world, frozen)[1:])
    # Now every key that the first request compares is as it was before that request.
    assert await other.txn([Compare("late", entry.revision)], [Put("gone", b"")]) is not None
    await other.txn((), [Delete("late")])
    frozen.thaw()
    near = world.store("near", endpoints=(frozen.endpoint,))
    for _ in range(20):
        assert await near.get("late") is None
        await asyncio.sleep(0.05)


async def test_a_member_that_comes_back_tells_what_it_missed(world: RealEtcd) -> None:
    lost = next(iter(world.etcd.members))
    store = await start_at(world, lost)
    start = (await store.range("")).revision
    watching = asyncio.ensure_future(collect(store, start + 1, b"last"))
    revisions = await count_up(store, "n", WRITES)
    lost.kill()
    revisions += await count_up(store, "n", WRITES)
    world.etcd.start()
    back = world.store("back", endpoints=(lost.endpoint,))
    revisions += await count_up(back, "n", WRITES)
    await back.txn((), [Put("end", b"last")])
    seen = await asyncio.wait_for(watching, FAILOVER_SECONDS_MAX)
    assert [revision for revision, change in seen if change.key == "n"] == revisions


async def test_a_watch_that_was_away_during_a_compaction_is_told_so(world: RealEtcd) -> None:
    member = await world.leader()
    watcher = await start_at(world, member, "watcher")
    writer = world.store("writer", endpoints=first(world, member)[1:])
    start = (await writer.range("")).revision
    watch = watcher.watch("", start + 1)
    async with aclosing(watch):
        [revision] = await count_up(writer, "n", 1)
        assert (await anext(watch)).revision == revision
        # No reader waits on the watch now, and its member is lost.
        member.kill()
        await count_up(writer, "n", WRITES)
        await world.forget(writer)
        with pytest.raises(Compacted):
            while True:
                await asyncio.wait_for(anext(watch), FAILOVER_SECONDS_MAX)
    snapshot = await watcher.range("")
    assert [entry.value for entry in snapshot.entries] == [b"%d" % (WRITES + 1)]
    [revision] = await count_up(writer, "n", 1)
    again = watcher.watch("", snapshot.revision + 1)
    async with aclosing(again):
        assert (await anext(again)).revision == revision


async def test_a_watch_leaves_a_member_that_has_lost_the_majority(world: RealEtcd) -> None:
    await world.leader()
    alone, *others = world.etcd.members
    came = asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        came.set()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    elsewhere = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    store = world.store(endpoints=(alone.endpoint, elsewhere))
    start = (await store.range("")).revision
    watching = asyncio.ensure_future(collect(store, start + 1, b"last"))
    await count_up(store, "n", 1)
    assert not came.is_set()
    for other in others:
        other.freeze()
    # The remaining member answers, but it will never have anything new.
    await asyncio.wait_for(came.wait(), FAILOVER_SECONDS_MAX)
    for other in others:
        other.thaw()
    await store.txn((), [Put("end", b"last")])
    seen = await asyncio.wait_for(watching, FAILOVER_SECONDS_MAX)
    assert [change.key for _, change in seen] == ["n", "end"]
    server.close()


@pytest.mark.parametrize("kind", ["killed", "frozen"])
async def test_leases_live_through_a_lost_leader_while_they_are_kept_alive_and_end_when_not(
    world: RealEtcd, kind: str
) -> None:
    lost = await world.leader()
    store = await start_at(world, lost)
    kept, silent = await store.lease(3_000), await store.lease(3_000)
    await store.txn((), [Put("kept", b"", kept.id), Put("silent", b"", silent.id)])
    trouble(kind, lost)
    deadline = time.monotonic() + 2 * FAILOVER_SECONDS_MAX
    while await store.get("silent") is not None:
        assert await kept.keep_alive()
        assert time.monotonic() < deadline, "nobody ends the other lease"
        await asyncio.sleep(0.3)
    assert await store.get("kept") is not None
    assert await kept.keep_alive()
    assert not await silent.keep_alive()
    with pytest.raises(LeaseEnded):
        await store.txn((), [Put("silent", b"", silent.id)])


async def test_when_all_are_away_calls_fail_watches_wait_and_both_work_when_they_are_back(
    world: RealEtcd,
) -> None:
    store = await world.open()
    start = (await store.range("")).revision
    watching = asyncio.ensure_future(collect(store, start + 1, b"last"))
    revisions = await count_up(store, "n", WRITES)
    world.etcd.stop()
    with pytest.raises(Unanswered, match="did not answer"):
        await store.txn((), [Put("x", b"")])
    assert not watching.done()
    await asyncio.to_thread(world.etcd.start)
    revisions += await count_up(store, "n", WRITES)
    await store.txn((), [Put("end", b"last")])
    seen = await asyncio.wait_for(watching, FAILOVER_SECONDS_MAX)
    assert [revision for revision, change in seen if change.key == "n"] == revisions
