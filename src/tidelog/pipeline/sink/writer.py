"""`write` and `writeStream.format("tidelog")`: tasks write records, the driver commits.

At least once: a task's records are acknowledged when the task ends; the records of a failed attempt stay.  Exactly once:
each task leaves its transaction open, and `epoch_commit` ends all of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tidelog import errors
from tidelog.pipeline.options.sink import SinkOptions
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.sink.decision import Epoch, Part
from tidelog.pipeline.sink.rows_to_records import RowsToRecords
from tidelog.pipeline.worker_memory import task_done

if TYPE_CHECKING:
    import pyarrow

    from tidelog.client.blocking.producer import Producer

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
# Spark's job group tells the runs of a stream apart, unless the user has set another group.
GROUP, APPLICATION, EXECUTION = "spark.jobGroup.id", "spark.app.id", "spark.sql.execution.id"


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """A task's message to the driver.  `epoch`: None without transactions."""

    epoch: Epoch | None
    part: Part
    attempt: int
    passing: bool
    """True for a batch write: it has one epoch, and its sink is never used again."""


class TaskWriter:
    """A task's part of a write, in streams and in batches."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = RowsToRecords(schema, options)
        # A batch write has no query id: this id identifies it.
        self._id = uuid.uuid4().hex

    def write(self, batches: Iterator[pyarrow.RecordBatch]) -> TaskCommitMessage:
        written = self._write(batches)
        task_done()
        return written

    def _write(self, batches: Iterator[pyarrow.RecordBatch]) -> TaskCommitMessage:
        task = TaskContext.get()
        assert task is not None, "Spark runs this in tasks only"
        index, attempt = task.partitionId(), task.attemptNumber()
        if not self._options.exactly_once:
            with _producer_of(self._options, None) as producer:
                rows, size = self._send(producer, batches)
            return TaskCommitMessage(None, Part(index, None, rows, size), attempt, False)
        query = task.getLocalProperty(QUERY)
        epoch = Epoch(
            query or self._id,
            self._options.sink_id,
            _run_of(task) if query else self._id,
            int(task.getLocalProperty(BATCH) or 0) if query else 0,
        )
        part = self._write_part(f"{epoch.prefix}{index}/{attempt}", index, batches)
        return TaskCommitMessage(epoch, part, attempt, query is None)

    def _write_part(self, transactional_id: str, index: int, batches: Iterator[Any]) -> Part:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return Part(index, None, 0, 0)
        with _producer_of(self._options, transactional_id) as producer:
            producer.begin_transaction()
            try:
                rows, size = self._send(producer, _after(first, batches))
                return Part(index, producer.prepare_transaction(), rows, size)
            except BaseException:
                _abort(producer)
                raise

    def _send(self, producer: Producer, batches: Iterator[Any]) -> tuple[int, int]:
        """Sends the rows; returns how many rows, and how many bytes of keys and values."""
        sent, rows, size = [], 0, 0
        columns = self._columns.columns
        for batch in batches:
            for topic, part, partitioned in self._columns.outgoing(batch):
                try:
                    delivery = producer.send_batch(
                        topic, part, **columns, partition="partition" if partitioned else None
                    )
                except errors.UnknownTopicOrPartition as problem:
                    raise PipelineError(str(problem)) from None
                sent.append(delivery)
                rows += part.num_rows
                size += sum(_bytes_of(part.column(name)) for name in ("key", "value") if columns[name])
        producer.flush()
        for delivery in sent:
            delivery.get()
        return rows, size


def _producer_of(options: SinkOptions, transactional_id: str | None) -> AbstractContextManager[Producer]:
    """Imported here, because only tasks need a client: the planning of a write must not wait for this import."""
    from tidelog.pipeline.sink.producers import producer_of

    return producer_of(options, transactional_id)


def _run_of(task: TaskContext) -> str:
    """An id that differs between two runs of a query: transactions of an earlier run that are decided and not ended yet
    must not be fenced."""
    group = task.getLocalProperty(GROUP) or ""
    try:
        return str(uuid.UUID(group))
    except ValueError:
        # A user who sets another group may set the same group every time: then each job counts as a run of its own.
        return f"{task.getLocalProperty(APPLICATION)}/{task.getLocalProperty(EXECUTION)}"


def _bytes_of(column: Any) -> int:
    """The bytes in a column; the same rows have the same size, whatever the order and the cut of the batches."""
    import pyarrow.compute as pc

    return int(pc.sum(pc.binary_length(column)).as_py() or 0)


def _after(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _abort(producer: Producer) -> None:
    try:
        producer.abort_transaction()
    except errors.TidelogError:
        pass  # The next producer with this transactional id aborts the transaction, or its timeout does.


class SinkDriver:
    """The driver's part of a write, in streams and in batches."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from tidelog.pipeline.sink import epoch_commit

        written = [
            message
            for message in messages
            if isinstance(message, TaskCommitMessage) and message.epoch is not None
        ]
        for epoch in {message.epoch for message in written if message.epoch is not None}:
            epoch_commit.commit(
                self._options,
                epoch,
                [message.part for message in written],
                attempts=any(message.attempt for message in written),
                last=any(message.passing for message in written),
            )
        task_done()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from tidelog.pipeline.sink import epoch_commit

        written = [
            message
            for message in messages
            if isinstance(message, TaskCommitMessage) and message.epoch is not None
        ]
        for epoch in {message.epoch for message in written if message.epoch is not None}:
            epoch_commit.abort_undecided(self._options, epoch, [message.part for message in written])


class TidelogStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = TaskWriter(options, schema)
        self._driver = SinkDriver(options)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return self._task.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._driver.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._driver.abort(messages)


class TidelogWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = TaskWriter(options, schema)
        self._driver = SinkDriver(options)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return self._task.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._driver.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._driver.abort(messages)
