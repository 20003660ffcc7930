"""The point that a backup is restored at: a moment, or offsets; and where a partition's log is cut there.  Pure.

Batches are kept as they are, so a cut lies between two of them.  With a moment, the log ends before the first batch that has
a record of a later time, by the timestamps of the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidelog._speed.log.batch import walk
from tidelog.errors import InvalidConfig
from tidelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """`at_ms` None: no moment.  `ends`: offsets that single partitions end at; all others end where the backup does."""

    at_ms: int | None = None
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_end(self) -> bool:
        """Everything in the backup, as of its cut."""
        return self.at_ms is None and not self.ends

    def __str__(self) -> str:
        if self.at_ms is not None:
            return datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return ", ".join(f"{name}:{end}" for name, end in self.ends.items()) or "the end"


def parse_point(text: str | None, now_ms: int) -> RestorePoint:
    """A time in ISO 8601 (UTC unless it has a zone), milliseconds since 1970, or TOPIC-PARTITION:OFFSET, with commas between
    several."""
    if text is None:
        return RestorePoint()
    if text.isascii() and text.isdecimal():
        return _moment(int(text), text, now_ms)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return RestorePoint(ends=dict(_parse_end(entry) for entry in text.split(",")))
    return _moment(int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000), text, now_ms)


def _moment(at_ms: int, text: str, now_ms: int) -> RestorePoint:
    if not 0 < at_ms <= now_ms:
        raise InvalidConfig(f"{text} is not a time between 1970 and now.")
    return RestorePoint(at_ms)


def _parse_end(entry: str) -> tuple[TopicPartition, int]:
    name, _, offset = entry.strip().rpartition(":")
    topic, _, index = name.rpartition("-")
    if not (topic and index.isdecimal() and offset.isdecimal()):
        raise InvalidConfig(
            f"{entry.strip()!r} is not a point: give a time like 2026-01-31T14:03:00Z, or TOPIC-PARTITION:OFFSET, with "
            "commas between several."
        )
    return TopicPartition(topic, int(index)), int(offset)


def batches_before(point: RestorePoint, name: TopicPartition, data: bytes, end: int) -> tuple[int, int, bool]:
    """Of the batches in `data`, those before the point: their bytes, the offset after the last of them (-1: there is none),
    and whether the point was reached."""
    end = min(end, point.ends.get(name, end))
    size, kept_end = 0, -1
    for header in walk(data):
        late = point.at_ms is not None and header.max_timestamp > point.at_ms
        if late or header.last_offset >= end:
            return size, kept_end, True
        size, kept_end = header.position + header.size, header.last_offset + 1
    return size, kept_end, False
