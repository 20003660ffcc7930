"""`write` and `writeStream.format("tidelog")`: tasks write, the driver decides.

At least once: a task's records are acknowledged when it ends; what a failed attempt has written stays.  Exactly once:
each task leaves its transaction open, and `committing` ends them all.
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
from tidelog.pipeline.decision import Epoch, Part
from tidelog.pipeline.option_text import PipelineError
from tidelog.pipeline.outgoing import RecordColumnsOfRows
from tidelog.pipeline.sink_options import SinkOptions
from tidelog.pipeline.worker_memory import task_done

if TYPE_CHECKING:
    import pyarrow

    from tidelog.client.blocking.producer import Producer

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
# A stream's life is the group of its jobs, unless somebody has given them another.
GROUP, APPLICATION, EXECUTION = "spark.jobGroup.id", "spark.app.id", "spark.sql.execution.id"


@dataclass
class Written(WriterCommitMessage):
    """What a task says to the driver; `epoch` is None without transactions."""

    epoch: Epoch | None
    part: Part
    attempt: int
    passing: bool
    """Of a write outside of any stream: it has one epoch, and is not heard of again."""


class TaskWriter:
    """A task's part of the work, in streams and in batches."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = RecordColumnsOfRows(schema, options)
        # Outside of streams, what is written at once has nothing but this to be known by.
        self._id = uuid.uuid4().hex

    def write(self, batches: Iterator[pyarrow.RecordBatch]) -> Written:
        written = self._write(batches)
        task_done()
        return written

    def _write(self, batches: Iterator[pyarrow.RecordBatch]) -> Written:
        task = TaskContext.get()
        assert task is not None, "Spark runs this in tasks only"
        index, attempt = task.partitionId(), task.attemptNumber()
        if not self._options.exactly_once:
            with _producer_of(self._options, None) as producer:
                rows, size = self._send(producer, batches)
            return Written(None, Part(index, None, rows, size), attempt, False)
        query = task.getLocalProperty(QUERY)
        epoch = Epoch(
            query or self._id,
            self._options.sink_id,
            _run_of(task) if query else self._id,
            int(task.getLocalProperty(BATCH) or 0) if query else 0,
        )
        part = self._write_part(f"{epoch.prefix}{index}/{attempt}", index, batches)
        return Written(epoch, part, attempt, query is None)

    def _write_part(self, transactional_id: str, index: int, batches: Iterator[Any]) -> Part:
        first = next((one for one in batches if one.num_rows), None)
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
        """How many rows, and how many bytes of keys and values."""
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
        for one in sent:
            one.get()
        return rows, size


def _producer_of(options: SinkOptions, transactional_id: str | None) -> AbstractContextManager[Producer]:
    """Only tasks need a client: whoever plans a write shall not wait until it is imported."""
    from tidelog.pipeline.producers import producer_of

    return producer_of(options, transactional_id)


def _run_of(task: TaskContext) -> str:
    """Never the same in two lives of a query: transactions of an earlier one, decided and not ended yet, must not be
    fenced."""
    group = task.getLocalProperty(GROUP) or ""
    try:
        return str(uuid.UUID(group))
    except ValueError:
        # Whoever set another group may set the same one every time: then each job counts as a life of its own.
        return f"{task.getLocalProperty(APPLICATION)}/{task.getLocalProperty(EXECUTION)}"


def _bytes_of(column: Any) -> int:
    """Whatever the order and the cut of the batches: the same rows have the same size."""
    import pyarrow.compute as pc

    return int(pc.sum(pc.binary_length(column)).as_py() or 0)


def _after(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _abort(producer: Producer) -> None:
    try:
        producer.abort_transaction()
    except errors.TidelogError:
        pass  # The next of its name aborts it, or its time-out does.


class Driver:
    """The driver's part, in streams and in batches."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from tidelog.pipeline import committing

        written = [one for one in messages if isinstance(one, Written) and one.epoch is not None]
        for epoch in {one.epoch for one in written if one.epoch is not None}:
            committing.commit(
                self._options,
                epoch,
                [one.part for one in written],
                attempts=any(one.attempt for one in written),
                last=any(one.passing for one in written),
            )
        task_done()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from tidelog.pipeline import committing

        written = [one for one in messages if isinstance(one, Written) and one.epoch is not None]
        for epoch in {one.epoch for one in written if one.epoch is not None}:
            committing.abort_undecided(self._options, epoch, [one.part for one in written])


class TidelogStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = TaskWriter(options, schema)
        self._driver = Driver(options)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return self._task.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._driver.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._driver.abort(messages)


class TidelogWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = TaskWriter(options, schema)
        self._driver = Driver(options)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return self._task.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._driver.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._driver.abort(messages)
