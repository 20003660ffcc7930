"""What a backup says of itself: the cut it was taken at, the metadata, and the objects that hold each partition.  Pure.

A backup is whole when its manifest is there.  Objects are never changed, and several backups share those whose records
they have in common."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID

from tidelog.errors import InvalidConfig, TidelogError
from tidelog.types import TopicPartition

FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class CorruptBackup(TidelogError):
    """An object of a backup is missing, or is not what was written."""


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidConfig(
            f"A backup cannot be called {name!r}: use up to 128 letters, digits, '.', '_' and '-', a letter or digit first."
        )


@dataclass(frozen=True, slots=True)
class BackupObject:
    """Whole batches of one partition from `start` to before `end`.  `size`: as stored; `batch_bytes`: of the batches."""

    start: int
    end: int
    size: int
    batch_bytes: int
    digest: str
    """SHA-256 of what is stored."""
    last_epoch: int
    """The leader epoch of the last batch."""
    newest_ms: int
    """The newest timestamp."""


@dataclass(frozen=True, slots=True)
class PartitionBackup:
    """`start` and `end`: of the log as clients saw it at the cut.  The first object may begin before `start`: with the whole
    batch that holds it, or with records that were compacted or deleted since an earlier backup."""

    topic: str
    topic_id: str
    index: int
    start: int
    end: int
    objects: tuple[BackupObject, ...] = ()

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)

    @property
    def folder(self) -> str:
        return object_folder(self.topic_id, self.index)

    @property
    def copied_end(self) -> int:
        return self.objects[-1].end if self.objects else self.start

    @property
    def batch_bytes(self) -> int:
        return sum(each.batch_bytes for each in self.objects)


def object_folder(topic_id: str, index: int) -> str:
    return f"objects/{topic_id}/{index}"


def object_name(partition: PartitionBackup, stored: BackupObject) -> str:
    return f"{partition.folder}/{stored.start:020d}-{stored.end:020d}-{stored.digest[:32]}"


@dataclass(frozen=True, slots=True)
class BackupManifest:
    name: str
    cluster_id: str
    cut_ms: int
    """The moment of the cut, by the clock of the machine that took the backup."""
    clock_difference_ms: int
    """How far the clocks of the brokers were apart; their hold was longer, or the backup would not have been taken."""
    partitions: tuple[PartitionBackup, ...]
    metadata: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    """The entries of the metadata store."""

    @property
    def batch_bytes(self) -> int:
        return sum(partition.batch_bytes for partition in self.partitions)

    @property
    def topics(self) -> list[str]:
        return sorted({partition.topic for partition in self.partitions})

    def object_names(self) -> set[str]:
        return {object_name(partition, each) for partition in self.partitions for each in partition.objects}

    def with_partition(self, partition: PartitionBackup) -> BackupManifest:
        return replace(
            self,
            partitions=tuple(partition if each.name == partition.name else each for each in self.partitions),
        )

    def encode(self) -> bytes:
        value = {
            "format": FORMAT,
            "name": self.name,
            "cluster_id": self.cluster_id,
            "cut_ms": self.cut_ms,
            "clock_difference_ms": self.clock_difference_ms,
            "metadata": [[key, base64.b64encode(data).decode()] for key, data in self.metadata],
            "partitions": [asdict(partition) for partition in self.partitions],
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes, where: str) -> BackupManifest:
        try:
            value: dict[str, Any] = json.loads(data)
            if value["format"] != FORMAT:
                raise CorruptBackup(
                    f"{where} has format {value['format']}, and this version of Tidelog reads {FORMAT}: use a newer version"
                )
            partitions = tuple(
                PartitionBackup(
                    **{**each, "objects": tuple(BackupObject(**stored) for stored in each["objects"])}
                )
                for each in value["partitions"]
            )
            return BackupManifest(
                value["name"],
                value["cluster_id"],
                value["cut_ms"],
                value["clock_difference_ms"],
                partitions,
                tuple((key, base64.b64decode(text)) for key, text in value["metadata"]),
            )
        except (ValueError, KeyError, TypeError) as problem:
            raise CorruptBackup(f"{where} is not the manifest of a backup: {problem}") from None


def reusable(
    before: PartitionBackup | None,
    topic_id: UUID,
    start: int,
    end: int,
    epochs: Sequence[tuple[int, int]],
    small_bytes: int,
) -> tuple[BackupObject, ...]:
    """The objects of an earlier backup that hold what the log has now: of the same topic, not below its start, and not past
    a point where an unclean election has replaced records.  A last object of less than `small_bytes` is left out: it is read
    again together with what follows, so that many small backups do not end as many small objects."""
    if before is None or before.topic_id != topic_id.hex:
        return ()
    kept = [each for each in before.objects if each.end > start and each.end <= end]
    if not kept or kept[0].start > start:
        return ()
    while kept and _epoch_at(epochs, kept[-1].end - 1) not in (None, kept[-1].last_epoch):
        kept.pop()
    if kept and kept[-1].end < end and kept[-1].batch_bytes < small_bytes and kept[-1].start >= start:
        kept.pop()
    return tuple(kept)


def _epoch_at(epochs: Sequence[tuple[int, int]], offset: int) -> int | None:
    below = [epoch for epoch, start in epochs if start <= offset]
    return below[-1] if below else None
