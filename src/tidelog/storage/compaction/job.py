"""What passes between the broker and whoever compacts a log for it: a `CompactionJob` there, `Rewritten` groups back.

All of it is plain data, so that it can cross to a worker process as JSON.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from tidelog.storage.compaction.rules import SegmentToRewrite
from tidelog.storage.segments.txn_index import Aborted

NO_IO_LIMIT = 1.7976931348623157e308  # Kafka's default


class LastRecord(NamedTuple):
    """What of an active producer must survive: its last batch of data, or the marker that has its epoch."""

    offset: int
    """The last offset of its last batch; -1 when only a transaction marker is left of it."""
    epoch: int


@dataclass(frozen=True, slots=True)
class CompactionJob:
    folder: str
    token: str
    """Part of every file name, so that two rounds never write the same file."""
    sources: list[SegmentToRewrite]
    """All sealed segments from the log's first up to `bound`."""
    first_dirty: int
    bound: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    memory_bytes: int
    """For the map of keys; when it is full, the round ends at the offset it has reached."""
    seed: str
    """16 bytes in hexadecimal digits that nobody outside can guess: keys are hashed with it."""
    io_bytes_per_second: float = NO_IO_LIMIT
    producers: dict[int, LastRecord] = field(default_factory=dict)
    data_keys: dict[str, str] = field(default_factory=dict, repr=False)
    """The data keys of an encrypted log's files, in hexadecimal digits, by their ids."""
    new_data_key: str = ""
    """The id of the one to encrypt new files with; empty: they are plain."""
    aborted: list[Aborted] = field(default_factory=list)
    """All that have records below `bound`; empty when no segment has an index of them."""

    def as_plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> CompactionJob:
        fields = dict(plain)
        fields["sources"] = [SegmentToRewrite(*source) for source in plain["sources"]]
        fields["producers"] = {int(name): LastRecord(*last) for name, last in plain["producers"].items()}
        fields["aborted"] = [Aborted(*aborted) for aborted in plain["aborted"]]
        return cls(**fields)


class Rewritten(NamedTuple):
    """A group of segments has been written anew; the files are synced and wait for their swap."""

    bases: list[int]
    """The base offsets of the segments that this segment replaces; the first is its own."""
    size: int
    max_timestamp: int
    max_timestamp_offset: int


@dataclass(slots=True)
class CompactionProgress:
    """The progress of one round, for metrics.  `end` is the first offset that is not clean afterwards."""

    end: int = 0
    keys: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0

    def as_plain(self) -> dict[str, Any]:
        return asdict(self)


__all__ = ["Aborted", "CompactionJob", "CompactionProgress", "LastRecord", "Rewritten"]
