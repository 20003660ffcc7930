"""Filters that Spark hands down, as limits on what is read at all.  Pure.

Conditions on topic, partition and offset are met exactly, so Spark need not look again.  Of conditions on the
timestamp only a lower limit helps: records in front of the first one that is late enough are all older, but what
comes behind a later one may be older again.  Spark checks those once more.
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
    """What the filters together leave; `prefix` is in front of the columns' names."""

    prefix: str = ""
    topics: set[str] | None = None
    partitions: set[int] | None = None
    partition_first: int = 0
    partition_end: int = OFFSET_MAX
    offset_first: int = 0
    offset_end: int = OFFSET_MAX
    time_first_ms: int | None = None

    def take(self, filters: Sequence[Filter]) -> list[Filter]:
        """Those that Spark still has to apply."""
        return [one for one in filters if not self._take(one)]

    def _take(self, one: Filter) -> bool:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if len(attribute) != 1 or not attribute[0].startswith(self.prefix):
            return False
        name = attribute[0].removeprefix(self.prefix)
        if isinstance(one, IsNotNull):
            return name in ("topic", "partition", "offset", "timestamp")
        value = getattr(one, "value", None)
        if value is None:
            return False
        if name == "topic":
            return self._topic(one, value)
        if name in ("partition", "offset"):
            return self._number(name, one, value)
        if name == "timestamp":
            self._time(one, value)
        return False

    def _topic(self, one: Filter, value: Any) -> bool:
        if isinstance(one, EqualTo):
            chosen = {value}
        elif isinstance(one, In):
            chosen = {each for each in value if each is not None}
        else:
            return False
        self.topics = chosen if self.topics is None else self.topics & chosen
        return True

    def _number(self, name: str, one: Filter, value: Any) -> bool:
        if isinstance(one, In):
            chosen = {each for each in value if each is not None}
            if name != "partition" or not all(_whole(each) for each in chosen):
                return False
            self.partitions = chosen if self.partitions is None else self.partitions & chosen
            return True
        if not _whole(value):
            return False
        first, end = 0, OFFSET_MAX
        if isinstance(one, EqualTo):
            first, end = value, value + 1
        elif isinstance(one, GreaterThan):
            first = value + 1
        elif isinstance(one, GreaterThanOrEqual):
            first = value
        elif isinstance(one, LessThan):
            end = value
        elif isinstance(one, LessThanOrEqual):
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

    def _time(self, one: Filter, value: Any) -> None:
        if not isinstance(value, datetime) or not isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
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
