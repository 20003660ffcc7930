"""`spark.readStream.format("tidelog")`: where a micro-batch ends, and which tasks read it.

Spark keeps one stream reader in a process of its own for the life of a query, and gives copies of it to tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tidelog.pipeline.options.source import SourceOptions
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.source.batch_reader import RangePartition
from tidelog.pipeline.source.offset_ranges import OffsetRange, admit, split
from tidelog.pipeline.source.offset_reader import OffsetReader, SourcePartitions
from tidelog.pipeline.source.positions import StreamPositions
from tidelog.pipeline.source.range_reading import lost, read_range
from tidelog.pipeline.source.row_shape import RowShape
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow


class TidelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        self._options = options
        self._shape = shape
        self._opened_reader: OffsetReader | None = None
        self._initial: StreamPositions | None = None
        self._until: StreamPositions | None = None
        self._latest: StreamPositions | None = None
        self._committed: Mapping[TopicPartition, int] = {}

    # On the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        # Spark asks more than once before the first batch, and must always get the same answer.
        if self._initial is None:
            scope = self._offset_reader.scope()
            starts = self._offset_reader.at(self._options.starting, scope.partitions)
            self._initial = StreamPositions(starts, scope.ids, first=True)
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_records_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        since = StreamPositions.from_json(start)
        self._processed(since)
        scope = self._scope(since)
        self._latest = StreamPositions(self._offset_reader.last(scope.partitions), scope.ids)
        until = self._latest if self._until is None else self._until
        begins = self._begins(since, until)
        ends = self._ends(since, begins, until)
        if isinstance(limit, ReadMaxRows):
            ends = admit(begins, ends, limit.max_rows)
        if ends == dict(since.offsets):
            # The same object: Spark takes any difference for new data.
            return start
        return since.ended(StreamPositions(ends, until.ids)).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else self._latest.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        scope = self._offset_reader.scope(gone=not self._options.fail_on_data_loss)
        self._until = StreamPositions(self._offset_reader.last(scope.partitions), scope.ids)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        until = StreamPositions.from_json(end)
        since = StreamPositions.from_json(start).really(until)
        begins = self._begins(since, until)
        ranges = []
        for partition, finish in until.offsets.items():
            if finish < begins[partition]:
                lost(
                    self._options, f"{partition} was read up to {begins[partition]}, but now ends at {finish}"
                )
            ranges.append(
                OffsetRange(
                    partition,
                    begins[partition],
                    max(begins[partition], finish),
                    until.ids.get(partition.topic),
                )
            )
        tasks = split(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(task) for task in tasks]

    def commit(self, end: dict[str, Any]) -> None:
        self._processed(StreamPositions.from_json(end))

    def stop(self) -> None:
        if self._opened_reader is not None:
            self._opened_reader.close()
            self._opened_reader = None

    # In tasks

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, RangePartition) and partition.wanted is not None
        return self._shape.shaped(read_range(self._options, partition.wanted))

    def __getstate__(self) -> dict[str, Any]:
        of_driver: dict[str, Any] = {
            "_opened_reader": None,
            "_initial": None,
            "_until": None,
            "_latest": None,
            "_committed": {},
        }
        return {**self.__dict__, **of_driver}

    # Helpers

    @property
    def _offset_reader(self) -> OffsetReader:
        if self._opened_reader is None:
            self._opened_reader = OffsetReader(self._options)
        return self._opened_reader

    def _scope(self, since: StreamPositions) -> SourcePartitions:
        """The partitions that exist now, checked against those that the query has read so far."""
        scope = self._offset_reader.scope(gone=not self._options.fail_on_data_loss)
        strangers = {partition for partition in since.offsets if not self._options.wants(partition)}
        if strangers and len(strangers) == len(since.offsets):
            raise PipelineError(
                f"the checkpoint belongs to a query that reads {_names(since.topics)}, and this one reads "
                f"{self._options.what()}: give it a checkpoint of its own"
            )
        for name, topic_id in since.ids.items():
            if name in scope.ids and scope.ids[name] != topic_id:
                lost(
                    self._options,
                    f"topic {name!r} was deleted and made anew: the query goes on with the beginning of the new one",
                )
        for partition in since.offsets:
            if partition not in strangers and partition not in scope.partitions:
                lost(self._options, f"this query has read {partition}, which no longer exists")
        return scope

    def _begins(self, since: StreamPositions, until: StreamPositions) -> dict[TopicPartition, int]:
        """The start offset of each partition in `until`; a new partition is read from its beginning."""
        begins, new = {}, []
        for partition in until.offsets:
            same = since.ids.get(partition.topic) == until.ids.get(partition.topic)
            if partition in since.offsets and same:
                begins[partition] = since.offsets[partition]
            else:
                new.append(partition)
        return begins | self._offset_reader.first(new)

    def _ends(
        self, since: StreamPositions, begins: Mapping[TopicPartition, int], until: StreamPositions
    ) -> dict[TopicPartition, int]:
        """The end offset of each partition: not before its start, unless its log is now shorter than what was read."""
        ends = {partition: max(begins[partition], offset) for partition, offset in until.offsets.items()}
        ahead = {
            partition: begins[partition]
            for partition, offset in until.offsets.items()
            if offset < begins[partition] and begins[partition] == since.offsets.get(partition)
        }
        for partition, end in self._offset_reader.shortened(ahead).items():
            progress = "the query begins at" if since.first else "the query has read up to"
            lost(
                self._options,
                f"{progress} offset {ahead[partition]} of {partition}, but its log ends at {end}",
            )
            ends[partition] = end
        return ends

    def _processed(self, positions: StreamPositions) -> None:
        """Spark has processed everything below `positions`: commits them to the group, so that its lag shows progress."""
        group = self._options.group_id
        if group is not None and positions.offsets != self._committed:
            self._committed = dict(positions.offsets)
            self._offset_reader.commit(group, positions.offsets)


def _names(topics: set[str]) -> str:
    return ("topic " if len(topics) == 1 else "topics ") + ", ".join(map(repr, sorted(topics)))
