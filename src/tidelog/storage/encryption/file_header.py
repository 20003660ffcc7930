"""The first 1024 bytes of an encrypted file: which data key it has, and a salt.  Twice, for one copy may rot.

`place_of` says which files of a partition's folder hold data: logs, indexes of aborted transactions, snapshots of
producers, and what `tidelog log repair` sets aside.  Pure.  Used by `encrypting_disk` and `encrypted_file`."""

from __future__ import annotations

import hmac
import os
import re
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from tidelog._speed.log.encrypted_frames import FILE_HEADER
from tidelog.storage.dirs import folders

MAGIC = b"TLGENC\x01\n"
SALT_BYTES = 32
_COPY_BYTES = FILE_HEADER // 2
_FIELDS_BYTES = len(MAGIC) + 16 + SALT_BYTES + 16
_DATA_FILE = re.compile(r"(\d{20})\.(?:(log|txnindex|snapshot)(?:\..+)?|\d+\.(rotten)(?:\.tmp)?)")


class FileHeader(NamedTuple):
    data_key: bytes
    """The id of the key."""
    salt: bytes
    topic_id: bytes
    """16 bytes; zeros where it was not known."""

    def encode(self) -> bytes:
        fields = MAGIC + self.data_key + self.salt + self.topic_id
        copy = (fields + crc32(fields).to_bytes(4)).ljust(_COPY_BYTES, b"\0")
        return copy + copy


def decode(data: bytes) -> FileHeader | None:
    """None when neither copy is whole."""
    for start in (0, _COPY_BYTES):
        fields = data[start : start + _FIELDS_BYTES]
        check = data[start + _FIELDS_BYTES : start + _FIELDS_BYTES + 4]
        if fields.startswith(MAGIC) and check == crc32(fields).to_bytes(4):
            return FileHeader(fields[8:24], fields[24:56], fields[56:72])
    return None


def is_encrypted(data: bytes) -> bool:
    """Whether a file that begins so is an encrypted one, sound or not."""
    return MAGIC in (data[:8], data[_COPY_BYTES : _COPY_BYTES + 8])


class FilePlace(NamedTuple):
    """What a file belongs to, by its path: the same through all renames of the file and of its folder."""

    topic: str
    partition: int
    base: int
    kind: str

    def bound(self, topic_id: bytes) -> bytes:
        """What the file's key is bound to."""
        where = self.partition.to_bytes(4, signed=True) + self.base.to_bytes(8)
        return topic_id + where + self.kind.encode()


def place_of(path: str) -> FilePlace | None:
    """None for a file that holds no data of clients."""
    match = _DATA_FILE.fullmatch(os.path.basename(path))
    if match is None:
        return None
    folder = folders.parse(os.path.basename(os.path.dirname(path)))
    topic, partition = ("", -1) if folder is None else folder.name
    return FilePlace(topic, partition, int(match[1]), match[2] or match[3])


def file_key(data_key: bytes, header: FileHeader, place: FilePlace, topic_id: UUID | None) -> bytes:
    """`topic_id`: of the folder that the file is in; the header's where the folder has lost it."""
    id_bytes = header.topic_id if topic_id is None else topic_id.bytes
    return hmac.digest(data_key, b"tidelog file 1\0" + header.salt + place.bound(id_bytes), "sha256")


def session_key(key: bytes, session: bytes) -> bytes:
    return hmac.digest(key, b"tidelog session 1\0" + session, "sha256")
