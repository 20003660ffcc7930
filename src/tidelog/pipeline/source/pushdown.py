"""Filter pushdown: Spark's filters as limits on the partitions and offsets that are read.  Pure.

The source applies conditions on topic, partition and offset exactly, so Spark need not apply them again.  Of conditions on
the timestamp only a lower limit helps: all records before the first one that is late enough are older, but records after
it may be older again.  Spark applies conditions on the timestamp once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tidelog.pipeline.source.offset_ranges import OffsetRange
from tidelog.types import TopicPartition

OFFSET_MAX = 2**63 - 1


@dataclass(slots=True)
class PushedFilters:
    """The limits of all pushed filters together.  `prefix`: before the names of the columns."""

    prefix: str = ""
    topics: set[str] | None = None
    partitions: set[int] | None = None
    partition_first: int = 0
    partition_end: int = OFFSET_MAX
    offset_first: int = 0
    offset_end: int = OFFSET_MAX
    time_first_ms: int | None = None

    def take(self, filters: Sequence[Filter]) -> list[Filter]:
        """Takes the filters it can, and returns those that Spark still has to apply."""
        return [condition for condition in filters if not self._take(condition)]

    def _take(self, condition: Filter) -> bool:
        attribute: tuple[str, ...] = getattr(condition, "attribute", ())
        if len(attribute) != 1 or not attribute[0].startswith(self.prefix):
            return False
        name = attribute[0].removeprefix(self.prefix)
        if isinstance(condition, IsNotNull):
            return name in ("topic", "partition", "offset", "timestamp")
        value = getattr(condition, "value", None)
        if value is None:
            return False
        if name == "topic":
            return self._topic(condition, value)
        if name in ("partition", "offset"):
            return self._number(name, condition, value)
        if name == "timestamp":
            self._time(condition, value)
        return False

    def _topic(self, condition: Filter, value: Any) -> bool:
        if isinstance(condition, EqualTo):
            chosen = {value}
        elif isinstance(condition, In):
            chosen = {topic for topic in value if topic is not None}
        else:
            return False
        self.topics = chosen if self.topics is None else self.topics & chosen
        return True

    def _number(self, name: str, condition: Filter, value: Any) -> bool:
        if isinstance(condition, In):
            chosen = {each for each in value if each is not None}
            if name != "partition" or not all(_whole(each) for each in chosen):
                return False
            self.partitions = chosen if self.partitions is None else self.partitions & chosen
            return True
        if not _whole(value):
            return False
        first, end = 0, OFFSET_MAX
        if isinstance(condition, EqualTo):
            first, end = value, value + 1
        elif isinstance(condition, GreaterThan):
            first = value + 1
        elif isinstance(condition, GreaterThanOrEqual):
            first = value
        elif isinstance(condition, LessThan):
            end = value
        elif isinstance(condition, LessThanOrEqual):
            end = value + 1
        else:
            return False
        if name == "partition":
            self.partition_first = max(self.partition_first, first)
            self.partition_end = min(self.partition_end, end)
        else:
            self.offset_first = max(self.offset_first, first)
            self.offset_end = min(self.offset_end, end)
        return True

    def _time(self, condition: Filter, value: Any) -> None:
        if not isinstance(value, datetime) or not isinstance(
            condition, EqualTo | GreaterThan | GreaterThanOrEqual
        ):
            return
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        first_ms = int(moment.timestamp() * 1000)
        self.time_first_ms = first_ms if self.time_first_ms is None else max(self.time_first_ms, first_ms)

    def wants(self, partition: TopicPartition) -> bool:
        return (
            (self.topics is None or partition.topic in self.topics)
            and (self.partitions is None or partition.partition in self.partitions)
            and self.partition_first <= partition.partition < self.partition_end
        )

    def narrow(self, whole: OffsetRange) -> OffsetRange:
        start = max(whole.start, min(self.offset_first, whole.end))
        end = max(start, min(whole.end, self.offset_end))
        return OffsetRange(whole.partition, start, end, whole.topic_id)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
