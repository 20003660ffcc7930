"""A folder or bucket with backups.

    tidelog-backups.json                     what this is: format, id, and the wrapped key if backups are encrypted
    unfinished/NAME.json                     a backup that was begun: its cut, its metadata, the objects it has so far
    backups/NAME.json                        a whole backup
    objects/TOPIC-ID/PARTITION/START-END-DIGEST

With a key, everything but the first file is encrypted (AES-256-GCM) and bound to its place."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import TypeVar
from uuid import uuid4

from tidelog._speed.log.encrypted_frames import AesGcm
from tidelog.backup.manifest import (
    BackupManifest,
    BackupObject,
    CorruptBackup,
    PartitionBackup,
    object_name,
)
from tidelog.errors import InvalidConfig
from tidelog.storage.encryption.key_service import KeyService, parse_key
from tidelog.storage.tiers.object_store import (
    NoSuchObject,
    ObjectExists,
    ObjectStore,
    StoreProblem,
    open_object_store,
)

T = TypeVar("T")
FORMAT = 1
ABOUT = "tidelog-backups.json"
WHOLE, UNFINISHED, OBJECTS = "backups", "unfinished", "objects"
TRIES = 6
PAUSE_S, PAUSE_S_MAX = 0.5, 15.0
_NONCE_BYTES = 12


class StoreFailed(StoreProblem):
    """The store still failed after several tries."""


class BackupRepository:
    def __init__(self, store: ObjectStore, url: str, repository_id: str, key: bytes | None) -> None:
        """Use `open`."""
        self._store = store
        self.url = url
        self.encrypted = key is not None
        self._id = repository_id
        self._cipher = None if key is None else AesGcm(key)

    @staticmethod
    async def open(
        url: str, services: Mapping[str, KeyService], *, key: str | None = None, create: bool = False
    ) -> BackupRepository:
        """`key`: the named key (file:NAME, vault:NAME) that a new repository is encrypted with.  An existing one tells its
        own."""
        store = open_object_store(url, "The place of backups")
        try:
            about = await _patiently(lambda: store.get(ABOUT))
        except NoSuchObject:
            if not create:
                raise InvalidConfig(
                    f"There are no backups at {url}: `tidelog backup create` makes one."
                ) from None
            about = _new_repository(services, key)
            try:
                await _patiently(lambda: store.create(ABOUT, about))
            except ObjectExists:
                about = await store.get(ABOUT)
        try:
            value = json.loads(about)
            known = value["format"], value["id"], value["key"], value["wrapped"]
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptBackup(f"{ABOUT} at {url} is not readable: {problem}") from None
        number, repository_id, name, wrapped = known
        if number != FORMAT:
            raise CorruptBackup(f"The backups at {url} have format {number}: use a newer version of Tidelog.")
        if key is not None and key != name:
            with_key = f"with {name}" if name else "with no key"
            raise InvalidConfig(
                f"The backups at {url} are encrypted {with_key}, not with {key}: leave the key out, or use another place."
            )
        data_key = None
        if name is not None:
            service, short = _service(services, name)
            data_key = await asyncio.to_thread(service.unwrap, short, wrapped, repository_id.encode())
        return BackupRepository(store, url, repository_id, data_key)

    # Documents

    async def names(self) -> list[str]:
        return await self._listed(WHOLE)

    async def unfinished(self) -> list[str]:
        return await self._listed(UNFINISHED)

    async def _listed(self, folder: str) -> list[str]:
        listed = await _patiently(lambda: self._store.list(folder))
        names = [each.name.rpartition("/")[2] for each in listed]
        return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))

    async def manifest(self, name: str) -> BackupManifest:
        where = f"{WHOLE}/{name}.json"
        try:
            return BackupManifest.decode(await self._read(where), f"{where} at {self.url}")
        except NoSuchObject:
            there = ", ".join(await self.names()) or "none"
            raise InvalidConfig(f"There is no backup {name!r} at {self.url}: there are {there}.") from None

    async def newest(self) -> BackupManifest | None:
        manifests = [await self.manifest(name) for name in await self.names()]
        return max(manifests, key=lambda each: each.cut_ms, default=None)

    async def journal(self, name: str) -> BackupManifest | None:
        """Of a backup that was begun and is not whole."""
        where = f"{UNFINISHED}/{name}.json"
        try:
            return BackupManifest.decode(await self._read(where), f"{where} at {self.url}")
        except NoSuchObject:
            return None

    async def save_journal(self, manifest: BackupManifest) -> None:
        where = f"{UNFINISHED}/{manifest.name}.json"
        await self._replace(where, self._sealed(where, manifest.encode()))

    async def finish(self, manifest: BackupManifest) -> None:
        """From here on the backup is there."""
        where = f"{WHOLE}/{manifest.name}.json"
        try:
            await _patiently(lambda: self._store.create(where, self._sealed(where, manifest.encode())))
        except ObjectExists:
            # A try of ours whose answer was lost, or another process with the same name.
            if (await self.manifest(manifest.name)).encode() != manifest.encode():
                raise InvalidConfig(f"A backup {manifest.name!r} already exists at {self.url}.") from None
        await self.forget_journal(manifest.name)

    async def forget_journal(self, name: str) -> None:
        await _patiently(lambda: self._store.delete([f"{UNFINISHED}/{name}.json"]))

    async def forget(self, names: list[str]) -> None:
        """The manifests; `remove_unused` removes the objects."""
        await _patiently(lambda: self._store.delete([f"{WHOLE}/{name}.json" for name in names]))

    async def remove_unused(self) -> int | None:
        """Objects that no backup has; how many.  None while a backup is unfinished: its objects are not all in its journal.

        A backup that begins meanwhile takes only objects of the newest one, and writes its journal before any object."""
        listed = {each.name for each in await _patiently(lambda: self._store.list(OBJECTS))}
        used: set[str] = set()
        for name in await self.names():
            used |= (await self.manifest(name)).object_names()
        if await self.unfinished():
            return None
        unused = sorted(listed - used)
        await _patiently(lambda: self._store.delete(unused))
        return len(unused)

    # Objects

    async def put_batches(
        self, partition: PartitionBackup, start: int, end: int, data: bytes, last_epoch: int, newest_ms: int
    ) -> BackupObject:
        place = f"{partition.folder}/{start}-{end}"
        stored = await asyncio.to_thread(self._sealed, place, data)
        digest = (await asyncio.to_thread(sha256, stored)).hexdigest()
        described = BackupObject(start, end, len(stored), len(data), digest, last_epoch, newest_ms)
        name = object_name(partition, described)
        try:
            await _patiently(lambda: self._store.create(name, stored))
        except ObjectExists:
            pass  # the same bytes: the name has their digest
        return described

    async def get_batches(self, partition: PartitionBackup, stored: BackupObject) -> bytes:
        """CorruptBackup if it is missing, or not what was written."""
        name = object_name(partition, stored)
        try:
            data = await _patiently(lambda: self._store.get(name))
        except NoSuchObject:
            raise CorruptBackup(f"{name} is missing at {self.url}") from None
        if (await asyncio.to_thread(sha256, data)).hexdigest() != stored.digest:
            raise CorruptBackup(f"{name} at {self.url} is not what was written: its checksum differs")
        return await asyncio.to_thread(self._opened, f"{partition.folder}/{stored.start}-{stored.end}", data)

    async def _replace(self, name: str, data: bytes) -> None:
        async def put() -> None:
            async def pieces() -> object:
                yield data

            await self._store.put(name, pieces())  # type: ignore[arg-type]

        await _patiently(put)

    async def _read(self, name: str) -> bytes:
        return self._opened(name, await _patiently(lambda: self._store.get(name)))

    def _sealed(self, place: str, data: bytes) -> bytes:
        if self._cipher is None:
            return data
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.seal(nonce, data, self._bound_to(place))

    def _opened(self, place: str, data: bytes) -> bytes:
        if self._cipher is None:
            return data
        plain = self._cipher.open(data[:_NONCE_BYTES], data[_NONCE_BYTES:], self._bound_to(place))
        if plain is None:
            raise CorruptBackup(f"{place} at {self.url} does not open with the key of these backups")
        return plain

    def _bound_to(self, place: str) -> bytes:
        return f"tidelog backup {self._id} {place}".encode()


def _new_repository(services: Mapping[str, KeyService], key: str | None) -> bytes:
    repository_id, wrapped = uuid4().hex, None
    if key is not None:
        service, short = _service(services, key)
        _, wrapped = service.wrap(short, os.urandom(32), repository_id.encode())
    return json.dumps({"format": FORMAT, "id": repository_id, "key": key, "wrapped": wrapped}).encode()


def _service(services: Mapping[str, KeyService], name: str) -> tuple[KeyService, str]:
    kind, short = parse_key(name)
    if kind not in services:
        options = "--keys-dir DIR" if kind == "file" else "--vault URL and --vault-token-file FILE"
        raise InvalidConfig(f"These backups are encrypted with {name}: give {options}.")
    return services[kind], short


async def _patiently(request: Callable[[], Awaitable[T]]) -> T:
    """Again after a pause while the store fails: it may be throttling."""
    pause_s = PAUSE_S
    for _ in range(TRIES - 1):
        try:
            return await request()
        except (NoSuchObject, ObjectExists):
            raise
        except StoreProblem:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
    try:
        return await request()
    except (NoSuchObject, ObjectExists):
        raise
    except StoreProblem as problem:
        raise StoreFailed(f"{problem} ({TRIES} tries)") from None
