"""What a connector is: the classes that a source and a sink extend, and the errors by which they tell a task what to do.

A task calls its connector on a thread of its own, one call at a time, so connectors are plain blocking code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tidelog.config.setting import Setting
from tidelog.connect.records import ConnectRecord
from tidelog.connect.settings import ConnectorConfig
from tidelog.errors import TidelogError
from tidelog.types import TopicPartition


class ConnectError(TidelogError):
    """The connector cannot go on: its task fails, and stays so until it is restarted."""


class Unavailable(ConnectError):
    """The other side is away: the task opens the connector anew after a pause, from the last position."""

    retriable = True


class Outdated(ConnectError):
    """Another task writes to the same target: this one reads the target's offsets again."""

    retriable = True


class RecordRefused(ConnectError):
    """The target refuses this record, and others may be good: `errors.tolerance` decides what happens."""

    def __init__(self, message: str, record: ConnectRecord) -> None:
        super().__init__(message)
        self.record = record


Position = tuple[dict[str, Any], dict[str, Any] | None]
"""A source's partition (which file, which server) and the offset in it; both as JSON.  None forgets the partition."""


@dataclass(slots=True)
class SourceBatch:
    """Records, and the positions behind them.  The task writes both in one transaction."""

    records: Sequence[ConnectRecord]
    positions: Sequence[Position] = ()


Positions = Mapping[str, dict[str, Any]]
"""Offsets by partition; a partition is JSON text with sorted names, see `position_key`."""


class Source:
    """Fills topics.

        class Dice(Source):
            SETTINGS = connect_settings("sides INT 6 1.. built\\n  How many sides a die has.")

            def open(self, positions): self.count = ...
            def read(self, wait_ms): return SourceBatch([ConnectRecord("dice", value=4)], [({}, {"count": 1})])

    `read` must return records that follow the positions given to `open`, in the same order whenever it is repeated: what
    was not committed is read again after a crash, and written once."""

    SETTINGS: ClassVar[Mapping[str, Setting]] = {}
    REQUIRED: ClassVar[frozenset[str]] = frozenset()
    PREFIXES: ClassVar[tuple[str, ...]] = ()
    """Families of settings whose names the user chooses."""

    def __init__(self, config: ConnectorConfig, task: Mapping[str, str]) -> None:
        """`task`: what `plan` gave this task."""
        self.config = config
        self.task = task

    @classmethod
    def check(cls, config: ConnectorConfig) -> None:
        """Raises `InvalidConfig` for settings that contradict each other.  Must not connect to anything."""

    @classmethod
    def plan(cls, config: ConnectorConfig, tasks_max: int) -> list[dict[str, str]]:
        """Divides the work: up to `tasks_max` parts, each for a task."""
        return [{}]

    def open(self, positions: Positions) -> None:
        """Connects, and goes to the positions that were written last."""

    def read(self, wait_ms: int) -> SourceBatch | None:
        """The next records, a few thousand at most; None if there are none within `wait_ms`."""
        raise NotImplementedError

    def committed(self, positions: Sequence[Position]) -> None:
        """These positions are written, with all records before them: the other side may forget them."""

    def close(self) -> None:
        """Called once, also after an error of any other method."""


@dataclass(slots=True)
class SinkBatch:
    """Records in the order of their partitions, and the offset of the next record of each partition."""

    records: Sequence[ConnectRecord]
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_arrow(self) -> Any:
        """The records as an Arrow table: topic, partition, offset, timestamp, and the fields of the values."""
        from tidelog.connect.arrow_batch import table_of

        return table_of(self.records)


class Sink:
    """Empties topics.

    A sink is **idempotent** (writing a record again changes nothing: an upsert by key, a document by id), or
    **transactional**: it stores `batch.ends` in the transaction of the rows, checks `batch.begins`, and gives back with
    `offsets` what is stored.  A transactional sink has each record exactly once."""

    SETTINGS: ClassVar[Mapping[str, Setting]] = {}
    REQUIRED: ClassVar[frozenset[str]] = frozenset()
    PREFIXES: ClassVar[tuple[str, ...]] = ()
    TRANSACTIONAL: ClassVar[bool] = False

    def __init__(self, config: ConnectorConfig, name: str) -> None:
        """`name`: of the connector, to keep its offsets apart from those of others."""
        self.config = config
        self.name = name

    @classmethod
    def check(cls, config: ConnectorConfig) -> None:
        """Raises `InvalidConfig` for settings that contradict each other.  Must not connect to anything."""

    def open(self) -> None:
        """Connects."""

    def offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Transactional sinks: the offset of the next record of each partition for which the sink has stored an offset."""
        return {}

    def write(self, batch: SinkBatch) -> None:
        """Writes all records or raises.  `RecordRefused` names a record that is wrong: the batch comes again without
        it."""
        raise NotImplementedError

    def close(self) -> None:
        """Called once, also after an error of any other method."""
