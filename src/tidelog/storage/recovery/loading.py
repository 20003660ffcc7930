"""Finds a log in its folder after a clean stop: lists names, asks sizes, walks the tail that no index covers.

How long it takes depends on how many segments there are, never on how large they are.  After an unclean stop
`recovery` goes first and leaves the folder as a clean stop would have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage
from tidelog.storage import checkpoints
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import Disk
from tidelog.storage.integrity import damage
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.leader_epochs import Epochs
from tidelog.storage.producer_state import snapshots
from tidelog.storage.producer_state.producers import Producers
from tidelog.storage.segments import scanning, swapping
from tidelog.storage.segments.deleted_segments import DELETED
from tidelog.storage.segments.segment import Segment
from tidelog.storage.segments.segment_files import LOG, TXN_INDEX, SegmentFiles, parse
from tidelog.storage.segments.segments import Segments
from tidelog.storage.shared_files import make_own


class Torn(CorruptMessage):
    """The log does not end with a whole batch, or its transactions cannot be right, although it was closed: `recovery`
    has to see to it."""


@dataclass(slots=True)
class Loaded:
    segments: list[Segment]
    epochs: Epochs
    producers: Producers
    bad: list[BadRange]
    start: int
    end: int
    recovery_point: int
    created: bool
    """The first segment was made just now."""
    scanned: bool
    """No snapshot of producers fitted the end of the log."""


def load(volume: Volume, folder: str, config: TopicConfig, start: int, recovery_point: int) -> Loaded:
    """`start` and `recovery_point` are what the directory's checkpoints say."""
    disk = volume.disk
    files = scan_folder(disk, folder)
    segments = list_segments(volume, folder, files.bases, config)
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
    for segment in segments:
        if segment.base in files.transactions and not segment.indexes.transactions.sane(segment.base):
            raise Torn(f"{segment.files.path(TXN_INDEX)} is cut, or not an index of transactions")
    active = segments[-1]
    if not created:
        make_own(active.path)  # a sealed segment, if the one after it was lost in a crash
    try:
        scanning.load(active)
    except CorruptMessage as problem:
        raise Torn(str(problem)) from problem
    start = log_start(config, start, segments[0].base)
    end = max(active.end, start)
    epochs = read_epochs(disk, folder)
    epochs.truncate_to(end)
    epochs.advance_start(start)
    producers, known_to = snapshots.load(disk, folder, files.others, start, end)
    if known_to < end:
        snapshots.complete(producers, Segments(segments), known_to, end)
    return Loaded(segments, epochs, producers, bad, start, end, recovery_point, created, known_to < end)


def log_start(config: TopicConfig, start: int, first: int) -> int:
    """Where a log starts whose directory remembers `start` and whose first segment begins at `first`: what lies between
    is in remote storage, or was deleted."""
    return start if config.remote_storage_enable else max(start, first)


def list_segments(volume: Volume, folder: str, bases: Iterable[int], config: TopicConfig) -> list[Segment]:
    return [
        Segment(
            volume,
            folder,
            base,
            SegmentFiles(volume.disk, folder, base).size(),
            config.segment_index_bytes,
            config.index_interval_bytes,
        )
        for base in sorted(bases)
    ]


@dataclass(slots=True)
class LogFolderFiles:
    bases: set[int] = field(default_factory=set)
    transactions: list[int] = field(default_factory=list)
    """Of the segments that have an index of aborted ones."""
    others: list[str] = field(default_factory=list)


def scan_folder(disk: Disk, folder: str) -> LogFolderFiles:
    """Which segments there are; files that belong to none are removed, as are those deleted before the stop."""
    files = LogFolderFiles()
    names = disk.list(folder)
    if swapping.finish(disk, folder, names):
        names = disk.list(folder)
    indexes: list[tuple[int, str]] = []
    for name in names:
        file = parse(name)
        if file is None or file.suffix:
            if name.endswith((DELETED, ".tmp")):
                disk.remove(f"{folder}/{name}")
            else:
                files.others.append(name)
        elif file.kind == LOG:
            files.bases.add(file.base)
        else:
            indexes.append((file.base, file.kind))
    for base, kind in indexes:
        if base not in files.bases:
            SegmentFiles(disk, folder, base).remove(kind)
        elif kind == TXN_INDEX:
            files.transactions.append(base)
    return files


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
    try:
        return damage.decode(disk.read_file(path))
    except ValueError as problem:
        raise CorruptMessage(
            f"{path} is not readable ({problem}): the file lists damaged records; remove it only if there are none"
        ) from None
