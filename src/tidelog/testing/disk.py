"""A disk in memory that loses what was not synced: `tidelog.storage.disk.Disk` for simulated machines.

`crash` is a power loss: every unsynced write is kept, lost or torn, unsynced name changes are undone, and the disk continues
as after a reboot.  `kill` ends the process and keeps the machine: everything written stays.  Either can be planned for a
chosen operation (`crash_after`), and operations can be made to fail (`fail`, `limit_free`).  The same seed and the same
calls give the same bytes."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.storage.disk import THREADS
from tidelog.testing.disk_state import CrashPoint, DiskState, Fault, Operation
from tidelog.testing.file_content import FileContent
from tidelog.testing.folder_tree import VirtualFolder

T = TypeVar("T")

CAPACITY_BYTES = 1 << 40


class VirtualFile:
    __slots__ = ("_content", "_life", "_state", "path")

    def __init__(self, disk_state: DiskState, path: str, content: FileContent) -> None:
        self.path = path
        self._state = disk_state
        self._life = disk_state.life
        self._content = content

    def size(self) -> int:
        self._state.check(self._life)
        return len(self._content.live)

    def write(self, data: Any, position: int) -> None:
        self._state.check(self._life)
        self._state.write(self.path, self._content, bytes(data), position)

    def read(self, size: int, position: int) -> bytes:
        self._state.check(self._life)
        self._state.meet_fault("read", self.path)
        return bytes(self._content.live[position : position + size])

    def send(self, socket: Any, position: int, size: int) -> int:
        sent: int = socket.send(self.read(size, position))
        return sent

    def truncate(self, size: int) -> None:
        self._state.check(self._life)
        self._state.resize(self.path, self._content, size)

    def allocate(self, size: int) -> None:
        self._state.check(self._life)
        if size > len(self._content.live):
            self._state.resize(self.path, self._content, size)

    def sync(self) -> None:
        self._state.check(self._life)
        self._state.sync(self.path, self._content)


class VirtualMapping:
    __slots__ = ("_content", "_life", "_live", "_path", "_state", "view")

    def __init__(self, disk_state: DiskState, path: str, content: FileContent) -> None:
        content.mapped()
        self.view = memoryview(content.live)
        self._live = content.live
        self._state = disk_state
        self._life = disk_state.life
        self._path = path
        self._content: FileContent | None = content

    def sync(self) -> None:
        self._state.check(self._life)
        if self._content is None or self._content.live is not self._live:
            raise RuntimeError(
                f"{self._path}: synced a mapping that is closed or whose file was resized since"
            )
        self._state.sync(self._path, self._content)

    def close(self) -> None:
        self.view.release()
        if self._content is not None and self._content.live is self._live:
            self._content.mappings -= 1
        self._content = None


class _Worker:
    """Starts work in order, several pieces at a time, as the threads of a real disk do, on the loop's clock.  The effect of
    a piece happens at one instant, at a random point of the time it takes."""

    def __init__(self, random: Random) -> None:
        self.delay_s_max = 0.0
        self._random = random
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._busy = 0

    async def run(self, work: Callable[[], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, done))
        self._begin()
        return await done

    def _begin(self) -> None:
        while self._waiting and self._busy < THREADS:
            work, done = self._waiting.popleft()
            if not done.cancelled():
                self._busy += 1
                self._later(self._perform, work, done)

    def _perform(self, work: Callable[[], T], done: asyncio.Future[T]) -> None:
        try:
            outcome = work()
        except BaseException as problem:
            self._later(self._finish, done, done.set_exception, problem)
        else:
            self._later(self._finish, done, done.set_result, outcome)

    def _finish(self, done: asyncio.Future[T], tell: Callable[[Any], None], outcome: Any) -> None:
        if not done.cancelled():
            tell(outcome)
        self._busy -= 1
        self._begin()

    def _later(self, callback: Callable[..., None], *args: Any) -> None:
        asyncio.get_running_loop().call_later(self.delay_s_max * self._random.random(), callback, *args)


class VirtualLock:
    __slots__ = ("_life", "_locked", "_path", "_state")

    def __init__(self, disk_state: DiskState, path: str, locked: set[str]) -> None:
        if path in locked:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        locked.add(path)
        self._state = disk_state
        self._life = disk_state.life
        self._path = path
        self._locked = locked

    def close(self) -> None:
        if self._life == self._state.life:
            self._locked.discard(self._path)


class VirtualDisk:
    """`random`: decides what survives and how long work takes."""

    def __init__(self, random: Random | None = None, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self.random = random or Random(0)
        self._boots = 0
        self._locked: set[str] = set()
        self.run_delay_s_max = 0.0
        self._state = DiskState(self.random, capacity_bytes)
        self._worker = _Worker(self.random)

    # Faults, for tests.

    def crash(self, random: Random | None = None) -> None:
        """Power loss and reboot: what was synced is kept; of the rest, a random part is."""
        self._state.names.power_lost(random or self.random)
        self._boots += 1
        self._restart()

    def kill(self) -> None:
        """The process ended and the machine stayed up: everything written is kept, but is not more durable than before."""
        for content in self._state.names.files():
            content.detach()
        self._restart()

    def fence(self) -> None:
        """Ends the disk's current life: its users get `Crashed` until `crash` or `kill` starts the next life."""
        self._state.fence()

    def crash_after(
        self, operations: int, power: bool = True, then: Callable[[], None] | None = None
    ) -> None:
        """Plans a crash: the `operations`-th change from now on (1 is the next) does not return.  The change may have
        happened in part, calls `then`, and raises `Crashed`, as do all later calls until `crash` or `kill` starts the next
        life."""
        struck = self._state.operations + operations
        self._state.crash_point = CrashPoint(struck, power, then or (lambda: None))

    @property
    def operations(self) -> int:
        """The number of changes so far: a test can run once, read it, and run again with a crash at each change."""
        return self._state.operations

    def fail(self, operation: Operation, pattern: str = "*", code: int = errno.EIO, times: int = 1) -> None:
        """Makes the next `times` operations of this kind on a path like `pattern` raise OSError(code).  A sync that succeeds
        later does not write the bytes whose sync failed, as on Linux."""
        self._state.faults.append(Fault(operation, pattern, code, times))

    def limit_free(self, free_bytes: int | None) -> None:
        """Limits by how much all files together can grow from now on; beyond that ENOSPC; None lifts the limit."""
        disk_state = self._state
        disk_state.used_bytes_max = None if free_bytes is None else disk_state.used_bytes + free_bytes

    def heal(self) -> None:
        """Removes all faults, the limit on free space and the planned crash."""
        self._state.faults.clear()
        self._state.used_bytes_max = None
        self._state.crash_point = None

    def rot(self, path: str, position: int | None = None, data: bytes | None = None) -> int:
        """Damages a file, durably and for readers: changes one byte, at a random place or at `position`, or writes `data`
        there; returns the position."""
        content = self._state.names.file(path)
        if position is None:
            position = self.random.randrange(len(content.live))
        if data is None:
            data = bytes([content.live[position] ^ self.random.randrange(1, 256)])
        content.damage(position, data)
        return position

    def files(self, folder: str = "") -> dict[str, bytes]:
        """All files that exist now below `folder`, by path."""
        files = self._state.names.walk()
        return {path: bytes(content.live) for path, content in files if path.startswith(f"{folder}/")}

    def _restart(self) -> None:
        self._state.begin_life()
        self._worker = _Worker(self.random)
        self._locked.clear()

    # The methods of `tidelog.storage.disk.Disk`.

    def open(self, path: str, create: bool = False) -> VirtualFile:
        self._state.check(self._state.life)
        self._state.meet_fault("open", path)
        names = self._state.names
        if create and names.find(path) is None:
            names.parent(path)
            self._state.change_names(path, lambda: names.link(path, FileContent()))
        return VirtualFile(self._state, path, names.file(path))

    open_direct = open

    def map(self, path: str, size: int) -> VirtualMapping:
        if size <= 0:
            raise ValueError(f"cannot map {size} bytes of {path}")
        file = self.open(path, create=True)
        if file.size() != size:
            file.truncate(size)
        return VirtualMapping(self._state, path, self._state.names.file(path))

    def exists(self, path: str) -> bool:
        self._state.check(self._state.life)
        return self._state.names.find(path) is not None

    def size(self, path: str) -> int:
        self._state.check(self._state.life)
        return len(self._state.names.file(path).live)

    def list(self, folder: str) -> list[str]:
        self._state.check(self._state.life)
        names = sorted(self._state.names.folder(folder).names)
        self.random.shuffle(names)  # a file system promises no order
        return names

    def make_folder(self, path: str) -> None:
        self._state.check(self._state.life)
        names = self._state.names
        for missing in names.missing_folders(path):
            self._state.change_names(missing, lambda made=missing: names.link(made, VirtualFolder()))  # type: ignore[misc]

    def remove(self, path: str) -> None:
        self._state.check(self._state.life)
        names = self._state.names
        try:
            content = names.file(path)
        except FileNotFoundError:
            return
        self._state.change_names(path, lambda: names.unlink(path))
        self._state.released(content)

    def remove_folder(self, path: str) -> None:
        self._state.check(self._state.life)
        names = self._state.names
        for name, node in [*names.folder(path).names.items()]:
            if isinstance(node, VirtualFolder):
                self.remove_folder(f"{path}/{name}")
            else:
                self.remove(f"{path}/{name}")
        self._state.change_names(path, lambda: names.unlink(path))

    def rename(self, old: str, new: str) -> None:
        self._state.check(self._state.life)
        replaced = self._state.change_names(old, lambda: self._state.names.rename(old, new))
        if isinstance(replaced, FileContent):
            self._state.released(replaced)

    def sync_folder(self, path: str) -> None:
        self._state.check(self._state.life)
        self._state.sync_names(path)

    def sync_all(self, path: str) -> None:
        self._state.check(self._state.life)
        self._state.sync_all(path)

    def read_file(self, path: str) -> bytes:
        file = self.open(path)
        return file.read(file.size(), 0)

    def replace_file(self, path: str, data: bytes) -> None:
        """Replaces a file in the same steps as the system's disk, so that a crash can happen between them."""
        fresh = path + ".tmp"
        file = self.open(fresh, create=True)
        file.truncate(0)
        file.write(data, 0)
        file.sync()
        self.rename(fresh, path)
        self.sync_folder(os.path.dirname(path))

    def free_bytes(self, path: str) -> tuple[int, int]:
        if not self.exists(path):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._state.capacity_bytes, self._state.room()

    def lock(self, path: str) -> VirtualLock:
        return VirtualLock(self._state, self.open(path, create=True).path, self._locked)

    def boot_id(self) -> str:
        """The id of the boot: the same after `kill`, another one after `crash`."""
        return f"boot-{self._boots}"

    async def run(self, work: Callable[[], T]) -> T:
        """Takes up to twice `run_delay_s_max` on the loop's clock."""
        self._state.check(self._state.life)
        self._worker.delay_s_max = self.run_delay_s_max
        return await self._worker.run(work)

    def close(self) -> None:
        pass


if TYPE_CHECKING:
    from tidelog.storage.disk import Disk

    _SEAM: type[Disk] = VirtualDisk


def successor(disk: VirtualDisk) -> VirtualDisk:
    """A new, empty disk for the same machine, which boots with it."""
    fresh = VirtualDisk(disk.random, disk._state.capacity_bytes)
    fresh._boots = disk._boots + 1
    fresh.run_delay_s_max = disk.run_delay_s_max
    fresh.fence()
    return fresh
