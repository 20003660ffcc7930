"""What of a partition is in the object store: its copied segments, and the objects that are to be deleted.  Pure.

A partition has a chain of manifests, each a whole one under the next number.  A manifest is created under a number that
nobody has used yet, so of two brokers that go on from one manifest only one does: the other reads what was written and
thinks again.  The segments of a manifest are neighbours: each starts where the one before ends."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from uuid import UUID

FORMAT = 1


class NotNeighbours(Exception):
    """Another leader has copied meanwhile."""


class CorruptManifest(Exception):
    """The object is not a manifest that this version reads."""


@dataclass(frozen=True, slots=True)
class ColdSegment:
    """A copied segment: the object `<name>.log`, and `<name>.side` with what belongs to it."""

    start: int
    end: int
    name: str
    size: int
    max_timestamp: int
    side_size: int
    side_crc: int
    last_epoch: int
    """The leader epoch of the last record."""


@dataclass(frozen=True, slots=True)
class Manifest:
    topic: str
    topic_id: str
    partition: int
    number: int = 0
    leader_epoch: int = -1
    """The epoch of the leader that wrote the manifest: no older leader may write a manifest after it."""
    log_start: int = 0
    """Records below are deleted."""
    segments: tuple[ColdSegment, ...] = ()
    deleting: tuple[str, ...] = ()
    """Names of segments whose objects are not needed any more."""
    diverged: tuple[str, ...] = ()
    """Names of segments with records that an unclean election discarded: kept for whoever wants to look for them."""

    @property
    def end(self) -> int | None:
        """Past the last record that is copied; None when none is."""
        return self.segments[-1].end if self.segments else None

    @property
    def start(self) -> int | None:
        return self.segments[0].start if self.segments else None

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def holding(self, offset: int) -> int | None:
        """The number of the segment that `offset` falls in."""
        at = bisect_right(self.segments, offset, key=lambda segment: segment.start) - 1
        return at if at >= 0 and offset < self.segments[at].end else None

    def with_copied(self, segment: ColdSegment) -> Manifest:
        if self.end is not None and segment.start != self.end:
            raise NotNeighbours(f"a copy from offset {segment.start} does not follow those up to {self.end}")
        return replace(self, segments=(*self.segments, segment))

    def without_first(self, count: int) -> Manifest:
        gone = tuple(segment.name for segment in self.segments[:count])
        return replace(self, segments=self.segments[count:], deleting=(*self.deleting, *gone))

    def without_diverged(self, count: int) -> Manifest:
        keep = len(self.segments) - count
        gone = tuple(segment.name for segment in self.segments[keep:])
        return replace(self, segments=self.segments[:keep], diverged=(*self.diverged, *gone))

    @property
    def names(self) -> frozenset[str]:
        """The names of all segments whose objects this manifest lists."""
        return frozenset((*(segment.name for segment in self.segments), *self.deleting, *self.diverged))

    def without_deleted(self, names: Sequence[str]) -> Manifest:
        return replace(self, deleting=tuple(name for name in self.deleting if name not in names))

    def following(self, leader_epoch: int, log_start: int) -> Manifest:
        """As the next one of the chain, which a leader of this epoch writes."""
        return replace(
            self, number=self.number + 1, leader_epoch=leader_epoch, log_start=max(self.log_start, log_start)
        )

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")).encode()


def decode(data: bytes) -> Manifest:
    try:
        fields = json.loads(data)
        if fields.pop("format") != FORMAT:
            raise CorruptManifest("it is of another version")
        segments = tuple(ColdSegment(**each) for each in fields.pop("segments"))
        return Manifest(
            **fields
            | {
                "segments": segments,
                "deleting": tuple(fields["deleting"]),
                "diverged": tuple(fields["diverged"]),
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CorruptManifest(str(problem)) from None


def partition_folder(cluster: str, topic: str, topic_id: UUID, partition: int) -> str:
    return f"{cluster}/topics/{topic}/{topic_id}/{partition}"


def manifest_name(folder: str, number: int) -> str:
    return f"{folder}/manifests/{number:020d}.json"


def manifest_number(name: str) -> int | None:
    stem = name.rpartition("/")[2].removesuffix(".json")
    return int(stem) if len(stem) == 20 and stem.isdigit() else None


def segment_name(start: int, end: int, leader_epoch: int, token: str) -> str:
    """Unlike all others: a leader that was replaced cannot overwrite what its successor copied."""
    return f"{start:020d}-{end:020d}-{leader_epoch:010d}-{token}"


def epoch_of_name(name: str) -> int | None:
    """The leader epoch in the name of a segment's object; None if it is not such a name."""
    parts = name.partition(".")[0].split("-")
    return int(parts[2]) if len(parts) == 4 and parts[2].isdigit() else None


def expired(
    segments: Sequence[ColdSegment],
    local_bytes: int,
    *,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
    start: int,
) -> int:
    """How many copied segments from the front may go.  `local_bytes`: of the records that are not copied; a negative
    retention is no bound; `start`: records below are deleted."""
    count = 0
    while count < len(segments) and segments[count].end <= start:
        count += 1
    if retention_ms >= 0:
        while count < len(segments) and now_ms - segments[count].max_timestamp > retention_ms:
            count += 1
    if retention_bytes >= 0:
        excess = local_bytes + sum(segment.size for segment in segments[count:]) - retention_bytes
        while count < len(segments) and excess >= segments[count].size:
            excess -= segments[count].size
            count += 1
    return count


def diverged(segments: Sequence[ColdSegment], log_end: int, epoch_of: Callable[[int], int]) -> int:
    """How many copied segments from the end hold records that the leader's log has not: an unclean election discarded
    them.  `epoch_of` tells the leader epoch that the log has for an offset; less than 0 where that is not known."""
    count = 0
    for segment in reversed(segments):
        epoch = epoch_of(segment.end - 1)
        if segment.end <= log_end and epoch in (segment.last_epoch, -1):
            break
        count += 1
    return count
