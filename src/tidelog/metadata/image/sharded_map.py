"""An immutable mapping whose changed copy shares nearly everything with the original.

Keys are spread over a fixed number of small dicts; a change copies the dicts that it touches and the list of dicts, so
the cost of a change hardly grows with the number of keys.  The order of iteration depends only on the keys and their
history, never on Python's hashing of strings, so that a simulation repeats itself."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar
from uuid import UUID
from zlib import crc32

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SHARDS = 256


class ShardedMap(Mapping[K, V], Generic[K, V]):
    __slots__ = ("_shards", "_size", "_sorted")

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        self._shards: list[dict[K, V]] = [{} for _ in range(SHARDS)]
        for key, value in items:
            self._shards[_shard(key)][key] = value
        self._size = sum(map(len, self._shards))
        self._sorted: list[K] | None = None

    def sorted_keys(self) -> Sequence[K]:
        """In ascending order; sorted once, however often it is asked for."""
        if self._sorted is None:
            self._sorted = sorted(self)  # type: ignore[type-var]  # whoever asks has keys that can be compared
        return self._sorted

    def changed(self, changes: Mapping[K, V | None]) -> ShardedMap[K, V]:
        """A copy with these changes; the value None removes the key."""
        if not changes:
            return self
        copy: ShardedMap[K, V] = ShardedMap.__new__(ShardedMap)
        copy._shards = list(self._shards)
        copy._size = self._size
        copy._sorted = None
        fresh: set[int] = set()
        for key, value in changes.items():
            at = _shard(key)
            if at not in fresh:
                fresh.add(at)
                copy._shards[at] = dict(copy._shards[at])
            shard = copy._shards[at]
            copy._size -= len(shard)
            if value is not None:
                shard[key] = value
            else:
                shard.pop(key, None)
            copy._size += len(shard)
        return copy

    def __getitem__(self, key: K) -> V:
        return self._shards[_shard(key)][key]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        for shard in self._shards:
            yield from shard

    def __repr__(self) -> str:
        return f"ShardedMap({dict(self)!r})"


def _shard(key: object) -> int:
    if isinstance(key, str):
        return crc32(key.encode()) % SHARDS
    if isinstance(key, UUID):
        return key.int % SHARDS
    raise TypeError(f"ShardedMap has no shard for {key!r}: its keys are strings and UUIDs")
