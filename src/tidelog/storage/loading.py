"""Finds a log in its folder after a clean stop: lists names, asks sizes, walks the tail that no index covers.

How long it takes depends on how many segments there are, never on how large they are.  After an unclean stop
`recovery` goes first and leaves the folder as a clean stop would have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tidelog.config import TopicConfig
from tidelog.storage import checkpoints, damage
from tidelog.storage.damage import BadRange
from tidelog.storage.disk import Disk
from tidelog.storage.epochs import Epochs
from tidelog.storage.segment import INDEX, LOG, TIME_INDEX, Segment
from tidelog.storage.volume import Volume

DELETED = ".deleted"
_SEGMENT = re.compile(r"(\d{20})(\.log|\.index|\.timeindex)")


@dataclass(slots=True)
class Loaded:
    segments: list[Segment]
    epochs: Epochs
    bad: list[BadRange]
    start: int = 0
    recovery_point: int = 0
    created: bool = False
    """The first segment was made just now."""


def load(volume: Volume, folder: str, config: TopicConfig, start: int, recovery_point: int) -> Loaded:
    """`start` and `recovery_point` are what the directory's checkpoints say."""
    disk = volume.disk
    found = scan_folder(disk, folder)
    segments = [
        Segment(
            volume,
            folder,
            base,
            disk.size(f"{folder}/{base:020d}{LOG}"),
            config.segment_index_bytes,
            config.index_interval_bytes,
        )
        for base in sorted(found.bases)
    ]
    created = not segments
    if created:
        allocate = config.segment_bytes if config.preallocate else 0
        segments = [
            Segment.create(
                volume, folder, start, config.segment_index_bytes, config.index_interval_bytes, allocate
            )
        ]
    bad = read_damage(disk, folder)
    for segment in segments:
        segment.bad = [each for each in bad if each.base == segment.base]
    segments[-1].load()
    loaded = Loaded(segments, read_epochs(disk, folder), bad, start, recovery_point, created)
    loaded.epochs.truncate_to(max(segments[-1].end, segments[0].base))
    return loaded


@dataclass(slots=True)
class Found:
    bases: set[int] = field(default_factory=set)
    others: list[str] = field(default_factory=list)


def scan_folder(disk: Disk, folder: str) -> Found:
    """Which segments there are; files that belong to none are removed, as are those deleted before the
    stop."""
    found = Found()
    indexes: list[tuple[int, str]] = []
    for name in disk.list(folder):
        match = _SEGMENT.fullmatch(name)
        if match is None:
            if name.endswith(DELETED) or name.endswith(".tmp"):
                disk.remove(f"{folder}/{name}")
            else:
                found.others.append(name)
        elif match[2] == LOG:
            found.bases.add(int(match[1]))
        else:
            indexes.append((int(match[1]), name))
    for base, name in indexes:
        if base not in found.bases:
            disk.remove(f"{folder}/{name}")
    return found


def read_epochs(disk: Disk, folder: str) -> Epochs:
    path = f"{folder}/{checkpoints.LEADER_EPOCHS}"
    if not disk.exists(path):
        return Epochs()
    try:
        return Epochs(checkpoints.decode_epochs(disk.read_file(path)))
    except checkpoints.CorruptCheckpoint:
        return Epochs()


def read_damage(disk: Disk, folder: str) -> list[BadRange]:
    path = f"{folder}/{damage.DAMAGE}"
    if not disk.exists(path):
        return []
    return damage.decode(disk.read_file(path))


__all__ = [
    "DELETED",
    "INDEX",
    "TIME_INDEX",
    "Found",
    "Loaded",
    "load",
    "read_damage",
    "read_epochs",
    "scan_folder",
]
