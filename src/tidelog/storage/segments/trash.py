"""Segments that are deleted: renamed at once, taken off the disk after `file.delete.delay.ms`."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.storage.segments.segment import Segment

DELETED = ".deleted"


class Trash:
    __slots__ = ("_segments",)

    def __init__(self) -> None:
        self._segments: list[tuple[int, Segment]] = []

    def __len__(self) -> int:
        return len(self._segments)

    def put(self, segments: Iterable[Segment], due_ms: int) -> None:
        for segment in segments:
            segment.rename(DELETED)
            self._segments.append((due_ms, segment))

    def take(self, now_ms: int) -> list[str]:
        """The paths of what is due: whoever takes them removes them."""
        due = [segment for due_ms, segment in self._segments if due_ms <= now_ms]
        self._segments = [entry for entry in self._segments if entry[0] > now_ms]
        for segment in due:
            segment.release_all()
        return [path for segment in due for path in segment.paths()]

    def empty(self) -> None:
        """All of it, now."""
        for _, segment in self._segments:
            segment.remove()
        self._segments.clear()
