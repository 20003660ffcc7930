"""The keys that a compaction worker needs: those of the segments it reads, and the one for what it writes, and no others.

They go to the worker through its standard input, in plain."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from tidelog.storage.disk import Disk
from tidelog.storage.encryption.data_keys import DataKey, DataKeys
from tidelog.storage.encryption.decrypted_cache import WINDOW, DecryptedCache
from tidelog.storage.encryption.encrypting_disk import EncryptingDisk
from tidelog.storage.encryption.key_service import NONE

_NEW, _OLD = "file:new", "file:old"
_CACHE_BYTES = 8 * WINDOW


def keys_for_worker(disk: Disk, logs: Iterable[str], fresh: str) -> tuple[dict[str, str], str]:
    """The data keys of the files `logs`, by id, and the id of the key for the file `fresh`; empty without encryption."""
    if not isinstance(disk, EncryptingDisk):
        return {}, ""
    keys = [key for path in logs if (key := disk.data_key_of(path)) is not None]
    new = disk.new_data_key(fresh)
    if new is not None:
        keys.append(new)
    return {key.id.hex(): key.secret().hex() for key in keys}, "" if new is None else new.id.hex()


def disk_for_worker(inner: Disk, plain_keys: Mapping[str, str], new: str) -> Disk:
    """`inner`, with what `keys_for_worker` gave."""
    if not plain_keys:
        return inner
    keys = DataKeys({}, [], os.urandom)
    for id, plain in plain_keys.items():
        name = _NEW if id == new else _OLD
        keys.adopt(DataKey(bytes.fromhex(id), name, 1, "", bytes.fromhex(plain)))
    return EncryptingDisk(
        inner, keys, lambda topic, topic_id: _NEW if new else NONE, DecryptedCache(_CACHE_BYTES)
    )
