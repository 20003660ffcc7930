"""The segments of one log, in order of their base offsets.  `active`, the last one, is the one that is appended to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from tidelog._speed.log.append import NativeSegments
from tidelog.storage.segments.segment import Segment


class Segments(NativeSegments):
    __slots__ = ("_bases", "_segments")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base)
        self._bases = [segment.base for segment in self._segments]
        for segment, following in zip(self._segments, self._segments[1:], strict=False):
            segment.end = following.base
        self._changed()

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def last(self) -> Segment:
        return self._segments[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def holding(self, offset: int) -> int:
        """The number of the segment that `offset` falls in; the first one for what comes before it."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def add(self, segment: Segment) -> None:
        assert not self._bases or segment.base > self._bases[-1], "segments are added at the end"
        self._segments.append(segment)
        self._bases.append(segment.base)
        self._changed()

    def take_first(self, count: int) -> list[Segment]:
        return self._take(0, count)

    def take_from(self, number: int) -> list[Segment]:
        return self._take(number, len(self._segments))

    def below(self, number: int) -> list[Segment]:
        return self._segments[:number]

    def above(self, number: int) -> list[Segment]:
        return self._segments[number + 1 :]

    def replace(self, number: int, count: int, segments: list[Segment]) -> list[Segment]:
        taken = self._segments[number : number + count]
        self._segments[number : number + count] = segments
        self._bases[number : number + count] = [segment.base for segment in segments]
        self._changed()
        return taken

    def _take(self, start: int, end: int) -> list[Segment]:
        taken = self._segments[start:end]
        del self._segments[start:end], self._bases[start:end]
        self._changed()
        return taken

    def _changed(self) -> None:
        self.active = self._segments[-1] if self._segments else None
