"""The content of one simulated file: the bytes that readers see, the bytes that are durable, and the changes in between.

Changes are kept in order until a sync applies them.  A power loss decides for each change whether it is kept, lost or
torn.  Used by the simulated disk only."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

SECTOR_BYTES = 512
PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FileWrite:
    position: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def apply(self, content: bytearray) -> None:
        if not self.data:
            return  # writing nothing past the end does not make a file longer
        if len(content) < self.position:
            content.extend(bytes(self.position - len(content)))
        content[self.position : self.end] = self.data


@dataclass(frozen=True, slots=True)
class FileResize:
    """A truncation or an allocation: new space reads as zeros."""

    size: int

    def apply(self, content: bytearray) -> None:
        if self.size < len(content):
            del content[self.size :]
        else:
            content.extend(bytes(self.size - len(content)))


FileChange = FileWrite | FileResize


class FileContent:
    """A file without its names.  `mappings` counts open shared mappings of `live`.  A resized file gets a new `live`:
    earlier mappings show the old bytes, and to sync one of them is a mistake (on a real system, touching a page past
    the end kills the process)."""

    __slots__ = ("_durable", "_mapped_since_sync", "_pending", "live", "mappings")

    def __init__(self, data: bytes = b"") -> None:
        self.live = bytearray(data)
        self.mappings = 0
        self._durable = bytearray(data)
        self._pending: list[FileChange] = []
        self._mapped_since_sync = False

    def change(self, change: FileChange) -> None:
        if self.mappings and (isinstance(change, FileResize) or change.end > len(self.live)):
            self.detach()
        change.apply(self.live)
        self._pending.append(change)

    def mapped(self) -> None:
        self.mappings += 1
        self._mapped_since_sync = True

    def detach(self) -> None:
        """From here on, writes through the open mappings do not reach the file."""
        if self.mappings:
            self.live = bytearray(self.live)
            self.mappings = 0

    def sync(self) -> None:
        if self._mapped_since_sync:
            self._durable[:] = self.live
            self._mapped_since_sync = self.mappings > 0
        else:
            for change in self._pending:
                change.apply(self._durable)
        self._pending.clear()

    def sync_failed(self) -> None:
        """Linux marks the pages clean once it has reported the error, so a later sync that succeeds does not write
        them: they are readable until the power fails, and lost then."""
        self._pending.clear()

    def damage(self, position: int, data: bytes) -> None:
        for copy in (self.live, self._durable):
            end = min(position + len(data), len(copy))
            if end > position:
                copy[position:end] = data[: end - position]

    def after_power_loss(self, random: Random) -> bytes:
        content = bytearray(self._durable)
        if self._mapped_since_sync:
            _keep_pages(content, self.live, random)
        elif self._pending:
            for change in _survivors(self._pending, len(content), random):
                change.apply(content)
        return bytes(content)


def _keep_pages(content: bytearray, live: bytearray, random: Random) -> None:
    """Dirty pages of a mapped file reach the disk in any order; a page may be torn between its sectors."""
    if len(content) != len(live):
        if random.random() < 0.3:
            return  # not even the new size is durable
        FileResize(len(live)).apply(content)
    for start in range(0, len(live), PAGE_BYTES):
        end = min(start + PAGE_BYTES, len(live))
        if content[start:end] == live[start:end] or random.random() < 0.4:
            continue
        if random.random() < 0.3:
            end = random.randrange(start, end, SECTOR_BYTES)
        content[start:end] = live[start:end]


def _survivors(pending: list[FileChange], size: int, random: Random) -> list[FileChange]:
    """The changes that survive, one of four cases: none, all, the first few with the last one torn, or any of them."""
    luck = random.random()
    if luck < 0.1:
        return []
    if luck < 0.25:
        return list(pending)
    if luck < 0.6:
        kept = list(pending[: random.randrange(len(pending) + 1)])
        if kept and isinstance(last := kept[-1], FileWrite):
            kept[-1:] = _torn(last, size, random)
        return kept
    kept = []
    for change in pending:
        fate = random.random()
        if isinstance(change, FileResize):
            # Sizes are journaled in order: without this change, blocks allocated after it were never allocated.
            if fate < 0.4:
                break
            kept.append(change)
        elif fate < 0.4:
            kept.append(change)
        elif fate < 0.75:
            kept += _torn(change, size, random)
    return kept


def _torn(write: FileWrite, old_size: int, random: Random) -> list[FileChange]:
    """`old_size`: the durable size; below it, sectors have either their old or their new bytes."""
    size = len(write.data)
    if size == 0:
        return [write]
    kind = random.randrange(4)
    if kind == 0:  # a prefix, to the byte
        return [FileWrite(write.position, write.data[: random.randrange(size + 1)])]
    if kind == 1:  # the size is durable, the bytes are not
        fresh = max(write.position, old_size)
        return [FileWrite(fresh, bytes(max(0, write.position + size - fresh)))]
    sectors = _sectors(write)
    if kind == 2:  # a prefix, to the sector
        return list(sectors[: random.randrange(len(sectors) + 1)])
    return [sector for sector in sectors if random.random() < 0.5]


def _sectors(write: FileWrite) -> list[FileWrite]:
    """The write, cut at the boundaries of the disk's sectors."""
    cut, at = [], 0
    while at < len(write.data):
        sector_left = SECTOR_BYTES - (write.position + at) % SECTOR_BYTES
        cut.append(FileWrite(write.position + at, write.data[at : at + sector_left]))
        at += sector_left
    return cut
