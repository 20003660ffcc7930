"""Segments that are deleted: renamed at once, taken off the disk after `file.delete.delay.ms`.

`Volume.trashed` has every trash with something in it; `background` takes out what is due."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.storage.dirs.volume import Volume
from tidelog.storage.segments.segment import Segment

DELETED = ".deleted"


class DeletedSegments:
    """The deleted segments of one log."""

    __slots__ = ("_segments", "_volume")

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._segments: list[tuple[int, Segment]] = []

    def __len__(self) -> int:
        return len(self._segments)

    def put(self, segments: Iterable[Segment], due_ms: int) -> None:
        for segment in segments:
            segment.rename(DELETED)
            self._segments.append((due_ms, segment))
        self._volume.trashed[self] = None

    def take_deleted(self) -> tuple[list[str], bool]:
        """Files to be removed now, whose `file.delete.delay.ms` has passed, and whether these were the last."""
        now_ms = self._volume.clock.now_ms()
        due = [segment for due_ms, segment in self._segments if due_ms <= now_ms]
        self._segments = [entry for entry in self._segments if entry[0] > now_ms]
        for segment in due:
            segment.release_all()
        return [path for segment in due for path in segment.files.paths()], not self._segments

    def empty(self) -> None:
        """All of it, now."""
        for _, segment in self._segments:
            segment.remove()
        self._segments.clear()
        self.forget()

    def forget(self) -> None:
        """The log's folder is about to go, with all that is in it."""
        self._volume.trashed.pop(self, None)
