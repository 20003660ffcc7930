"""Where a stream goes: a topic, files, or a function for every micro-batch.  Each starts one Spark query."""

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
        """State goes by the machine's clock: Spark runs batches for ever, and never thinks that it is done."""

    def start(self, query: str, checkpoint: str, trigger: str | None, until_done: bool) -> StreamingQuery: ...


# Spark gives the process that plans a source ten seconds to begin, which a busy machine may not keep.
SLOW_START = "Python worker failed to connect back"
STARTS_MAX = 8
LOOK_EVERY_S = 0.05


def started(
    output: Output, query: str, checkpoint: str, trigger: str | None, until_done: bool
) -> StreamingQuery:
    """Returns when the query has its sources: queries that begin one after the other do not starve each other."""
    for number in range(STARTS_MAX):
        running = output.start(query, checkpoint, trigger, until_done)
        while running.isActive and running.status["message"].startswith("Initializing"):
            time.sleep(LOOK_EVERY_S)
        problem = None if running.isActive else running.exception()
        if problem is None or SLOW_START not in str(problem) or number == STARTS_MAX - 1:
            break
    return running


def caught_up(query: StreamingQuery) -> bool:
    """The last micro-batch found nothing to read, or none was needed.

    The first one of a run may be one that an earlier run had begun and not finished: it reads what that one was to
    read, and says nothing about what came since."""
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
            # Spark gives sinks written in Python no updates: they go as batches, each with the query's name and number.
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
