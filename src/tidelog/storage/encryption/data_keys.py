"""The data keys of one broker: random, wrapped with a named key, kept in `encryption-keys` of every log directory.

Files are encrypted with keys derived from a data key, so there are few data keys: one for each version of each named key.
`current` and `find` never wait for a network.  A thread calls `refresh` repeatedly: it unwraps data keys, notices new
versions, wraps older data keys with them, and forgets the keys that were deleted."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tidelog.storage.disk import Disk
from tidelog.storage.encryption.key_service import KeyGone, KeyService, KeyUnavailable, parse_key

DATA_KEYS = "encryption-keys"
_COPY = DATA_KEYS + ".copy"
_ID_BYTES = 16
_KEY_BYTES = 32

logger = logging.getLogger("tidelog.encryption")


@dataclass(slots=True)
class DataKey:
    id: bytes
    key_name: str
    """As in `encryption.key`."""
    version: int
    """The version of the key that wraps this data key."""
    wrapped: str
    plain: bytes | None = None
    problem: str = "it is not read yet"
    """Why `plain` is not here."""

    def secret(self) -> bytes:
        if self.plain is None:
            raise KeyUnavailable(f"a data key of {self.key_name} is not available: {self.problem}")
        return self.plain

    @property
    def context(self) -> bytes:
        """What it is bound to where it is wrapped."""
        return b"tidelog data key " + self.id

    def lose(self, problem: str) -> None:
        self.plain, self.problem = None, problem


class DataKeys:
    def __init__(
        self,
        services: Mapping[str, KeyService],
        places: Sequence[tuple[Disk, str]],
        random_bytes: Callable[[int], bytes],
        read_only: bool = False,
    ) -> None:
        """`services`: by the word before the colon.  `places`: the log directories, and the disks beneath encryption."""
        self.keys: dict[bytes, DataKey] = {}
        self.random_bytes = random_bytes
        self._read_only = read_only  # for tools beside a broker that runs: it alone changes what is kept
        self._services = dict(services)
        self._places = list(places)
        self._newest: dict[str, int] = {}
        self._wanted: dict[str, str] = {}  # names without a data key of the newest version, and why
        self._told: dict[str, str] = {}
        self._lock = threading.RLock()

    # At hand

    def find(self, id: bytes) -> DataKey:
        key = self.keys.get(id)
        if key is None:
            raise KeyUnavailable(
                f"data key {id.hex()} is in no {DATA_KEYS} of this broker's log directories: restore that file"
            )
        return key

    def current(self, name: str) -> DataKey:
        """The one to encrypt new files with."""
        newest = self._newest.get(name)
        for key in reversed(list(self.keys.values())):
            if key.key_name == name and key.version == newest and key.plain is not None:
                return key
        why = self._wanted.setdefault(name, "it is asked for now")
        if self._service(name).local:
            with self._lock:
                return self._make_current(name)
        raise KeyUnavailable(f"key {name} is not available: {why}")

    def adopt(self, key: DataKey) -> None:
        """A key that somebody else unwrapped."""
        self.keys[key.id] = key
        self._newest[key.key_name] = key.version

    @property
    def wanting(self) -> bool:
        """Something waits for `refresh`."""
        return bool(self._wanted) or any(key.plain is None for key in list(self.keys.values()))

    # Blocking

    def load(self) -> None:
        """What the log directories have, and what of it can be unwrapped now.  A directory that has less gets the rest."""
        by_directory = self.read()
        if not self._read_only and any(len(each) != len(self.keys) for each in by_directory):
            self._save()
        self.refresh()

    def read(self) -> list[dict[bytes, DataKey]]:
        """What the log directories have; all of it is in `keys` then."""
        by_directory: list[dict[bytes, DataKey]] = []
        for disk, folder in list(self._places):
            try:
                by_directory.append(_read(disk, folder))
            except OSError as problem:
                # What cannot be read is not written over: it may be all there is of a key.
                logger.error("%s/%s cannot be read: %s", folder, DATA_KEYS, problem)
                self._places.remove((disk, folder))
        for each in by_directory:
            for id, key in each.items():
                present = self.keys.get(id)
                if present is None or present.version < key.version:
                    self.keys[id] = key
        return by_directory

    def refresh(self) -> None:
        with self._lock:
            names = dict.fromkeys([*(key.key_name for key in self.keys.values()), *self._wanted])
            for name in names:
                try:
                    self._refresh(name)
                except KeyGone as problem:
                    self._gone(name, str(problem))
                except OSError as problem:
                    self._unavailable(name, str(problem))
                else:
                    if self._told.pop(name, None) is not None:
                        logger.warning("key %s is available again", name)

    def _refresh(self, name: str) -> None:
        service = self._service(name)
        short = parse_key(name)[1]
        for key in self.of(name):
            if key.plain is None:
                key.plain = _checked(service.unwrap(short, key.wrapped, key.context), name)
        if self._read_only:
            return
        self._newest[name] = newest = service.newest_version(short)
        if any(key.version == newest for key in self.of(name)) and name not in self._wanted:
            return
        outdated = [key for key in self.of(name) if key.version < newest]
        if outdated or name in self._wanted:
            self._make_current(name)
        for key in outdated:
            key.version, key.wrapped = service.wrap(short, key.secret(), key.context)
        if outdated:
            self._save()

    def _make_current(self, name: str) -> DataKey:
        service, short = self._service(name), parse_key(name)[1]
        id, plain = self.random_bytes(_ID_BYTES), self.random_bytes(_KEY_BYTES)
        key = DataKey(id, name, 0, "", plain)
        key.version, key.wrapped = service.wrap(short, plain, key.context)
        self.keys[id] = key
        try:
            self._save()  # before anything is encrypted with it
        except OSError:
            del self.keys[id]
            raise
        self._newest[name] = key.version
        self._wanted.pop(name, None)
        return key

    def of(self, name: str) -> list[DataKey]:
        return [key for key in list(self.keys.values()) if key.key_name == name]

    def _gone(self, name: str, problem: str) -> None:
        self._newest.pop(name, None)
        if name in self._wanted:
            self._wanted[name] = problem
        lost = [key for key in self.of(name) if key.plain is not None or key.problem != problem]
        for key in lost:
            key.lose(problem)
        if self._told.get(name) != problem:
            self._told[name] = problem
            logger.error("Data encrypted with %s can no longer be read: %s", name, problem)

    def _unavailable(self, name: str, problem: str) -> None:
        """Keys that are here stay in use: only new ones cannot be had."""
        if name in self._wanted:
            self._wanted[name] = problem
        for key in self.of(name):
            if key.plain is None:
                key.problem = problem
        if self._told.get(name) != problem:
            self._told[name] = problem
            logger.error("key %s is not available: %s", name, problem)

    def _service(self, name: str) -> KeyService:
        kind = parse_key(name)[0]
        service = self._services.get(kind)
        if service is None:
            setting = "encryption.file.keys.dir" if kind == "file" else "encryption.vault.url"
            raise KeyUnavailable(
                f"this broker has no keys of the kind {kind!r}, which {name} is: set {setting}"
            )
        return service

    def _save(self) -> None:
        data = encode(self.keys.values())
        problem: OSError | None = None
        saved = 0
        for disk, folder in self._places:
            try:
                for name in (DATA_KEYS, _COPY):
                    disk.replace_file(f"{folder}/{name}", data)
                saved += 1
            except OSError as failure:
                problem = failure
                logger.error("%s/%s cannot be written: %s", folder, DATA_KEYS, failure)
        if not saved:
            raise problem or KeyUnavailable(
                f"no log directory has a {DATA_KEYS} that can be written: restore one"
            )


def _checked(plain: bytes, name: str) -> bytes:
    if len(plain) != _KEY_BYTES:
        raise KeyUnavailable(f"{name} opened a data key to {len(plain)} bytes, and it must have {_KEY_BYTES}")
    return plain


def encode(keys: Iterable[DataKey]) -> bytes:
    entries = [
        {"id": key.id.hex(), "key": key.key_name, "version": key.version, "wrapped": key.wrapped}
        for key in keys
    ]
    text = json.dumps({"version": 1, "data_keys": entries}, indent=1).encode()
    return sha256(text).hexdigest().encode() + b"\n" + text + b"\n"


def decode(data: bytes) -> dict[bytes, DataKey]:
    """ValueError when it is not what was encoded."""
    check, _, text = data.partition(b"\n")
    if sha256(text.removesuffix(b"\n")).hexdigest().encode() != check:
        raise ValueError("its checksum is wrong")
    plain: dict[str, Any] = json.loads(text)
    if plain.get("version") != 1:
        raise ValueError(f"it has version {plain.get('version')!r}")
    entries = plain["data_keys"]
    keys = [
        DataKey(bytes.fromhex(each["id"]), each["key"], each["version"], each["wrapped"]) for each in entries
    ]
    return {key.id: key for key in keys}


def _read(disk: Disk, folder: str) -> dict[bytes, DataKey]:
    """From either copy.  KeyUnavailable when there are some and neither is whole."""
    problem: ValueError | None = None
    for name in (DATA_KEYS, _COPY):
        path = f"{folder}/{name}"
        if disk.exists(path):
            try:
                return decode(disk.read_file(path))
            except (ValueError, KeyError, TypeError) as damage:
                problem = ValueError(f"{path} is damaged ({damage})")
                logger.error("%s", problem)
    if problem is not None:
        raise KeyUnavailable(f"{problem}, and so is its copy: restore either from a backup")
    return {}
