"""The outputs of a pipeline: a topic, files, or a function for every micro-batch.  Each output is one Spark query."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.pipeline.streams.durations import spark_interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class Output(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def clocked(self) -> bool:
        """True if state uses the machine's clock: then Spark runs empty batches without end, and never stops by itself."""

    def start(self, query: str, checkpoint: str, trigger: str | None, until_done: bool) -> StreamingQuery: ...


# Spark gives the process that plans a source ten seconds to start, which may be too short on a busy machine.
SLOW_START = "Python worker failed to connect back"
STARTS_MAX = 8
LOOK_EVERY_S = 0.05


def started(
    output: Output, query: str, checkpoint: str, trigger: str | None, until_done: bool
) -> StreamingQuery:
    """Starts a query and returns when its sources are planned: queries that start one after the other do not starve each
    other."""
    for number in range(STARTS_MAX):
        running = output.start(query, checkpoint, trigger, until_done)
        while running.isActive and running.status["message"].startswith("Initializing"):
            time.sleep(LOOK_EVERY_S)
        problem = None if running.isActive else running.exception()
        if problem is None or SLOW_START not in str(problem) or number == STARTS_MAX - 1:
            break
    return running


def caught_up(query: StreamingQuery) -> bool:
    """True if the last micro-batch found nothing to read, or no micro-batch was needed.

    The first micro-batch of a run may be one that an earlier run began and did not finish.  It reads what it was to read
    then, and so does not show whether later records exist."""
    reports: Any = query.recentProgress
    if len(reports) > 1:
        return int(reports[-1]["numInputRows"]) == 0
    return str(query.status["message"]).startswith("Waiting for data" if reports else "Waiting for")


def _writer(df: DataFrame, query: str, checkpoint: str, trigger: str | None, until_done: bool) -> Any:
    writer = df.writeStream.queryName(query).option("checkpointLocation", checkpoint)
    if until_done:
        return writer.trigger(availableNow=True)
    return writer if trigger is None else writer.trigger(processingTime=spark_interval(trigger))


@dataclass(frozen=True)
class TopicOutput:
    name: str
    rows: DataFrame
    mode: str
    options: Mapping[str, Any]
    clocked: bool = False

    def start(self, query: str, checkpoint: str, trigger: str | None, until_done: bool) -> StreamingQuery:
        writer = _writer(self.rows, query, checkpoint, trigger, until_done and not self.clocked).outputMode(
            self.mode
        )
        options = {name: str(value) for name, value in self.options.items()}
        if self.mode == "append":
            writer = writer.format("tidelog").options(**options)
        else:
            # Spark does not support update mode for sinks in Python: so every micro-batch is written as a batch, and the
            # sink finds the query's id and the batch's number in the task.
            writer = writer.foreachBatch(TopicBatches(options))
        started: StreamingQuery = writer.start()
        return started


class TopicBatches:
    """Writes every micro-batch of updates to a topic."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def __call__(self, rows: DataFrame, number: int) -> None:
        rows.write.format("tidelog").options(**self._options).mode("append").save()


@dataclass(frozen=True)
class TableOutput:
    name: str
    rows: DataFrame
    path: str
    format: str
    partition_by: tuple[str, ...]
    options: Mapping[str, str]
    clocked: bool = False

    def start(self, query: str, checkpoint: str, trigger: str | None, until_done: bool) -> StreamingQuery:
        writer = _writer(self.rows, query, checkpoint, trigger, until_done and not self.clocked)
        writer = writer.format(self.format).options(**self.options).option("path", self.path)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        started: StreamingQuery = writer.outputMode("append").start()
        return started


@dataclass(frozen=True)
class BatchOutput:
    name: str
    rows: DataFrame
    mode: str
    function: Callable[[DataFrame, int], None]
    clocked: bool = False

    def start(self, query: str, checkpoint: str, trigger: str | None, until_done: bool) -> StreamingQuery:
        writer = _writer(self.rows, query, checkpoint, trigger, until_done and not self.clocked)
        started: StreamingQuery = writer.outputMode(self.mode).foreachBatch(self.function).start()
        return started
