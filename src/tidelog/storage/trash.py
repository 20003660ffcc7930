"""Segments that are deleted: renamed at once, taken off the disk after `file.delete.delay.ms`."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.storage.segment import Segment

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

    def empty(self, now_ms: int | None = None) -> None:
        """What is due at `now_ms`, or all of it."""
        kept = []
        for due_ms, segment in self._segments:
            if now_ms is not None and due_ms > now_ms:
                kept.append((due_ms, segment))
            else:
                segment.remove()
        self._segments = kept
