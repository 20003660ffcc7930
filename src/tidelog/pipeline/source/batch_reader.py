"""`spark.read.format("tidelog")`: the ranges are decided once, on the driver, then read by tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from tidelog.pipeline.options.source import SourceOptions
from tidelog.pipeline.source.offset_ranges import OffsetRange, split
from tidelog.pipeline.source.offset_reader import OffsetReader
from tidelog.pipeline.source.pushdown import PushedFilters
from tidelog.pipeline.source.range_reading import lost, read_range
from tidelog.pipeline.source.row_shape import RowShape
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow


class RangePartition(InputPartition):
    """What one task reads; None: nothing."""

    def __init__(self, wanted: OffsetRange | None) -> None:
        super().__init__(None)
        self.wanted = wanted


class Pushdown:
    """`pushFilters` of a reader.  Spark refuses a reader that has one while pushing filters down is switched off
    (spark.sql.python.filterPushdown.enabled), unless the method is its own: it looks at `__func__`."""

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, narrowing: PushedFilters) -> None:
        self._narrowing = narrowing

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._narrowing.take(filters)


class TidelogReader(DataSourceReader):
    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        self._options = options
        self._shape = shape
        self._narrowing = PushedFilters(shape.prefix)
        self.pushFilters = Pushdown(self._narrowing)  # type: ignore[method-assign]

    def partitions(self) -> list[InputPartition]:
        options, offset_reader = self._options, OffsetReader(self._options)
        scope = offset_reader.scope()
        wanted = [one for one in scope.partitions if self._narrowing.wants(one)]
        start = self._starts(offset_reader, wanted, scope.partitions)
        end = offset_reader.at(options.ending, scope.partitions)
        # Asked last: the log grows meanwhile, and what was its end a moment ago must lie within it.
        first, last = offset_reader.first(wanted), offset_reader.last(wanted)
        ranges = []
        for one in wanted:
            begin = _within(options, "starting", one, start[one], first[one], last[one])
            finish = _within(options, "ending", one, end[one], first[one], last[one])
            whole = OffsetRange(one, begin, max(begin, finish), scope.ids[one.topic])
            ranges.append(self._narrowing.narrow(whole))
        tasks = split(ranges, options.min_partitions, options.max_records_per_partition)
        return [RangePartition(one) for one in tasks] or [RangePartition(None)]

    def _starts(
        self,
        offset_reader: OffsetReader,
        wanted: list[TopicPartition],
        all_of_them: tuple[TopicPartition, ...],
    ) -> dict[TopicPartition, int]:
        start = offset_reader.at(self._options.starting, all_of_them)
        time_ms = self._narrowing.time_first_ms
        if time_ms is not None:
            since = offset_reader.since(dict.fromkeys(wanted, max(0, time_ms)))
            start |= {one: max(start[one], since[one]) for one in wanted}
        return start

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, RangePartition)
        if partition.wanted is None:
            return iter(())
        return self._shape.shaped(read_range(self._options, partition.wanted))

    def __getstate__(self) -> dict[str, Any]:
        # Tasks have no filters to push.
        return {name: value for name, value in self.__dict__.items() if name != "pushFilters"}


def _within(
    options: SourceOptions, name: str, partition: TopicPartition, offset: int, first: int, last: int
) -> int:
    """An offset that was asked for by its number and is not in the log is data that was lost, or a mistake.  Where a
    name or a time was given, retention may have moved the log's beginning since it was looked up."""
    bound = options.starting if name == "starting" else options.ending
    if not first <= offset <= last and isinstance(bound.at(partition), int):
        lost(options, f"{name} is offset {offset} of {partition}, but its log reaches from {first} to {last}")
    return min(max(offset, first), last)
