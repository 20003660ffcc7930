"""The disk seam: every byte that storage keeps passes through a `Disk`.

`SystemDisk` is the machine's file system.  `tidelog.testing` has one in memory that loses and tears unsynced writes when
it crashes.  After a crash these are certain: bytes of a file up to its last `sync`, and names in a folder up to its last
`sync_folder`; anything later may be present, missing, or torn.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import mmap
import os
import socket as sockets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from tidelog._speed.log.append import Descriptor

T = TypeVar("T")

# Of one disk: a group commit, of which there is one at a time, takes up to eight, and does not wait for a long sync or
# a recovery.
THREADS = 9
COPIED_BYTES = 64 << 10  # at a time, to a stream that sendfile must not be used on


class File(Protocol):
    """An open file.  It closes when the last reference goes, so a slice on its way out keeps it readable."""

    path: str

    def size(self) -> int: ...
    def write(self, data: Any, position: int) -> None:
        """All of `data` at `position`, or OSError (then any part of it may have been written)."""
        ...

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def send(self, socket: Any, position: int, size: int) -> int:
        """Bytes moved to a non-blocking socket without passing through Python where the system can do
        that."""
        ...

    def truncate(self, size: int) -> None: ...
    def allocate(self, size: int) -> None:
        """Reserve blocks so that later writes below `size` cannot run out of space."""
        ...

    def sync(self) -> None: ...


class Mapping(Protocol):
    """A shared, writable window on a file: `view` is its bytes."""

    view: memoryview

    def sync(self) -> None: ...
    def close(self) -> None: ...


class Lock(Protocol):
    """Held until `close` or the end of the process."""

    def close(self) -> None: ...


class ReadableFile(Protocol):
    """A file that is only read."""

    path: str

    def size(self) -> int: ...
    def read(self, size: int, position: int) -> bytes: ...


class Disk(Protocol):
    def open(self, path: str, create: bool = False) -> File: ...
    def open_direct(self, path: str) -> ReadableFile:
        """For reading what the device has, not what memory remembers of it, where the system can do that.  Leaves
        the page cache as it is."""
        ...

    def map(self, path: str, size: int) -> Mapping:
        """Creates or resizes the file to `size`, with its blocks reserved: a write to it never meets a full
        disk."""
        ...

    def exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def list(self, folder: str) -> list[str]: ...
    def make_folder(self, path: str) -> None:
        """With its parents; no error when it is there."""
        ...

    def remove(self, path: str) -> None:
        """A file; no error when it is gone already."""
        ...

    def remove_folder(self, path: str) -> None:
        """With all that is in it."""
        ...

    def rename(self, old: str, new: str) -> None: ...
    def sync_folder(self, path: str) -> None: ...
    def sync_all(self, path: str) -> None:
        """All bytes and names written so far on the file system that holds `path`: cheaper than one by one when
        there are many."""
        ...

    def read_file(self, path: str) -> bytes: ...
    def replace_file(self, path: str, data: bytes) -> None:
        """Atomic and durable: after a crash the file has either its old or its new content."""
        ...

    def free_bytes(self, path: str) -> tuple[int, int]:
        """(total, usable) of the file system that holds `path`."""
        ...

    def lock(self, path: str) -> Lock:
        """Exclusive, on a file made for it; BlockingIOError when another process holds it."""
        ...

    def boot_id(self) -> str:
        """Names this run of the machine.  While it stays the same nothing that was written is lost, synced or
        not; empty where the system does not tell."""
        ...

    async def run(self, work: Callable[[], T]) -> T:
        """`work` away from the event loop: for syncs, recovery, anything that blocks.  Pieces may run at the
        same time: who needs an order waits for the first before he asks for the second."""
        ...

    def close(self) -> None: ...


class SystemFile(Descriptor):
    __slots__ = ("path",)

    def __init__(self, path: str, flags: int) -> None:
        self._fd = -1
        self.path = path
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def write(self, data: Any, position: int) -> None:
        written = os.pwrite(self._fd, data, position)
        if written != len(data):
            view = memoryview(data).cast("B")
            while written < len(view):
                written += os.pwrite(self._fd, view[written:], position + written)

    def read(self, size: int, position: int) -> bytes:
        return os.pread(self._fd, size, position)

    def send(self, socket: Any, position: int, size: int) -> int:
        if type(socket) is sockets.socket:
            return os.sendfile(socket.fileno(), self._fd, position, size)
        # A stream that encrypts has the descriptor of the socket beneath: sendfile would send the bytes as they are.
        sent: int = socket.send(os.pread(self._fd, min(size, COPIED_BYTES), position))
        return sent

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def allocate(self, size: int) -> None:
        os.posix_fallocate(self._fd, 0, size)

    def sync(self) -> None:
        os.fdatasync(self._fd)


_ALIGNED = 4096


class DirectFile:
    """Read past the page cache (O_DIRECT), in aligned pieces.  Where the file system cannot do that, through the cache."""

    __slots__ = ("_buffer", "_fd", "path")

    def __init__(self, path: str) -> None:
        self._fd = -1
        self.path = path
        self._buffer: mmap.mmap | None = None
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        except OSError as problem:
            if problem.errno != errno.EINVAL:
                raise
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read(self, size: int, position: int) -> bytes:
        start = position & -_ALIGNED
        length = (position + size - start + _ALIGNED - 1) & -_ALIGNED
        if self._buffer is None or len(self._buffer) < length:
            self._buffer = mmap.mmap(-1, length)
        with memoryview(self._buffer) as view, view[:length] as target:
            count = os.preadv(self._fd, [target], start)
            return bytes(target[position - start : min(count, position - start + size)])


class SystemMapping:
    __slots__ = ("_map", "view")

    def __init__(self, path: str, size: int) -> None:
        file = SystemFile(path, os.O_RDWR | os.O_CREAT)
        if file.size() > size:
            file.truncate(size)
        file.allocate(size)
        self._map = mmap.mmap(file.fileno(), size)
        self.view = memoryview(self._map)

    def sync(self) -> None:
        self._map.flush()

    def close(self) -> None:
        self.view.release()
        self._map.close()


class SystemLock:
    __slots__ = ("_fd",)

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(self._fd)
            raise

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class SystemDisk:
    """One per log directory, so that a slow disk's threads hold up nobody else's."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="disk")

    def open(self, path: str, create: bool = False) -> SystemFile:
        return SystemFile(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR)

    def open_direct(self, path: str) -> DirectFile:
        return DirectFile(path)

    def map(self, path: str, size: int) -> SystemMapping:
        return SystemMapping(path, size)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list(self, folder: str) -> list[str]:
        return os.listdir(folder)

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_folder(self, path: str) -> None:
        import shutil

        shutil.rmtree(path, ignore_errors=False)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def sync_folder(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: str) -> None:
        import ctypes

        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            library = ctypes.CDLL(None, use_errno=True)
            if not hasattr(library, "syncfs"):
                os.sync()
            elif library.syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), path)
        finally:
            os.close(fd)

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace_file(self, path: str, data: bytes) -> None:
        fresh = path + ".tmp"
        with open(fresh, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
        self.sync_folder(os.path.dirname(path))

    def free_bytes(self, path: str) -> tuple[int, int]:
        facts = os.statvfs(path)
        # As `df` has it: what is kept for root is no part of what can be used.
        usable = facts.f_blocks - facts.f_bfree + facts.f_bavail
        return usable * facts.f_frsize, facts.f_bavail * facts.f_frsize

    def lock(self, path: str) -> SystemLock:
        return SystemLock(path)

    def boot_id(self) -> str:
        try:
            return self.read_file("/proc/sys/kernel/random/boot_id").decode().strip()
        except OSError:
            return ""

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        self._threads.shutdown(wait=True)
