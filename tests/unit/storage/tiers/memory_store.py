"""An object store in memory whose requests can be made to fail, to wait, and to show old listings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from tidelog.storage.tiers.object_store import NoSuchObject, ObjectExists, StoredObject, StoreProblem


class MemoryStore:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.fails: Callable[[str, str], bool] = lambda kind, name: False
        """Before anything is done."""
        self.loses_answer: Callable[[str, str], bool] = lambda kind, name: False
        """After all is done."""
        self.before: Callable[[str, str], None] = lambda kind, name: None
        self.gate: asyncio.Event | None = None
        """Requests wait for it."""
        self.unlisted: set[str] = set()

    async def _asked(self, kind: str, name: str) -> None:
        self.requests.append((kind, name))
        await asyncio.sleep(0)
        if self.gate is not None:
            await self.gate.wait()
        self.before(kind, name)
        if self.fails(kind, name):
            raise StoreProblem(f"cannot {kind} {name}")

    def _answered(self, kind: str, name: str) -> None:
        if self.loses_answer(kind, name):
            raise StoreProblem(f"no answer to {kind} {name}")

    async def get(self, name: str) -> bytes:
        await self._asked("get", name)
        if name not in self.objects:
            raise NoSuchObject(name)
        return self.objects[name]

    async def get_range(self, name: str, start: int, end: int) -> bytes:
        await self._asked("get_range", name)
        if name not in self.objects:
            raise NoSuchObject(name)
        return self.objects[name][start:end]

    async def size(self, name: str) -> int:
        await self._asked("size", name)
        if name not in self.objects:
            raise NoSuchObject(name)
        return len(self.objects[name])

    async def create(self, name: str, data: bytes) -> None:
        await self._asked("create", name)
        if name in self.objects:
            raise ObjectExists(name)
        self.objects[name] = data
        self._answered("create", name)

    async def put(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        await self._asked("put", name)
        data = b"".join([piece async for piece in pieces])
        self.objects[name] = data
        self._answered("put", name)

    async def list(self, prefix: str) -> list[StoredObject]:
        await self._asked("list", prefix)
        return [
            StoredObject(name, len(data))
            for name, data in self.objects.items()
            if name.startswith(prefix) and name not in self.unlisted
        ]

    async def delete(self, names: Sequence[str]) -> None:
        for name in names:
            await self._asked("delete", name)
            self.objects.pop(name, None)

    async def remove_unfinished(self, prefix: str) -> None:
        await self._asked("remove_unfinished", prefix)

    def counted(self, kind: str) -> int:
        return sum(each == kind for each, _ in self.requests)
