"""Makes a second cluster out of the files of a running one: sealed segments as hard links, the rest copied, as of one cut.

Both clusters go their own ways: neither changes the bytes of a sealed segment.  Whoever has to (a truncation, a repair, an
append to what was sealed) first makes the file its own, see `storage.shared_files`.  So how long a fork takes depends on how
many files there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from tidelog._speed.log.batch import HEADER_SIZE, Header, header_at
from tidelog.backup.cut import LogRange
from tidelog.backup.data_directory import NewDataDirectory
from tidelog.backup.point import RestorePoint
from tidelog.config import TopicConfig
from tidelog.errors import InvalidConfig
from tidelog.storage import checkpoints
from tidelog.storage.encryption.file_header import MAGIC
from tidelog.storage.producer_state.snapshots import path_of
from tidelog.storage.segments.index import TimeIndex
from tidelog.storage.segments.segment_files import INDEX, LOG, TIME_INDEX, TXN_INDEX, parse, stem
from tidelog.types import TopicPartition

TRIES = 5
_COPY_BYTES = 8 << 20
_READ_BYTES = 64 << 10
_ENTRY_BYTES = {INDEX: 8, TIME_INDEX: 12, TXN_INDEX: 34}


class FilesChanged(Exception):
    """Retention or compaction has replaced files meanwhile."""


class ForkedPartition(NamedTuple):
    name: TopicPartition
    start: int
    end: int
    linked_bytes: int
    copied_bytes: int
    left_out: int
    """Offsets behind the point."""
    not_here: int
    """Offsets at the start that are in remote storage, or were deleted since the cut."""


def fork_partition(
    directory: NewDataDirectory,
    source: str,
    name: TopicPartition,
    cut: LogRange,
    point: RestorePoint,
    config: TopicConfig,
) -> ForkedPartition:
    """`source`: the folder of the partition.  Blocks."""
    for attempt in range(TRIES):
        folder = directory.make_log(name, cut.topic_id)
        try:
            return _Fork(directory, source, folder, name, cut, point).run(config)
        except (FileNotFoundError, FilesChanged):
            directory.discard_log(name)
            if attempt == TRIES - 1:
                raise
    raise AssertionError("the last try returns or raises")


class _Fork:
    def __init__(
        self,
        directory: NewDataDirectory,
        source: str,
        folder: str,
        name: TopicPartition,
        cut: LogRange,
        point: RestorePoint,
    ) -> None:
        self._directory = directory
        self._source = source
        self._folder = folder
        self._name = name
        self._cut = cut
        self._at_ms = point.at_ms
        self._limit = min(cut.end, point.ends.get(name, cut.end))
        self._linked_bytes = self._copied_bytes = 0
        self._inodes: dict[int, int] = {}

    def run(self, config: TopicConfig) -> ForkedPartition:
        bases = _bases(self._source)
        first = bases[0] if bases else 0
        tail = None
        for base, following in zip(bases, [*bases[1:], None], strict=True):
            if base >= self._limit:
                break
            if following is None or following > self._limit or self._is_late(base):
                tail = base
                self._copy_start(base)
                break
            self._link(base)
        if tail is None:
            # The last segment of a log is appended to: it must be one of the new cluster alone.
            tail = self._limit
            with open(stem(self._folder, tail) + LOG, "wb"):
                pass
        self._check_unchanged()
        start = min(max(self._cut.start, first), self._limit)
        self._copy_state(tail)
        self._directory.complete_log(self._name, config, start, self._limit, scan_from=tail + 1)
        return ForkedPartition(
            self._name,
            start,
            self._limit,
            self._linked_bytes,
            self._copied_bytes,
            self._cut.end - self._limit,
            max(0, start - self._cut.start),
        )

    def _is_late(self, base: int) -> bool:
        """Whether a sealed segment has a record of a later time: its time index ends with its newest."""
        if self._at_ms is None:
            return False
        with open(stem(self._source, base) + TIME_INDEX, "rb") as file:
            entries = _without_zeros(file.read(), TIME_INDEX)
        if not entries:
            return True  # looked at batch by batch
        newest_ms, _ = TimeIndex.ENTRY.unpack_from(entries, len(entries) - TimeIndex.ENTRY.size)
        return bool(newest_ms > self._at_ms)

    def _link(self, base: int) -> None:
        old, new = stem(self._source, base), stem(self._folder, base)
        _refuse_encrypted(old + LOG, self._name)
        size = os.stat(old + LOG).st_size
        if _link_or_copy(old + LOG, new + LOG):
            self._linked_bytes += size
            self._inodes[base] = os.stat(new + LOG).st_ino
        else:
            self._copied_bytes += size
        for kind in (INDEX, TIME_INDEX, TXN_INDEX):
            if kind == TXN_INDEX and not os.path.exists(old + kind):
                continue
            # Small, and brokers change indexes in their places.
            with open(old + kind, "rb") as source, open(new + kind, "wb") as target:
                target.write(_without_zeros(source.read(), kind))

    def _copy_start(self, base: int) -> None:
        """The batches of a segment before the limit."""
        path = stem(self._source, base) + LOG
        _refuse_encrypted(path, self._name)
        position, end = 0, base
        with open(path, "rb") as source:
            for at, header in _headers(source.fileno(), os.fstat(source.fileno()).st_size):
                if header.base_offset >= self._limit:
                    break
                if header.last_offset >= self._limit or (
                    self._at_ms is not None and header.max_timestamp > self._at_ms
                ):
                    self._limit = end
                    break
                position, end = at + header.size, header.last_offset + 1
            with open(stem(self._folder, base) + LOG, "wb") as target:
                _copy(source.fileno(), target.fileno(), position)
        self._copied_bytes += position

    def _check_unchanged(self) -> None:
        for base, inode in self._inodes.items():
            if os.stat(stem(self._source, base) + LOG).st_ino != inode:
                raise FilesChanged(f"{self._name}: segment {base} was compacted meanwhile")

    def _copy_state(self, tail: int) -> None:
        epochs = [(epoch, start) for epoch, start in self._cut.epochs if start < self._limit]
        with open(f"{self._folder}/{checkpoints.LEADER_EPOCHS}", "wb") as file:
            file.write(checkpoints.encode_epochs(epochs))
        snapshot = path_of(self._source, tail)
        if os.path.exists(snapshot):
            with open(snapshot, "rb") as source, open(path_of(self._folder, tail), "wb") as target:
                target.write(source.read())


def _bases(folder: str) -> list[int]:
    parsed = (parse(name) for name in os.listdir(folder))
    return sorted(each.base for each in parsed if each is not None and each.kind == LOG and not each.suffix)


def segments_of(folder: str) -> Iterator[bytes]:
    """The batches of a partition, segment by segment."""
    for base in _bases(folder):
        with open(stem(folder, base) + LOG, "rb") as file:
            yield file.read()


def _link_or_copy(old: str, new: str) -> bool:
    """False: copied, for the folders are on different file systems."""
    try:
        os.link(old, new)
        return True
    except FileNotFoundError:
        raise
    except OSError:
        with open(old, "rb") as source, open(new, "wb") as target:
            _copy(source.fileno(), target.fileno(), os.fstat(source.fileno()).st_size)
        return False


def _copy(source: int, target: int, size: int) -> None:
    """In the kernel, and without a copy of the blocks where the file system can do that."""
    done = 0
    while done < size:
        try:
            count = os.copy_file_range(source, target, min(_COPY_BYTES, size - done), done)
        except OSError:
            count = os.write(target, os.pread(source, min(_COPY_BYTES, size - done), done))
        if not count:
            raise FilesChanged("a segment became shorter meanwhile")
        done += count


def _headers(file: int, size: int) -> Iterator[tuple[int, Header]]:
    position, data, start = 0, b"", 0
    while position + HEADER_SIZE <= size:
        if position - start + HEADER_SIZE > len(data):
            data, start = os.pread(file, _READ_BYTES, position), position
        header = header_at(data, position - start)
        if header is None or header.magic != 2 or position + header.size > size:
            return
        yield position, header
        position += header.size


def _without_zeros(entries: bytes, kind: str) -> bytes:
    """An index that still grows ends with room for more entries."""
    size = _ENTRY_BYTES[kind]
    used = len(entries.rstrip(b"\0"))
    return entries[: -(-used // size) * size]


def _refuse_encrypted(path: str, name: TopicPartition) -> None:
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            raise InvalidConfig(
                f"{name} is encrypted: its files cannot be shared with a cluster that has keys of its own.  Use `tidelog "
                "backup create --encryption-key` and `tidelog backup restore`."
            )
