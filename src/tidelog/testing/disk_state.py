"""The state of a simulated disk below its file-system calls: names, bytes, space, planned faults, and its current life.

A life ends with a crash or a kill; handles of an earlier life raise `Crashed`.  Every change passes through `_step`, so a
crash can be planned in the middle of any change."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import Literal, TypeVar

from tidelog.testing.file_content import FileChange, FileContent, FileResize, FileWrite
from tidelog.testing.folder_tree import FolderTree

T = TypeVar("T")

Operation = Literal["open", "read", "write", "resize", "sync", "name"]


class Crashed(BaseException):
    """The simulated machine or process is dead.  Not an `Exception`, so that code under test cannot survive its own death by
    catching it."""


@dataclass(slots=True)
class Fault:
    operation: Operation
    pattern: str
    code: int
    times: int


@dataclass(frozen=True, slots=True)
class CrashPoint:
    operation: int
    power: bool
    then: Callable[[], None]


class DiskState:
    def __init__(self, random: Random, capacity_bytes: int) -> None:
        self.random = random
        self.names = FolderTree()
        self.life = 0
        self.operations = 0
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.used_bytes_max: int | None = None
        self.faults: list[Fault] = []
        self.crash_point: CrashPoint | None = None
        self._dead = False

    def check(self, life: int) -> None:
        if self._dead or life != self.life:
            raise Crashed(
                "The machine or process that used this disk is dead: its files have to be opened again"
            )

    def fence(self) -> None:
        self._dead = True
        self.crash_point = None

    def begin_life(self) -> None:
        self.life += 1
        self._dead = False
        self.crash_point = None
        before = self.used_bytes
        self.used_bytes = sum(len(content.live) for content in self.names.files())
        if self.used_bytes_max is not None:
            self.used_bytes_max += self.used_bytes - before

    def room(self) -> int:
        limit = self.capacity_bytes if self.used_bytes_max is None else self.used_bytes_max
        return max(0, min(limit, self.capacity_bytes) - self.used_bytes)

    def meet_fault(self, operation: Operation, path: str) -> None:
        for fault in self.faults:
            if fault.operation == operation and fnmatchcase(path, fault.pattern):
                fault.times -= 1
                if fault.times <= 0:
                    self.faults.remove(fault)
                raise _problem(fault.code, path)

    def write(self, path: str, content: FileContent, data: bytes, position: int) -> None:
        crash = self._step("write", path)
        if crash and not crash.power:
            data = data[: self.random.randrange(len(data) + 1)]
        grown = max(0, position + len(data) - len(content.live))
        missing = max(0, grown - self.room())
        self._change(content, FileWrite(position, data[: max(0, len(data) - missing)]))
        if crash:
            self._strike(crash)
        if missing:
            raise _problem(errno.ENOSPC, path)

    def resize(self, path: str, content: FileContent, size: int) -> None:
        crash = self._step("resize", path)
        if size - len(content.live) > self.room():
            raise _problem(errno.ENOSPC, path)
        if crash is None or self.random.random() < 0.5:
            self._change(content, FileResize(size))
        if crash:
            self._strike(crash)

    def sync(self, path: str, content: FileContent) -> None:
        try:
            crash = self._step("sync", path)
        except OSError:
            content.sync_failed()
            raise
        if crash:
            self._strike(crash)
        content.sync()

    def sync_names(self, folder: str) -> None:
        self.names.folder(folder)
        crash = self._step("sync", folder)
        if crash:
            self._strike(crash)
        self.names.sync(folder)

    def sync_all(self, path: str) -> None:
        crash = self._step("sync", path)
        if crash:
            self._strike(crash)
        for content in self.names.files():
            content.sync()
        self.names.sync_all()

    def change_names(self, path: str, change: Callable[[], T]) -> T:
        crash = self._step("name", path)
        if crash:
            if self.random.random() < 0.5:
                change()
            self._strike(crash)
        return change()

    def replace_folder(self, path: str) -> None:
        """An empty folder takes the place of `path`, durably."""
        for content in self.names.empty(path):
            self.released(content)

    def released(self, content: FileContent) -> None:
        """The file's last name is removed; the space that open handles still hold is not counted."""
        self.used_bytes -= len(content.live)

    def _change(self, content: FileContent, change: FileChange) -> None:
        before = len(content.live)
        content.change(change)
        self.used_bytes += len(content.live) - before

    def _step(self, operation: Operation, path: str) -> CrashPoint | None:
        """Counts one change; returns the crash that is planned for the middle of it."""
        self.operations += 1
        self.meet_fault(operation, path)
        if self.crash_point and self.crash_point.operation <= self.operations:
            return self.crash_point
        return None

    def _strike(self, crash: CrashPoint) -> None:
        self.fence()
        crash.then()
        raise Crashed(f"The machine crashed at operation {self.operations} on this disk, as planned")


def _problem(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
