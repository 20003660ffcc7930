"""Small text files that are replaced as a whole: offsets per partition, leader epochs, a partition's topic
id.

The format is Kafka's: a version, the number of entries, one entry per line.  Text in, text out: whoever owns
the file reads and replaces it through the disk.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from threading import Lock
from uuid import UUID

from tidelog.storage.disk import Disk
from tidelog.types import TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
COMMITTED = "replication-offset-checkpoint"
DAMAGED_LOGS = "damaged-logs"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

_VERSION = 0


class CorruptCheckpoint(Exception):
    """The file is not one of ours: what it held has to be found out another way."""


class OffsetFile:
    """One offset per partition of a directory.  `offsets` is in memory; `save` writes it to the disk."""

    __slots__ = ("_disk", "_lock", "_path", "_saved", "_saving", "offsets")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._lock = Lock()
        self._path = path
        self.offsets: dict[TopicPartition, int] = {}
        self._saved: dict[TopicPartition, int] = {}
        self._saving: dict[
            TopicPartition, int
        ] = {}  # may be on disk as well: another thread, or one that failed

    def load(self) -> None:
        """A missing or corrupt file knows nothing."""
        try:
            self.offsets = decode_offsets(self._disk.read_file(self._path))
        except (FileNotFoundError, CorruptCheckpoint):
            self.offsets = {}
        self._saved = self._saving = dict(self.offsets)

    def save(self) -> None:
        """Blocks; nothing when nothing changed.  Any thread may call it."""
        with self._lock:
            offsets = dict(self.offsets)
            if offsets != self._saved or offsets != self._saving:
                self._saving = offsets
                self._disk.replace_file(self._path, encode_offsets(offsets))
                self._saved = offsets

    def forget(self, name: TopicPartition) -> None:
        """Nothing is claimed for a partition that starts from nothing, not even after a crash.  Blocks, if an
        earlier one of that name left its offset on disk."""
        self.offsets.pop(name, None)
        if name in self._saved or name in self._saving:
            self.save()

    def lower(self, name: TopicPartition, offset: int) -> None:
        """From now on nothing above `offset` is claimed for the partition, not even after a crash.  Blocks."""
        if any(each.get(name, 0) > offset for each in (self.offsets, self._saved, self._saving)):
            self.offsets[name] = offset
            self.save()


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _encode(f"{name.topic} {name.partition} {offset}" for name, offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    offsets = {}
    for words in _decode(data, 3):
        offsets[TopicPartition(words[0], _number(words[1]))] = _number(words[2])
    return offsets


def encode_epochs(starts: Iterable[tuple[int, int]]) -> bytes:
    return _encode(f"{epoch} {start}" for epoch, start in starts)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    return [(_number(epoch), _number(start)) for epoch, start in _decode(data, 2)]


def encode_topic_id(topic_id: UUID) -> bytes:
    """Kafka writes ids as URL-safe base64 without padding."""
    return f"version: 0\ntopic_id: {id_text(topic_id)}\n".encode()


def decode_topic_id(data: bytes) -> UUID:
    for line in data.decode(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key == "topic_id":
            return id_of(value.strip())
    raise CorruptCheckpoint("no line 'topic_id: ...' in partition metadata")


def id_text(identity: UUID) -> str:
    return base64.urlsafe_b64encode(identity.bytes).decode().rstrip("=")


def id_of(text: str) -> UUID:
    try:
        return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except ValueError:
        raise CorruptCheckpoint(f"{text!r} is not an id: 22 characters of URL-safe base64 are") from None


def _encode(lines: Iterable[str]) -> bytes:
    body = list(lines)
    return "\n".join([str(_VERSION), str(len(body)), *body, ""]).encode()


def _decode(data: bytes, width: int) -> list[list[str]]:
    lines = data.decode(errors="replace").splitlines()
    if len(lines) < 2 or lines[0] != str(_VERSION):
        raise CorruptCheckpoint(f"expected version {_VERSION} and a count in the first two lines")
    entries = [line.split(" ") for line in lines[2:]]
    if len(entries) != _number(lines[1]) or any(len(words) != width for words in entries):
        raise CorruptCheckpoint(f"expected {lines[1]} entries of {width} words, found {len(entries)} lines")
    return entries


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CorruptCheckpoint(f"{text!r} is not a number") from None
