"""Offsets kept outside of the broker, beside the results: both are stored in one transaction, or neither is."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

from tidelog.client.groups.metadata import OffsetAndMetadata
from tidelog.types import TopicPartition


class OffsetStore(Protocol):
    """The application's own store of a consumer's offsets: `Consumer(..., offset_store=store)`.

    A partition begins where `load` says (the offset of the next record to read), and `commit` calls `save`.
    Most applications write the offset themselves, in the transaction that stores their results; then `save` is
    for `commit` only.  The methods may be plain or `async`.  A blocking consumer calls them in the thread that
    polls."""

    def load(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int] | Awaitable[Mapping[TopicPartition, int]]:
        """The offsets of the partitions that have one."""
        ...

    def save(self, offsets: Mapping[TopicPartition, int]) -> Awaitable[None] | None: ...


Call = Callable[[Callable[[Any], Any], Any], Awaitable[Any]]


async def call_here(method: Callable[[Any], Any], argument: Any) -> Any:
    answer = method(argument)
    return await answer if inspect.isawaitable(answer) else answer


class StoredOffsets:
    """An `OffsetStore` in the place of a group's coordinator."""

    def __init__(self, store: OffsetStore, call: Call) -> None:
        """`call` calls the store's methods, on the thread that they belong to."""
        self._store = store
        self._call = call

    async def load(
        self, partitions: Collection[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        offsets: Mapping[TopicPartition, int] = await self._call(self._store.load, partitions)
        return {
            TopicPartition(*partition): OffsetAndMetadata(offset) for partition, offset in offsets.items()
        }

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int | None = None
    ) -> None:
        await self._call(self._store.save, {partition: kept.offset for partition, kept in offsets.items()})
