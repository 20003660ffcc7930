"""`spark.readStream.format("tidelog")`: where a micro-batch ends, and which tasks read it.

Spark keeps one of these in a process of its own for the life of a query, and gives copies to tasks.
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
        self._survey: OffsetReader | None = None
        self._initial: StreamPositions | None = None
        self._until: StreamPositions | None = None
        self._latest: StreamPositions | None = None
        self._committed: Mapping[TopicPartition, int] = {}

    # On the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        # Spark asks more than once before the first batch, and must hear the same.
        if self._initial is None:
            scope = self._asked.scope()
            starts = self._asked.at(self._options.starting, scope.partitions)
            self._initial = StreamPositions(starts, scope.ids, first=True)
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_records_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        since = StreamPositions.from_json(start)
        self._processed(since)
        scope = self._scope(since)
        self._latest = StreamPositions(self._asked.last(scope.partitions), scope.ids)
        until = self._latest if self._until is None else self._until
        begins = self._begins(since, until)
        ends = self._ends(since, begins, until)
        if isinstance(limit, ReadMaxRows):
            ends = admit(begins, ends, limit.max_rows)
        if ends == dict(since.offsets):
            # To the letter the same: Spark takes anything else for new data.
            return start
        return since.ended(StreamPositions(ends, until.ids)).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else self._latest.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        scope = self._asked.scope(gone=not self._options.fail_on_data_loss)
        self._until = StreamPositions(self._asked.last(scope.partitions), scope.ids)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        until = StreamPositions.from_json(end)
        since = StreamPositions.from_json(start).really(until)
        begins = self._begins(since, until)
        ranges = []
        for one, finish in until.offsets.items():
            if finish < begins[one]:
                lost(self._options, f"{one} was read up to {begins[one]}, but ends at {finish} now")
            ranges.append(OffsetRange(one, begins[one], max(begins[one], finish), until.ids.get(one.topic)))
        tasks = split(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(one) for one in tasks]

    def commit(self, end: dict[str, Any]) -> None:
        self._processed(StreamPositions.from_json(end))

    def stop(self) -> None:
        if self._survey is not None:
            self._survey.close()
            self._survey = None

    # In tasks

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, RangePartition) and partition.wanted is not None
        return self._shape.shaped(read_range(self._options, partition.wanted))

    def __getstate__(self) -> dict[str, Any]:
        of_driver: dict[str, Any] = {
            "_survey": None,
            "_initial": None,
            "_until": None,
            "_latest": None,
            "_committed": {},
        }
        return {**self.__dict__, **of_driver}

    # Inside

    @property
    def _asked(self) -> OffsetReader:
        if self._survey is None:
            self._survey = OffsetReader(self._options)
        return self._survey

    def _scope(self, since: StreamPositions) -> SourcePartitions:
        """What is there now, compared with what the query has read so far."""
        scope = self._asked.scope(gone=not self._options.fail_on_data_loss)
        strangers = {one for one in since.offsets if not self._options.wants(one)}
        if strangers and len(strangers) == len(since.offsets):
            raise PipelineError(
                f"the checkpoint belongs to a query that reads {_names(since.topics)}, and this one reads "
                f"{self._options.what()}: give it a checkpoint of its own"
            )
        for name, known in since.ids.items():
            if name in scope.ids and scope.ids[name] != known:
                lost(
                    self._options,
                    f"topic {name!r} was deleted and made anew: the query goes on with the beginning of the new one",
                )
        for one in since.offsets:
            if one not in strangers and one not in scope.partitions:
                lost(self._options, f"{one} was read by this query and is not there any more")
        return scope

    def _begins(self, since: StreamPositions, until: StreamPositions) -> dict[TopicPartition, int]:
        """Where each partition of `until` is to be read from; those that are new, from their beginning."""
        begins, new = {}, []
        for one in until.offsets:
            same = since.ids.get(one.topic) == until.ids.get(one.topic)
            if one in since.offsets and same:
                begins[one] = since.offsets[one]
            else:
                new.append(one)
        return begins | self._asked.first(new)

    def _ends(
        self, since: StreamPositions, begins: Mapping[TopicPartition, int], until: StreamPositions
    ) -> dict[TopicPartition, int]:
        """No partition ends before it begins, unless its log has become shorter than what was read of it."""
        ends = {one: max(begins[one], offset) for one, offset in until.offsets.items()}
        ahead = {
            one: begins[one]
            for one, offset in until.offsets.items()
            if offset < begins[one] and begins[one] == since.offsets.get(one)
        }
        for one, end in self._asked.shortened(ahead).items():
            said = "the query begins at" if since.first else "the query has read up to"
            lost(self._options, f"{said} offset {ahead[one]} of {one}, but its log ends at {end}")
            ends[one] = end
        return ends

    def _processed(self, positions: StreamPositions) -> None:
        """Spark is done with what lies below: the group's lag may show it."""
        group = self._options.group_id
        if group is not None and positions.offsets != self._committed:
            self._committed = dict(positions.offsets)
            self._asked.commit(group, positions.offsets)


def _names(topics: set[str]) -> str:
    return ("topic " if len(topics) == 1 else "topics ") + ", ".join(map(repr, sorted(topics)))
