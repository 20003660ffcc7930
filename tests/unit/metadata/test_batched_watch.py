"""Changes of partitions that arrive while earlier ones are applied become one batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from tidelog.metadata import batched_watch
from tidelog.metadata.batched_watch import batched_changes
from tidelog.metadata.store import Changes, Compacted, KeyChange


def change(revision: int, key: str = "partitions/x/0") -> Changes:
    return Changes(revision, (KeyChange(key, b""),))


async def watch_of(*given: Changes, problem: Exception | None = None) -> AsyncIterator[Changes]:
    for changes in given:
        yield changes
    if problem is not None:
        raise problem


async def read_batches(watch: AsyncIterator[Changes], revisions: list[list[int]]) -> list[list[int]]:
    async with aclosing(batched_changes(watch)) as batches:
        async for batch in batches:
            revisions.append([changes.revision for changes in batch])
    return revisions


async def test_changes_of_partitions_that_came_meanwhile_are_one_step() -> None:
    assert await read_batches(watch_of(*map(change, range(1, 6))), []) == [[1, 2, 3, 4, 5]]


async def test_a_broker_that_went_and_came_is_seen_to_have_gone() -> None:
    watch = watch_of(change(1), change(2, "brokers/3"), change(3, "brokers/3"), change(4), change(5))
    assert await read_batches(watch, []) == [[1], [2], [3], [4, 5]]


async def test_what_came_before_the_end_is_told_before_it() -> None:
    revisions: list[list[int]] = []
    with pytest.raises(Compacted):
        await read_batches(watch_of(change(1), change(2), problem=Compacted("gone")), revisions)
    assert revisions == [[1, 2]]


async def test_only_so_much_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_watch, "AHEAD_MAX", 3)
    read = []

    async def watch() -> AsyncIterator[Changes]:
        for revision in range(1, 11):
            read.append(revision)
            yield change(revision)

    async with aclosing(batched_changes(watch())) as batches:
        assert len(await anext(batches)) <= 3
        await asyncio.sleep(0.01)
        assert len(read) <= 6
        rest = [changes async for batch in batches for changes in batch]
    assert rest[-1].revision == 10
