"""A virtual disk with encryption over it, for tests that know only the disk: all they do is done to encrypted files."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

from tidelog.storage.disk import Disk, File, Source
from tidelog.storage.encryption.data_keys import DataKeys
from tidelog.storage.encryption.decrypted_cache import DecryptedCache
from tidelog.storage.encryption.encrypting_disk import EncryptingDisk
from tidelog.storage.encryption.key_files import KeyFiles
from tidelog.testing import VirtualDisk

KEY = "file:test"


def data_keys(
    folder: str, disk: Disk, path: str = "/data", random_bytes: Callable[[int], bytes] = os.urandom
) -> DataKeys:
    """Of keys in `folder`, which has the key `test`."""
    files = KeyFiles(folder)
    if "test" not in files.names():
        files.create("test")
    disk.make_folder(path)
    keys = DataKeys({"file": files}, [(disk, path)], random_bytes)
    keys.load()
    return keys


class AnyKeys(DataKeys):
    """One data key that is always there."""

    def __init__(self, random: Random) -> None:
        from tidelog.storage.encryption.data_keys import DataKey

        super().__init__({}, [], random.randbytes)
        self.adopt(DataKey(b"i" * 16, KEY, 1, "", b"k" * 32))


class EncryptedVirtualDisk(VirtualDisk):
    def __init__(self, random: Random | None = None, capacity_bytes: int = 1 << 40) -> None:
        super().__init__(random, capacity_bytes)
        self.inner = VirtualDisk(random, capacity_bytes)
        self.inner._state = self._state
        self.keys = AnyKeys(Random(7))
        self.key = KEY
        self._encrypt()

    def _encrypt(self) -> None:
        self.encrypting = EncryptingDisk(self.inner, self.keys, lambda *_: self.key, DecryptedCache(1 << 20))

    def _restart(self) -> None:
        super()._restart()
        self._encrypt()  # another process

    def open(self, path: str, create: bool = False) -> File:  # type: ignore[override]
        return self.encrypting.open(path, create)

    def open_direct(self, path: str) -> Source:  # type: ignore[override]
        return self.encrypting.open_direct(path)

    def map(self, path: str, size: int):  # type: ignore[no-untyped-def]
        return self.inner.map(path, size)

    def size(self, path: str) -> int:
        return self.encrypting.size(path)

    def remove(self, path: str) -> None:
        self.encrypting.remove(path)

    def remove_folder(self, path: str) -> None:
        self.encrypting.remove_folder(path)

    def rename(self, old: str, new: str) -> None:
        self.encrypting.rename(old, new)

    def read_file(self, path: str) -> bytes:
        return self.encrypting.read_file(path)

    def replace_file(self, path: str, data: bytes) -> None:
        self.encrypting.replace_file(path, data)

    def lock(self, path: str):  # type: ignore[no-untyped-def]
        return self.inner.lock(path)
