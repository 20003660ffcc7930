"""What a watch tells, taken together where nobody minds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from tidelog.metadata import batched_watch
from tidelog.metadata.batched_watch import batched_changes
from tidelog.metadata.store import Change, Changes, Compacted


def change(revision: int, key: str = "partitions/x/0") -> Changes:
    return Changes(revision, (Change(key, b""),))


async def told(*given: Changes, problem: Exception | None = None) -> AsyncIterator[Changes]:
    for one in given:
        yield one
    if problem is not None:
        raise problem


async def taken(watch: AsyncIterator[Changes], found: list[list[int]]) -> list[list[int]]:
    async with aclosing(batched_changes(watch)) as steps:
        async for some in steps:
            found.append([one.revision for one in some])
    return found


def test_changes_of_partitions_that_came_meanwhile_are_one_step() -> None:
    assert asyncio.run(taken(told(*map(change, range(1, 6))), [])) == [[1, 2, 3, 4, 5]]


def test_a_broker_that_went_and_came_is_seen_to_have_gone() -> None:
    watch = told(change(1), change(2, "brokers/3"), change(3, "brokers/3"), change(4), change(5))
    assert asyncio.run(taken(watch, [])) == [[1], [2], [3], [4, 5]]


def test_what_came_before_the_end_is_told_before_it() -> None:
    found: list[list[int]] = []
    with pytest.raises(Compacted):
        asyncio.run(taken(told(change(1), change(2), problem=Compacted("gone")), found))
    assert found == [[1, 2]]


def test_only_so_much_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_watch, "AHEAD_MAX", 3)
    asyncio.run(read_slowly())


async def read_slowly() -> None:
    read = []

    async def watch() -> AsyncIterator[Changes]:
        for revision in range(1, 11):
            read.append(revision)
            yield change(revision)

    async with aclosing(batched_changes(watch())) as steps:
        assert len(await anext(steps)) <= 3
        await asyncio.sleep(0.01)
        assert len(read) <= 6
        rest = [one async for some in steps for one in some]
    assert rest[-1].revision == 10
