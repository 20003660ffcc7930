"""Keys in files: `<folder>/<name>.json` has all versions of one key.  Readable by its owner alone, or it is not used.

For one machine, and for machines that get the folder from a configuration management or a secret store."""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Callable

from tidelog._speed.log.encrypted_frames import AesGcm
from tidelog.storage.encryption.key_service import KeyGone, KeyUnavailable

SUFFIX = ".json"
_KEY_BYTES = 32
_NONCE_BYTES = 12


class KeyFiles:
    local = True

    def __init__(self, folder: str, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._folder = folder
        self._random_bytes = random_bytes

    def newest_version(self, name: str) -> int:
        return max(self._versions(name))

    def wrap(self, name: str, plain: bytes, context: bytes) -> tuple[int, str]:
        versions = self._versions(name)
        version, nonce = max(versions), self._random_bytes(_NONCE_BYTES)
        sealed = nonce + AesGcm(versions[version]).seal(nonce, plain, _associated(name, version, context))
        return version, f"file:v{version}:{base64.b64encode(sealed).decode()}"

    def unwrap(self, name: str, wrapped: str, context: bytes) -> bytes:
        versions = self._versions(name)
        try:
            kind, number, text = wrapped.split(":")
            version, sealed = int(number.removeprefix("v")), base64.b64decode(text, validate=True)
            if kind != "file":
                raise ValueError
        except ValueError:
            raise KeyUnavailable(f"a data key of file:{name} is not readable: {wrapped[:24]!r}") from None
        if version not in versions:
            raise KeyGone(f"key file:{name} has no version {version} any more")
        plain = AesGcm(versions[version]).open(
            sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _associated(name, version, context)
        )
        if plain is None:
            raise KeyUnavailable(
                f"key file:{name} in {self._folder} does not open a data key that was wrapped with a key of this name: "
                f"put the right key file back"
            )
        return plain

    def create(self, name: str) -> None:
        path = self._path(name)
        if os.path.exists(path):
            raise KeyUnavailable(f"key file:{name} already exists in {self._folder}")
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._write(path, {1: self._random_bytes(_KEY_BYTES)})

    def rotate(self, name: str) -> int:
        versions = self._versions(name)
        version = max(versions) + 1
        self._write(self._path(name), versions | {version: self._random_bytes(_KEY_BYTES)})
        return version

    def delete(self, name: str) -> None:
        """Overwritten before it is removed; what the file system or the disk keeps of old blocks is out of reach."""
        path = self._path(name)
        self._versions(name)
        with open(path, "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            file.write(self._random_bytes(size))
            file.flush()
            os.fsync(file.fileno())
        os.unlink(path)
        _sync_folder(self._folder)

    def names(self) -> list[str]:
        try:
            entries = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return sorted(entry.removesuffix(SUFFIX) for entry in entries if entry.endswith(SUFFIX))

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}{SUFFIX}"

    def _versions(self, name: str) -> dict[int, bytes]:
        path = self._path(name)
        try:
            with open(path, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if stat.S_IMODE(mode) & 0o077:
                    raise KeyUnavailable(f"{path} can be read by others: chmod 600 {path}")
                versions = {
                    int(version): base64.b64decode(key)
                    for version, key in json.load(file)["versions"].items()
                }
        except FileNotFoundError:
            if not os.path.isdir(self._folder):
                raise KeyUnavailable(
                    f"the folder of keys {self._folder} is not there: mount or restore it"
                ) from None
            raise KeyGone(f"there is no key file:{name} in {self._folder}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise KeyUnavailable(f"{path} is not a readable key file: restore it from a backup") from None
        except KeyUnavailable:
            raise
        except OSError as problem:
            raise KeyUnavailable(
                f"{path} cannot be read ({problem.strerror}): make it readable for the broker"
            ) from None
        if not versions or any(len(key) != _KEY_BYTES for key in versions.values()):
            raise KeyUnavailable(f"{path} is not a readable key file: restore it from a backup")
        return versions

    def _write(self, path: str, versions: dict[int, bytes]) -> None:
        plain = {str(version): base64.b64encode(key).decode() for version, key in versions.items()}
        fresh = f"{path}.tmp"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps({"versions": plain}).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
        _sync_folder(self._folder)


def _associated(name: str, version: int, context: bytes) -> bytes:
    return f"tidelog key {name} {version}\0".encode() + context


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
