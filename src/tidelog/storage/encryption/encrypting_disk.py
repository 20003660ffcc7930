"""A disk that encrypts the files of topics that ask for it: `tidelog.storage.disk.Disk` over another one.

Files that hold data of clients (`file_header.place_of`) are encrypted from their first byte on, or not at all: whether, is
decided when one is made, by the topic's `encryption.key`.  What is read says itself that it is encrypted, so old and new
segments lie side by side.  All other files pass through: indexes by offset and time, checkpoints, `partition.metadata`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from tidelog._speed.log.encrypted_frames import FILE_HEADER
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import CorruptCheckpoint
from tidelog.storage.disk import Disk, File, Lock, Mapping, ReadableFile
from tidelog.storage.encryption import file_header
from tidelog.storage.encryption.data_keys import DataKey, DataKeys
from tidelog.storage.encryption.decrypted_cache import DecryptedCache
from tidelog.storage.encryption.encrypted_file import EncryptedFile, EncryptedSource
from tidelog.storage.encryption.file_header import SALT_BYTES, FileHeader, FilePlace
from tidelog.storage.encryption.key_service import NONE

T = TypeVar("T")

TopicKey = Callable[[str, UUID | None], str]
"""`encryption.key` of a topic: by its name, and by its id where the folder says it."""
_LOG = "log"


class BoundKey:
    """The key of one file."""

    __slots__ = ("_data_key", "_header", "_place", "_topic_id")

    def __init__(
        self, data_key: DataKey, header: FileHeader, place: FilePlace, topic_id: UUID | None
    ) -> None:
        self._data_key = data_key
        self._header = header
        self._place = place
        self._topic_id = topic_id

    def check(self) -> None:
        if self._data_key.plain is None:
            self._data_key.secret()

    def session(self, session: bytes) -> bytes:
        key = file_header.file_key(self._data_key.secret(), self._header, self._place, self._topic_id)
        return file_header.session_key(key, session)


class MissingKey:
    """Stands for the data key of a file, if this broker does not have the key."""

    def __init__(self, keys: DataKeys, id: bytes) -> None:
        self._keys = keys
        self._id = id

    def check(self) -> None:
        self._keys.find(self._id)

    def session(self, session: bytes) -> bytes:
        return self._keys.find(self._id).secret()


class LostHeader:
    """Stands for the data key of a file that has no whole copy of its header: all of the file reads as damaged."""

    def check(self) -> None:
        pass

    def session(self, session: bytes) -> bytes:
        return file_header.session_key(b"", session)


class EncryptingDisk:
    def __init__(self, inner: Disk, keys: DataKeys, topic_key: TopicKey, cache: DecryptedCache) -> None:
        self.inner = inner
        self._keys = keys
        self._topic_key = topic_key
        self._cache = cache
        self._files: WeakValueDictionary[str, EncryptedFile] = WeakValueDictionary()
        self._lock = threading.RLock()  # one object for each file, whoever opens it

    # Files

    def open(self, path: str, create: bool = False) -> File:
        place = file_header.place_of(path)
        if place is None:
            return self.inner.open(path, create)
        with self._lock:
            return self._files.get(path) or self._open(path, place, create)

    def _open(self, path: str, place: FilePlace, create: bool) -> File:
        inner = self.inner.open(path, create)
        size = inner.size()
        head = inner.read(FILE_HEADER, 0) if size else b""
        encrypted = file_header.is_encrypted(head)
        header = file_header.decode(head) if encrypted else None
        if size == 0 or (encrypted and header is None and size <= FILE_HEADER):
            return self._begin(inner, path, place)
        if not encrypted:
            if create and place.kind != _LOG and self._wanted(path, place) != NONE:
                # Small files are written anew as a whole: a plain one from before goes.
                inner.truncate(0)
                return self._begin(inner, path, place)
            return inner
        return self._shared(inner, path, place, header)

    def _begin(self, inner: File, path: str, place: FilePlace) -> File:
        """An empty file gets a header if its topic asks for encryption."""
        name = self._wanted(path, place)
        if name == NONE:
            return inner
        header = self._new_header(name, path)
        inner.write(header.encode(), 0)
        return self._shared(inner, path, place, header)

    def _wanted(self, path: str, place: FilePlace) -> str:
        return self._topic_key(place.topic, self._topic_id(path))

    def _new_header(self, name: str, path: str) -> FileHeader:
        topic_id = self._topic_id(path)
        salt = self._keys.random_bytes(SALT_BYTES)
        return FileHeader(
            self._keys.current(name).id, salt, bytes(16) if topic_id is None else topic_id.bytes
        )

    def _shared(self, inner: File, path: str, place: FilePlace, header: FileHeader | None) -> EncryptedFile:
        key = self._key(path, place, header)
        file = EncryptedFile(inner, key, place.kind == _LOG, self._cache, self._keys.random_bytes)
        self._files[path] = file
        return file

    def _key(
        self, path: str, place: FilePlace, header: FileHeader | None
    ) -> BoundKey | MissingKey | LostHeader:
        if header is None:
            return LostHeader()
        data_key = self._keys.keys.get(header.data_key)
        if data_key is None:
            return MissingKey(self._keys, header.data_key)
        return BoundKey(data_key, header, place, self._topic_id(path))

    def _topic_id(self, path: str) -> UUID | None:
        try:
            data = self.inner.read_file(f"{os.path.dirname(path)}/{checkpoints.PARTITION_METADATA}")
            return checkpoints.decode_topic_id(data)
        except (FileNotFoundError, NotADirectoryError, CorruptCheckpoint):
            return None

    def take_rotten(self) -> list[str]:
        """The folders of files in which readers met rotten bytes since the last time."""
        with self._lock:
            files = [file for file in self._files.values() if file.found_rotten]
        for file in files:
            file.found_rotten = False
        return [os.path.dirname(file.path) for file in files]

    def data_key_of(self, path: str) -> DataKey | None:
        """What the file is encrypted with; None: nothing."""
        header = file_header.decode(self.inner.open(path).read(FILE_HEADER, 0))
        return None if header is None else self._keys.find(header.data_key)

    def new_data_key(self, path: str) -> DataKey | None:
        """What a new file of this path would be encrypted with."""
        place = file_header.place_of(path)
        name = NONE if place is None else self._wanted(path, place)
        return None if name == NONE else self._keys.current(name)

    def open_direct(self, path: str) -> ReadableFile:
        inner, place = self.inner.open_direct(path), file_header.place_of(path)
        if place is None:
            return inner
        head = inner.read(FILE_HEADER, 0)
        if not file_header.is_encrypted(head):
            return inner
        return EncryptedSource(inner, self._key(path, place, file_header.decode(head)))

    def size(self, path: str) -> int:
        size = self.inner.size(path)
        if size == 0 or file_header.place_of(path) is None:
            return size
        file = self._files.get(path)
        if file is None and not self._keys.keys:
            return size
        return self.open(path).size() if file is None else file.size()

    def read_file(self, path: str) -> bytes:
        if file_header.place_of(path) is None:
            return self.inner.read_file(path)
        file = self.open(path)
        return file.read(file.size(), 0)

    def replace_file(self, path: str, data: bytes) -> None:
        place = file_header.place_of(path)
        with self._lock:
            self._files.pop(path, None)
        name = NONE if place is None else self._wanted(path, place)
        if place is None or name == NONE:
            self.inner.replace_file(path, data)
            return
        image = MemoryFile(path)
        header = self._new_header(name, path)
        image.write(header.encode(), 0)
        key = self._key(path, place, header)
        EncryptedFile(image, key, False, self._cache, self._keys.random_bytes).write(data, 0)
        self.inner.replace_file(path, bytes(image.data))

    def map(self, path: str, size: int) -> Mapping:
        return self.inner.map(path, size)

    # Names

    def rename(self, old: str, new: str) -> None:
        with self._lock:
            self.inner.rename(old, new)
            self._files.pop(new, None)
            for path in list(self._files):
                if path == old or path.startswith(f"{old}/"):
                    file = self._files.pop(path, None)
                    if file is not None:
                        file.path = new + path[len(old) :]
                        self._files[file.path] = file

    def remove(self, path: str) -> None:
        with self._lock:
            self._files.pop(path, None)
            self.inner.remove(path)

    def remove_folder(self, path: str) -> None:
        with self._lock:
            for held in list(self._files):
                if held.startswith(f"{path}/"):
                    self._files.pop(held, None)
        self.inner.remove_folder(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def list(self, folder: str) -> list[str]:
        return self.inner.list(folder)

    def make_folder(self, path: str) -> None:
        self.inner.make_folder(path)

    def sync_folder(self, path: str) -> None:
        self.inner.sync_folder(path)

    def sync_all(self, path: str) -> None:
        self.inner.sync_all(path)

    # The rest

    def free_bytes(self, path: str) -> tuple[int, int]:
        return self.inner.free_bytes(path)

    def lock(self, path: str) -> Lock:
        return self.inner.lock(path)

    def boot_id(self) -> str:
        return self.inner.boot_id()

    async def run(self, work: Callable[[], T]) -> T:
        return await self.inner.run(work)

    def close(self) -> None:
        self.inner.close()


class MemoryFile:
    """The bytes of a file that is to be written as a whole."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.data = bytearray()

    def size(self) -> int:
        return len(self.data)

    def write(self, data: Any, position: int) -> None:
        self.data[position : position + len(data)] = data

    def read(self, size: int, position: int) -> bytes:
        return bytes(self.data[position : position + size])

    def send(self, socket: Any, position: int, size: int) -> int:
        raise NotImplementedError("it is never sent")

    def truncate(self, size: int) -> None:
        del self.data[size:]

    def allocate(self, size: int) -> None:
        pass

    def sync(self) -> None:
        pass
