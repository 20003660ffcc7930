"""Without trouble, the simulated disk and the machine's own answer every sequence of calls alike."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tidelog.storage.disk import Disk, SystemDisk
from tidelog.testing import VirtualDisk

NAMES = st.sampled_from(["a", "b", "f", "f/a", "f/b", "f/g", "f/g/a", "h"])
SIZES = st.integers(0, 60)


class BothDisks(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="disk-")
        self.system, self.virtual = SystemDisk(), VirtualDisk()
        self.virtual.make_folder(self.root)

    def teardown(self) -> None:
        self.system.close()
        shutil.rmtree(self.root)

    def alike(self, call: Callable[[Disk], Any]) -> None:
        answers = []
        for disk in (self.system, self.virtual):
            try:
                answers.append(call(disk))
            except OSError as problem:
                answers.append(problem.errno)
        assert answers[0] == answers[1]

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    @rule(name=NAMES, create=st.booleans(), data=st.binary(max_size=40), position=SIZES, sync=st.booleans())
    def write(self, name: str, create: bool, data: bytes, position: int, sync: bool) -> None:
        def call(disk: Disk) -> int:
            file = disk.open(self.path(name), create)
            file.write(data, position)
            if sync:
                file.sync()
            return file.size()

        self.alike(call)

    @rule(name=NAMES, size=SIZES, position=SIZES)
    def read(self, name: str, size: int, position: int) -> None:
        self.alike(lambda disk: disk.open(self.path(name)).read(size, position))

    @rule(name=NAMES, size=SIZES, allocate=st.booleans())
    def resize(self, name: str, size: int, allocate: bool) -> None:
        def call(disk: Disk) -> None:
            file = disk.open(self.path(name))
            if allocate and size:
                file.allocate(size)
            else:
                file.truncate(size)

        self.alike(call)

    @rule(name=NAMES, size=st.integers(1, 60), data=st.binary(min_size=1, max_size=1))
    def map(self, name: str, size: int, data: bytes) -> None:
        def call(disk: Disk) -> bytes:
            mapping = disk.map(self.path(name), size)
            mapping.view[size // 2 : size // 2 + 1] = data
            mapping.sync()
            seen = bytes(mapping.view)
            mapping.close()
            return seen

        self.alike(call)

    @rule(old=NAMES, new=NAMES)
    def rename(self, old: str, new: str) -> None:
        # Moving a folder into itself is EINVAL on every system; the simulated disk need not check that.
        if not new.startswith(old + "/") and not old.startswith(new + "/"):
            self.alike(lambda disk: disk.rename(self.path(old), self.path(new)))

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        self.alike(lambda disk: disk.remove(self.path(name)))

    @rule(name=NAMES)
    def remove_folder(self, name: str) -> None:
        self.alike(lambda disk: disk.remove_folder(self.path(name)))

    @rule(name=NAMES)
    def make_folder(self, name: str) -> None:
        self.alike(lambda disk: disk.make_folder(self.path(name)))

    @rule(name=NAMES, data=st.binary(max_size=40))
    def replace_file(self, name: str, data: bytes) -> None:
        self.alike(lambda disk: disk.replace_file(self.path(name), data))

    @rule(name=NAMES)
    def look(self, name: str) -> None:
        self.alike(lambda disk: disk.exists(self.path(name)))
        self.alike(lambda disk: sorted(disk.list(self.path(name))))
        self.alike(lambda disk: disk.sync_folder(self.path(name)))
        with contextlib.suppress(IsADirectoryError):  # a folder's own size means nothing here
            self.virtual.exists(self.path(name)) and self.virtual.open(self.path(name))
            self.alike(lambda disk: disk.size(self.path(name)))
            self.alike(lambda disk: disk.read_file(self.path(name)))


TestBothDisks = BothDisks.TestCase
TestBothDisks.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
