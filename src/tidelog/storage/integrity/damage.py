"""Ranges of a log whose bytes rotted, and the small file in a partition's folder that lists them.

A batch that fails its CRC while whole batches follow it is damage, not a torn tail: truncation there would remove
acknowledged records after it.  So the log keeps its bytes, reads of these offsets fail, and all other reads work.
`Volume.damaged` has all damaged logs of a directory; a file in the directory names them, so that the next start need not
look into every folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog.storage.dirs.volume import Volume
from tidelog.types import TopicPartition

DAMAGE = "damaged-ranges"

_VERSION = 0


class BadRange(NamedTuple):
    start: int
    """The first offset that may be lost."""
    end: int
    """The first offset after it that is whole."""
    base: int
    """The segment that holds it."""
    position: int
    size: int


class Damage:
    """The bad ranges of one log, in order."""

    __slots__ = ("_name", "_path", "_volume", "ranges", "unlearned")

    def __init__(self, volume: Volume, folder: str, name: TopicPartition, ranges: list[BadRange]) -> None:
        self.ranges = ranges
        self.unlearned = frozenset(ranges)
        """What was learned of producers and transactions leaves these out: they were damaged at that time."""
        self._volume = volume
        self._name = name
        self._path = f"{folder}/{DAMAGE}"
        if ranges:
            volume.damaged[name] = self

    def keep(self, wanted: Callable[[BadRange], bool]) -> bool:
        """Forgets all others, on disk too; true if there were any."""
        kept = [bad for bad in self.ranges if wanted(bad)]
        if len(kept) == len(self.ranges):
            return False
        self._set(kept)
        return True

    def put(self, base: int, ranges: Iterable[BadRange]) -> None:
        """These are the ones of the segment at `base`, on disk too."""
        others = [bad for bad in self.ranges if bad.base != base]
        self._set(sorted([*others, *ranges], key=lambda bad: (bad.base, bad.position)))

    def _set(self, ranges: list[BadRange]) -> None:
        self._volume.disk.replace_file(self._path, encode(ranges))
        self.ranges = ranges
        if ranges:
            self._volume.damaged[self._name] = self
        else:
            self._volume.damaged.pop(self._name, None)
        self._volume.save_damaged()


def encode(ranges: Iterable[BadRange]) -> bytes:
    lines = [" ".join(map(str, bad)) for bad in ranges]
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def decode(data: bytes) -> list[BadRange]:
    """ValueError when it is not such a file."""
    version, count, *lines = data.decode().splitlines()
    if int(version) != _VERSION or int(count) != len(lines):
        raise ValueError(f"expected version {_VERSION} and as many lines as the second one says")
    ranges = []
    for line in lines:
        start, end, base, position, size = map(int, line.split(" "))
        ranges.append(BadRange(start, end, base, position, size))
    return ranges
