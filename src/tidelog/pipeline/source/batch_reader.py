"""`spark.read.format("tidelog")`: the driver decides the offset ranges once, then tasks read them."""

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
    """The range that one task reads; None: the task reads nothing."""

    def __init__(self, wanted: OffsetRange | None) -> None:
        super().__init__(None)
        self.wanted = wanted


class Pushdown:
    """`pushFilters` of a reader.  While filter pushdown is off (spark.sql.python.filterPushdown.enabled), Spark refuses a
    reader with a `pushFilters` method, unless it is Spark's own method: Spark compares `__func__`."""

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, pushed: PushedFilters) -> None:
        self._pushed = pushed

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._pushed.take(filters)


class TidelogReader(DataSourceReader):
    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        self._options = options
        self._shape = shape
        self._pushed = PushedFilters(shape.prefix)
        self.pushFilters = Pushdown(self._pushed)  # type: ignore[method-assign]

    def partitions(self) -> list[InputPartition]:
        options, offset_reader = self._options, OffsetReader(self._options)
        scope = offset_reader.scope()
        wanted = [partition for partition in scope.partitions if self._pushed.wants(partition)]
        start = self._starts(offset_reader, wanted, scope.partitions)
        end = offset_reader.at(options.ending, scope.partitions)
        # These requests come last: the log grows meanwhile, and the end looked up above must lie within these bounds.
        first, last = offset_reader.first(wanted), offset_reader.last(wanted)
        ranges = []
        for partition in wanted:
            begin = _within(
                options, "starting", partition, start[partition], first[partition], last[partition]
            )
            finish = _within(options, "ending", partition, end[partition], first[partition], last[partition])
            whole = OffsetRange(partition, begin, max(begin, finish), scope.ids[partition.topic])
            ranges.append(self._pushed.narrow(whole))
        tasks = split(ranges, options.min_partitions, options.max_records_per_partition)
        return [RangePartition(task) for task in tasks] or [RangePartition(None)]

    def _starts(
        self,
        offset_reader: OffsetReader,
        wanted: list[TopicPartition],
        every: tuple[TopicPartition, ...],
    ) -> dict[TopicPartition, int]:
        start = offset_reader.at(self._options.starting, every)
        time_ms = self._pushed.time_first_ms
        if time_ms is not None:
            since = offset_reader.since(dict.fromkeys(wanted, max(0, time_ms)))
            start |= {partition: max(start[partition], since[partition]) for partition in wanted}
        return start

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, RangePartition)
        if partition.wanted is None:
            return iter(())
        return self._shape.shaped(read_range(self._options, partition.wanted))

    def __getstate__(self) -> dict[str, Any]:
        # Tasks do not push filters.
        return {name: value for name, value in self.__dict__.items() if name != "pushFilters"}


def _within(
    options: SourceOptions, name: str, partition: TopicPartition, offset: int, first: int, last: int
) -> int:
    """Limits an offset to the log.  If the user gave the offset as a number, an offset outside of the log means lost data
    or a mistake.  If the user gave a name or a time, retention may have moved the log start offset since the lookup."""
    bound = options.starting if name == "starting" else options.ending
    if not first <= offset <= last and isinstance(bound.at(partition), int):
        lost(options, f"{name} is offset {offset} of {partition}, but its log reaches from {first} to {last}")
    return min(max(offset, first), last)
