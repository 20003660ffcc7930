"""Reads cold segments for all partitions of a broker: ranged, ahead of the reader, shared, and bounded.

Whoever asks for a chunk gets its file, or a future that is done when asking again is worth it.  A chunk is asked for
once, however many wait for it.  A store that fails is asked again after a pause; who waits meanwhile waits, and nobody
else."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog._speed.log.crc32c import crc32c
from tidelog.clock import Clock
from tidelog.errors import CorruptMessage
from tidelog.storage.fetched_log import CachedFile, NotHereYet
from tidelog.storage.tiers import side_file
from tidelog.storage.tiers.chunk_cache import ChunkCache, ChunkKey
from tidelog.storage.tiers.manifest import ColdSegment
from tidelog.storage.tiers.object_store import NoSuchObject, ObjectStore, StoreProblem
from tidelog.storage.tiers.side_file import Chunk, CorruptSideFile, SideFile

logger = logging.getLogger("tidelog.tiers")

PAUSE_S = 1.0
TELL_EVERY_MS = 10_000
# A few bytes of a side file on the wire are many in memory.
_OBJECTS_FOR_BYTES = 4


@dataclass(frozen=True, slots=True)
class ReadLimits:
    at_once: int
    waiting_max: int
    ahead_bytes: int
    side_bytes: int
    fetch_rate: int


@dataclass(slots=True)
class RemoteReadCounters:
    requests: int = 0
    bytes: int = 0
    errors: int = 0


class RemoteReader:
    def __init__(
        self, store: ObjectStore, cache: ChunkCache, clock: Clock, limits: Callable[[], ReadLimits]
    ) -> None:
        self.counters = RemoteReadCounters()
        self._store = store
        self.cache = cache
        self._clock = clock
        self._limits = limits
        self._sides: OrderedDict[str, tuple[SideFile, int]] = OrderedDict()
        self._side_bytes = 0
        self._under_way: dict[ChunkKey, asyncio.Future[None]] = {}
        self._lost: OrderedDict[ChunkKey, Exception] = OrderedDict()
        """What cannot be had by asking again: raised once, to whoever asks next."""
        self._running = 0
        self._turn: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._told_ms: int | None = None
        self._owed_until_ms = 0.0

    @property
    def waiting(self) -> int:
        return len(self._tasks) - self._running

    # Both raise NoSuchObject, CorruptSideFile or CorruptMessage for what cannot be had by asking again.

    def side(self, folder: str, segment: ColdSegment) -> SideFile | NotHereYet:
        known = self._sides.get(segment.name)
        if known is not None:
            self._sides.move_to_end(segment.name)
            return known[0]
        key = segment.name, -1
        self._raise_if_lost(key)
        return self._wait_for([key], lambda: self._read_side(folder, segment))

    def chunk(
        self, folder: str, segment: ColdSegment, side: SideFile, number: int
    ) -> CachedFile | NotHereYet:
        key = segment.name, number
        file = self.cache.get(key)
        if file is not None:
            self._read_ahead(folder, segment, side, number + 1)
            return file
        self._raise_if_lost(key)
        wanted = self._run_of_chunks(segment, side, number)
        return self._wait_for(
            [(segment.name, each) for each in wanted],
            lambda: self._read_chunks(folder, segment, side, wanted),
        )

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Deciding what to ask for

    def _read_ahead(self, folder: str, segment: ColdSegment, side: SideFile, number: int) -> None:
        if number < len(side.chunks) and self._running < self._limits().at_once:
            key = segment.name, number
            if key not in self.cache and key not in self._under_way and key not in self._lost:
                wanted = self._run_of_chunks(segment, side, number)
                keys = [(segment.name, each) for each in wanted]
                self._wait_for(keys, lambda: self._read_chunks(folder, segment, side, wanted))

    def _run_of_chunks(self, segment: ColdSegment, side: SideFile, number: int) -> Sequence[int]:
        """Neighbours that one request brings."""
        last, size, bytes_max = number, side.chunks[number].size, self._limits().ahead_bytes
        while last + 1 < len(side.chunks):
            key = segment.name, last + 1
            size += side.chunks[last + 1].size
            if size > bytes_max or key in self.cache or key in self._under_way:
                break
            last += 1
        return range(number, last + 1)

    def _raise_if_lost(self, key: ChunkKey) -> None:
        problem = self._lost.pop(key, None)
        if problem is not None:
            raise problem

    # Asking

    def _wait_for(
        self, keys: Sequence[ChunkKey], read: Callable[[], Coroutine[Any, Any, None]]
    ) -> NotHereYet:
        ready = self._under_way.get(keys[0])
        if ready is not None:
            return NotHereYet(ready, remote=True)
        if len(self._tasks) >= self._limits().waiting_max + self._limits().at_once:
            return NotHereYet(self._a_turn(), remote=True)
        ready = asyncio.get_running_loop().create_future()
        for key in keys:
            self._under_way[key] = ready
        task = asyncio.get_running_loop().create_task(self._run(keys, read, ready))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return NotHereYet(ready, remote=True)

    def _a_turn(self) -> asyncio.Future[None]:
        """Done when one of the many requests under way is."""
        if self._turn is None or self._turn.done():
            self._turn = asyncio.get_running_loop().create_future()
        return self._turn

    async def _run(
        self,
        keys: Sequence[ChunkKey],
        read: Callable[[], Coroutine[Any, Any, None]],
        ready: asyncio.Future[None],
    ) -> None:
        try:
            while self._running >= self._limits().at_once:
                await asyncio.wait([self._a_turn()])
            self._running += 1
            try:
                await read()
            finally:
                self._running -= 1
        except (NoSuchObject, CorruptSideFile, CorruptMessage) as problem:
            self.counters.errors += 1
            self._lose(keys, problem)
        except StoreProblem as problem:
            self.counters.errors += 1
            self._tell(problem)
            await asyncio.sleep(PAUSE_S)
        finally:
            for key in keys:
                self._under_way.pop(key, None)
            for future in (ready, self._turn):
                if future is not None and not future.done():
                    future.set_result(None)

    def _lose(self, keys: Sequence[ChunkKey], problem: Exception) -> None:
        logger.error("a remote segment cannot be read: %s", problem)
        for key in keys:
            self._lost[key] = problem
        while len(self._lost) > 1000:
            self._lost.popitem(last=False)

    def _tell(self, problem: StoreProblem) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._told_ms is None or now_ms - self._told_ms >= TELL_EVERY_MS:
            self._told_ms = now_ms
            logger.warning("reading remote segments: %s", problem)

    # Reading

    async def _read_side(self, folder: str, segment: ColdSegment) -> None:
        data = await self._store.get(f"{folder}/segments/{segment.name}.side")
        self._count(len(data))
        if crc32c(data) != segment.side_crc:
            raise CorruptSideFile(f"{folder}/segments/{segment.name}.side has another checksum")
        cost = len(data) * _OBJECTS_FOR_BYTES
        self._sides[segment.name] = side_file.decode(data), cost
        self._side_bytes += cost
        while self._side_bytes > self._limits().side_bytes and len(self._sides) > 1:
            self._side_bytes -= self._sides.popitem(last=False)[1][1]

    async def _read_chunks(
        self, folder: str, segment: ColdSegment, side: SideFile, wanted: Sequence[int]
    ) -> None:
        chunks = [side.chunks[number] for number in wanted]
        start, end = chunks[0].position, chunks[-1].position + chunks[-1].size
        await self._pace(end - start)
        name = f"{folder}/segments/{segment.name}.log"
        data = await self._store.get_range(name, start, end)
        self._count(len(data))
        for number, chunk in zip(wanted, chunks, strict=True):
            part = data[chunk.position - start : chunk.position - start + chunk.size]
            _check(name, chunk, part)
            await self.cache.put((segment.name, number), part)

    async def _pace(self, count: int) -> None:
        """Below remote.log.manager.fetch.max.bytes.per.second."""
        rate = self._limits().fetch_rate
        now_ms = self._clock.monotonic_ms()
        wait_ms = self._owed_until_ms - now_ms
        self._owed_until_ms = max(self._owed_until_ms, now_ms) + count * 1000 / rate
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)

    def _count(self, size: int) -> None:
        self.counters.requests += 1
        self.counters.bytes += size


def _check(name: str, chunk: Chunk, data: bytes) -> None:
    if len(data) != chunk.size or crc32c(data) != chunk.crc:
        raise CorruptMessage(f"{name} has other bytes at position {chunk.position} than were written")
