"""Chunks of cold segments on the broker's disk, in files of their own; the one not read for longest goes first.

Bounded in bytes.  What the last run left is removed at the start: the cache holds nothing that the object store does
not.  A full disk costs the cache and not the read: the chunk stays in memory for the few reads that follow."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.storage.disk import Disk, File
from tidelog.storage.fetched_log import CachedFile

logger = logging.getLogger("tidelog.tiers")

FOLDER = "remote-cache"
IN_MEMORY_MAX = 16

ChunkKey = tuple[str, int]  # name of the segment, number of the chunk


class ChunkInMemory:
    """Bytes as a file that is only read."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read(self, size: int, position: int) -> bytes:
        return self._data[position : position + size]

    def send(self, socket: Any, position: int, size: int) -> int:
        sent: int = socket.send(memoryview(self._data)[position : position + size])
        return sent


class ChunkCache:
    def __init__(self, disk: Disk, folder: str, bytes_max: Callable[[], int]) -> None:
        self.size = 0
        self.hits = self.misses = 0
        self._disk = disk
        self._folder = folder
        self._bytes_max = bytes_max
        self._files: OrderedDict[ChunkKey, tuple[CachedFile, int]] = OrderedDict()
        self._in_memory = 0
        self._next = 0
        self._ready = False

    async def start(self) -> None:
        await self._disk.run(self._clear)
        self._ready = True

    def _clear(self) -> None:
        try:
            if self._disk.exists(self._folder):
                self._disk.remove_folder(self._folder)
            self._disk.make_folder(self._folder)
        except OSError as problem:
            logger.warning("the cache of remote segments cannot be cleared: %s", problem)

    def __contains__(self, key: ChunkKey) -> bool:
        return key in self._files

    def get(self, key: ChunkKey) -> CachedFile | None:
        entry = self._files.get(key)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        self._files.move_to_end(key)
        return entry[0]

    async def put(self, key: ChunkKey, data: bytes) -> None:
        self._next += 1
        path = f"{self._folder}/{self._next}"
        file: CachedFile
        try:
            file = await self._disk.run(partial(self._write, path, data))
        except OSError as problem:
            logger.warning("a chunk of a remote segment is not cached: %s", problem)
            file = ChunkInMemory(path, data)
        self._keep(key, file, len(data))
        gone = self._take_surplus()
        if gone:
            await self._disk.run(lambda: self._remove(gone))

    def _write(self, path: str, data: bytes) -> File:
        if not self._ready:
            self._disk.make_folder(self._folder)
        file = self._disk.open(path, create=True)
        try:
            file.write(data, 0)
        except OSError:
            self._disk.remove(path)
            raise
        return file

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._disk.remove(path)

    def _keep(self, key: ChunkKey, file: CachedFile, size: int) -> None:
        self._drop(key)
        self._files[key] = file, size
        self.size += size
        self._in_memory += isinstance(file, ChunkInMemory)

    def _drop(self, key: ChunkKey) -> str | None:
        file, size = self._files.pop(key, (None, 0))
        if file is None:
            return None
        self.size -= size
        self._in_memory -= isinstance(file, ChunkInMemory)
        return None if isinstance(file, ChunkInMemory) else file.path

    def _take_surplus(self) -> list[str]:
        """The paths of the files that have to go; the newest chunk stays, however small the bound."""
        gone = []
        while len(self._files) > 1 and (self.size > self._bytes_max() or self._in_memory > IN_MEMORY_MAX):
            path = self._drop(next(iter(self._files)))
            if path is not None:
                gone.append(path)
        return gone
