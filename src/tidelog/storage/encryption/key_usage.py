"""Which keys the files of a log directory are encrypted with, and how much of each topic is plain.

From the headers of files alone: no key is needed, and a broker may run meanwhile.  Blocks.  For `tidelog keys`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from tidelog._speed.log.encrypted_frames import FILE_HEADER
from tidelog.storage.dirs import folders
from tidelog.storage.disk import Disk
from tidelog.storage.encryption import file_header
from tidelog.storage.encryption.data_keys import DataKeys

PLAIN = "none"
LOST = "unknown"


class FileUsage(NamedTuple):
    topic: str
    partition: int
    path: str
    size: int
    key_name: str
    """As in `encryption.key`; `unknown` where `encryption-keys` does not have the data key."""
    version: int
    """The version of the key that wraps the file's data key; 0 for a file without a data key."""


def files_of(disk: Disk, log_dir: str, keys: DataKeys) -> Iterator[FileUsage]:
    """Every file with data of clients in the directory, deleted ones that are still there included."""
    for name in sorted(disk.list(log_dir)):
        folder = folders.parse(name)
        if folder is None:
            continue
        try:
            names = sorted(disk.list(f"{log_dir}/{name}"))
        except (FileNotFoundError, NotADirectoryError):
            continue  # deleted meanwhile
        for path in (f"{log_dir}/{name}/{each}" for each in names):
            if file_header.place_of(path) is not None:
                try:
                    yield FileUsage(*folder.name, path, disk.size(path), *_key_of(disk, path, keys))
                except FileNotFoundError:
                    continue


def _key_of(disk: Disk, path: str, keys: DataKeys) -> tuple[str, int]:
    head = disk.open(path).read(FILE_HEADER, 0)
    if not file_header.is_encrypted(head):
        return PLAIN, 0
    header = file_header.decode(head)
    key = None if header is None else keys.keys.get(header.data_key)
    return (LOST, 0) if key is None else (key.key_name, key.version)


def key_of_log(disk: Disk, folder: str, keys: DataKeys) -> str:
    """What the newest file of a log is encrypted with: for tools that write files of a broker that is stopped."""
    logs = sorted(name for name in disk.list(folder) if name.endswith(".log"))
    return _key_of(disk, os.path.join(folder, logs[-1]), keys)[0] if logs else PLAIN
