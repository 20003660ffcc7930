"""The chain of manifests: one writer wins, and listings that are behind harm nobody."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.storage.tiers.memory_store import MemoryStore
from tests.unit.storage.tiers.test_manifest import EMPTY
from tidelog.storage.tiers.manifest import Manifest, manifest_name
from tidelog.storage.tiers.manifest_chain import KEPT, ManifestChain, Outrun
from tidelog.storage.tiers.object_store import StoreProblem

FOLDER = "c/topics/orders/id/0"


async def written(chain: ManifestChain, count: int) -> Manifest:
    manifest = await chain.newest() or EMPTY
    for _ in range(count):
        manifest = manifest.following(1, 0)
        await chain.write(manifest)
    return manifest


async def test_the_newest_manifest_is_read() -> None:
    chain = ManifestChain(MemoryStore(), FOLDER)
    assert await chain.newest() is None
    last = await written(chain, 5)
    assert await chain.newest() == last
    assert last.number == 5


async def test_only_the_newest_few_are_kept() -> None:
    store = MemoryStore()
    await written(ManifestChain(store, FOLDER), KEPT + 4)
    assert len(store.objects) == KEPT


async def test_of_two_writers_one_goes_on() -> None:
    store = MemoryStore()
    one, other = ManifestChain(store, FOLDER), ManifestChain(store, FOLDER)
    base = await written(one, 1)
    outcomes = await asyncio.gather(
        one.write(base.following(1, 0)), other.write(base.following(2, 0)), return_exceptions=True
    )
    assert sorted(type(outcome) for outcome in outcomes if outcome is not None) == [Outrun]
    newest = await one.newest()
    assert newest is not None and newest.leader_epoch == (1 if outcomes[0] is None else 2)


async def test_a_writer_that_slept_does_not_find_a_number_free_again() -> None:
    chain = ManifestChain(MemoryStore(), FOLDER)
    old = await written(chain, 1)
    last = await written(chain, KEPT + 2)
    with pytest.raises(Outrun):
        await chain.write(old.following(9, 0))
    assert await chain.newest() == last


async def test_a_listing_that_is_behind_is_made_up_for() -> None:
    store = MemoryStore()
    chain = ManifestChain(store, FOLDER)
    last = await written(chain, 3)
    store.unlisted = {manifest_name(FOLDER, 2), manifest_name(FOLDER, 3)}
    assert await chain.newest() == last
    store.unlisted = set(store.objects)
    assert await chain.newest() == last


async def test_a_listing_of_manifests_that_are_gone_is_an_error() -> None:
    store = MemoryStore()
    chain = ManifestChain(store, FOLDER)
    await written(chain, 1)
    list_before = await store.list(FOLDER)
    store.objects.clear()

    async def old_list(prefix: str) -> list[object]:
        return list(list_before)

    store.list = old_list  # type: ignore[method-assign,assignment]
    with pytest.raises(StoreProblem):
        await chain.newest()
