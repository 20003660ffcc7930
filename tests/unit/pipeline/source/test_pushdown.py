"""Filters of Spark as limits on what is read."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, Not

from tidelog.pipeline.source.offset_ranges import OffsetRange
from tidelog.pipeline.source.pushdown import PushedFilters
from tidelog.types import TopicPartition


def test_filters_become_limits() -> None:
    narrowing = PushedFilters()
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    rest = narrowing.take(
        [
            EqualTo(("topic",), "a"),
            In(("partition",), (1, 2)),
            LessThan(("partition",), 2),
            GreaterThan(("offset",), 9),
            LessThan(("offset",), 20),
            GreaterThanOrEqual(("timestamp",), moment),
            IsNotNull(("offset",)),
            IsNotNull(("value",)),
            Not(EqualTo(("offset",), 12)),
            EqualTo(("value",), b"x"),
        ]
    )
    assert [type(condition) for condition in rest] == [GreaterThanOrEqual, IsNotNull, Not, EqualTo]
    assert [index for index in range(4) if narrowing.wants(TopicPartition("a", index))] == [1]
    assert not narrowing.wants(TopicPartition("b", 1))
    narrowed = narrowing.narrow(OffsetRange(TopicPartition("a", 1), 0, 100))
    assert (narrowed.start, narrowed.end) == (10, 20)
    assert narrowing.narrow(OffsetRange(TopicPartition("a", 1), 50, 100)).size == 0
    assert narrowing.time_first_ms == moment.timestamp() * 1000


def test_filters_of_decoded_rows_are_on_kafkas_columns_only() -> None:
    narrowing = PushedFilters("_")
    theirs = EqualTo(("partition",), 1)
    assert narrowing.take([theirs, EqualTo(("_partition",), 2)]) == [theirs]
    assert narrowing.wants(TopicPartition("a", 2)) and not narrowing.wants(TopicPartition("a", 1))
