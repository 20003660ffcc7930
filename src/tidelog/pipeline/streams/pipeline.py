"""A pipeline: reads topics as streams, transforms them, and writes outputs; each output is one Spark query.

clicks = Pipeline("clicks", bootstrap="127.0.0.1:9092")
(
    clicks.stream("clicks", schema="user string, page string, at timestamp")
    .key_by("page")
    .watermark("at", "1 minute")
    .tumbling("1 minute")
    .count()
    .suppress()
    .to("page-views")
)
clicks.run()

`tidelog pipeline run clicks.py` runs the same file, with or without its last line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from tidelog.pipeline.options.connection import ALIASES, KNOWN, connection_of
from tidelog.pipeline.options.sink import ENCODING
from tidelog.pipeline.options.text import OptionText, PipelineError
from tidelog.pipeline.streams.decode import (
    Decoded,
    OnError,
    decode_json,
    decoded_by_source,
    mode_of,
    struct_type,
)
from tidelog.pipeline.streams.encode import Format, encoded
from tidelog.pipeline.streams.output import (
    SLOW_START,
    STARTS_MAX,
    BatchOutput,
    Output,
    TableOutput,
    TopicOutput,
    caught_up,
    started,
)
from tidelog.pipeline.streams.session import session, state_settings
from tidelog.pipeline.streams.stream import Stream
from tidelog.pipeline.streams.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.client.blocking.admin import Admin

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
DEAD_LETTERS = "dead-letters"


class StartRequest(NamedTuple):
    """How a file wants its pipeline to be started; the command that runs the file starts it."""

    only: tuple[str, ...] = ()
    until_done: bool = False


class Pipeline:
    def __init__(
        self,
        name: str,
        *,
        bootstrap: str | None = None,
        checkpoint: str | None = None,
        dead_letters: str | None = None,
        guarantee: str = "exactly_once",
        trigger: str | None = None,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """`checkpoint`: a folder that survives restarts (default: `pipelines/NAME` in the current one).

        `trigger`: how often micro-batches begin ('500 ms'); by default one after the other.  `settings`: Spark's settings.
        `options`: options of every source and sink (security, for example).  `tidelog pipeline run` and TIDELOG_BOOTSTRAP
        provide the defaults of the broker, the checkpoint and the master.
        """
        if not NAME.fullmatch(name):
            raise PipelineError(
                f"a pipeline's name consists of letters, digits, '.', '_' and '-', not {name!r}"
            )
        self.name = name
        self.bootstrap = bootstrap or os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
        folder = os.environ.get("TIDELOG_CHECKPOINTS", "pipelines")
        self.checkpoint = checkpoint or os.path.abspath(os.path.join(folder, name))
        self.dead_letters = dead_letters
        self.guarantee = guarantee
        self.trigger = trigger
        self.options = dict(options or {})
        self._spark = spark
        self._master, self._settings = master or os.environ.get("TIDELOG_MASTER"), dict(settings or {})
        self._outputs: dict[str, Output] = {}
        self._dead: list[DataFrame] = []
        self.queries: dict[str, StreamingQuery] = {}
        self._running: dict[str, Output] = {}
        self._until_done = False
        self._starts_left = 0
        self.wanted = StartRequest()
        DEFINED.append(self)

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            self._spark = session(self.name, self._master, self._settings)
        return self._spark

    def cancel_jobs(self, group: str) -> None:
        if self._spark is not None:
            self._spark.sparkContext.cancelJobGroup(group)

    # In

    def stream(
        self,
        topics: str | list[str] | None = None,
        *,
        schema: str | StructType | None = None,
        format: str | None = None,
        starting: str = "earliest",
        on_error: OnError | None = None,
        **options: Any,
    ) -> Stream:
        """The records of topics, as an endless stream.

        With a `schema` (SQL: 'id bigint, at timestamp') values are JSON and become columns.  The formats avro and protobuf
        take the schema's text or a `registry`, as `format("tidelog")` does.  Without a schema, the columns are Kafka's.
        `on_error`: fail, skip, or dead_letter for records that do not fit the schema.  Other options go to the source.
        """
        on_error = on_error or ("fail" if self.dead_letters is None else "dead_letter")
        if on_error == "dead_letter" and self.dead_letters is None:
            raise PipelineError("on_error='dead_letter' needs a topic: Pipeline(..., dead_letters='topic')")
        options = {"starting": starting, "groupId": self.name, **options}
        decoded = self._decoded(topics, options, schema, format, on_error)
        if decoded.dead is not None:
            self.add_dead(decoded.dead)
        return Stream(self, decoded.rows)

    def table(
        self,
        topic: str,
        *,
        schema: str | StructType | None = None,
        key: str = "key",
        key_type: str = "string",
        format: str | None = None,
        on_error: OnError | None = None,
        **options: Any,
    ) -> Table:
        """A compacted topic as a table.  `key`: the name of the column for the records' keys."""
        on_error = on_error or ("fail" if self.dead_letters is None else "dead_letter")
        if schema is None and format is None and "registry" not in options:
            raise PipelineError("a table needs columns: schema='name string, city string', or a registry")
        if schema is not None and format in (None, "json"):
            schema = StructType([field for field in struct_type(schema).fields if field.name != key])

        def rows(streaming: bool) -> Decoded:
            given = {"starting": "earliest", **({"groupId": self.name} if streaming else {}), **options}
            decoded = self._decoded(topic, given, schema, format, on_error, streaming, deletions=True)
            text = F.col("_key") if key_type == "binary" else F.col("_key").cast("string").cast(key_type)
            return Decoded(decoded.rows.where("_key IS NOT NULL").withColumn(key, text), decoded.dead)

        decoded = rows(True)
        if decoded.dead is not None:
            self.add_dead(decoded.dead)
        return Table(self, Stream(self, decoded.rows, (key,)), key, lambda: rows(False).rows)

    def from_df(self, df: DataFrame) -> Stream:
        """A stream from any streaming DataFrame."""
        if not df.isStreaming:
            raise PipelineError(
                "from_df takes a streaming DataFrame (spark.readStream), and this DataFrame is a batch"
            )
        return Stream(self, df)

    def read(self, topics: str | list[str] | None, options: Mapping[str, Any], streaming: bool) -> DataFrame:
        """The records of topics in Kafka's columns, as a batch or a stream.  `options`: options of the source."""
        reader: Any = self.spark.readStream if streaming else self.spark.read
        reader = reader.format("tidelog").option("bootstrap", self.bootstrap)
        if topics is not None:
            options = {"topics": topics if isinstance(topics, str) else ",".join(topics), **options}
        for name, value in {**self.options, **options}.items():
            reader = reader.option(name, str(value).lower() if isinstance(value, bool) else str(value))
        frame: DataFrame = reader.load()
        return frame

    def another(self, name: str, checkpoint: str) -> Pipeline:
        """Another pipeline with the same session, broker and options."""
        return Pipeline(
            name,
            bootstrap=self.bootstrap,
            checkpoint=checkpoint,
            dead_letters=self.dead_letters,
            guarantee=self.guarantee,
            trigger=self.trigger,
            options=self.options,
            spark=self.spark,
        )

    def admin(self) -> Admin:
        """An admin client of the same broker, with the same security options."""
        from tidelog.client.blocking.admin import Admin

        option_names = {name.lower() for name in (*KNOWN, *ALIASES)}
        given = {name: value for name, value in self.options.items() if name.lower() in option_names}
        settings = connection_of(
            OptionText({**given, "bootstrap": self.bootstrap}, KNOWN, ALIASES, "pipeline")
        )
        return Admin(bootstrap_servers=settings.bootstrap, security=settings.security())

    def _decoded(
        self,
        topics: str | list[str] | None,
        options: dict[str, Any],
        schema: str | StructType | None,
        format: str | None,
        on_error: OnError,
        streaming: bool = True,
        deletions: bool = False,
    ) -> Decoded:
        if format not in (None, "json", "avro", "protobuf"):
            raise PipelineError(f"the format is json, avro or protobuf, not {format!r}")
        if format in ("avro", "protobuf") or "registry" in options:
            given = {"format": format or "json", "mode": mode_of(on_error, deletions), **options}
            if schema is not None:
                given["schema"] = schema.simpleString() if isinstance(schema, StructType) else schema
            frame = self.read(topics, given, streaming)
            return decoded_by_source(frame, on_error, self.name, deletions=deletions)
        raw = self.read(topics, options, streaming)
        if schema is None:
            return Decoded(raw, None)
        return decode_json(raw, struct_type(schema), on_error, self.name, deletions=deletions)

    def add_dead(self, rows: DataFrame) -> None:
        """Adds rows that failed, for the dead-letter topic."""
        self._dead.append(rows)

    # Out

    def write(
        self,
        stream: Stream,
        topic: str,
        *,
        name: str | None = None,
        format: Format | None = None,
        key: str | None = None,
        value: str | None = None,
        guarantee: str | None = None,
        **options: Any,
    ) -> None:
        """Writes a stream to a topic.  Values are JSON of all columns; with `format` avro or protobuf they are encoded by a
        `schema` or a `registry` (and `subject`, `message`); with bytes or text they are `value` (SQL).  Keys are those of
        `key_by`, or `key` (SQL)."""
        schema = {name: options.pop(name) for name in ENCODING if name in options}
        rows, of_sink = encoded(stream, format, key, value, schema)
        given = {"bootstrap": self.bootstrap, **self.options, **options, **of_sink, "topic": topic}
        given["guarantee"] = guarantee or self.guarantee
        self._add(TopicOutput(name or topic, rows, stream.mode, given, stream.clocked))

    def write_table(
        self, stream: Stream, path: str, *, format: str = "parquet", name: str | None = None, **options: Any
    ) -> None:
        if stream.mode != "append":
            raise PipelineError(
                "rows that change later cannot be appended to files: .suppress() the windows, or write them to a topic"
            )
        given = {name: str(value) for name, value in options.items() if name != "partition_by"}
        by = options.get("partition_by") or ()
        columns = (by,) if isinstance(by, str) else tuple(by)
        called = name or os.path.basename(path.rstrip("/"))
        self._add(TableOutput(called, stream.df, path, format, columns, given, stream.clocked))

    def write_batches(
        self, stream: Stream, function: Callable[[DataFrame, int], None], *, name: str | None = None
    ) -> None:
        called = name or f"batches-{len(self._outputs)}"
        self._add(BatchOutput(called, stream.df, stream.mode, function, stream.clocked))

    def _add(self, output: Output) -> None:
        if output.name in self._outputs or output.name == DEAD_LETTERS:
            raise PipelineError(
                f"an output {output.name!r} already exists: give this output another name, name=..."
            )
        if self.queries:
            raise PipelineError("the pipeline is running: outputs must be added before it starts")
        self._outputs[output.name] = output

    def take_back(self, name: str) -> None:
        """Removes an output that was added."""
        if self.queries:
            raise PipelineError("the pipeline is running: outputs must be removed before it starts")
        del self._outputs[name]

    # Running

    def outputs(self) -> dict[str, Output]:
        if not self._outputs:
            raise PipelineError(f"pipeline {self.name!r} has no output: end a stream with .to(topic)")
        if not self._dead or self.dead_letters is None:
            return dict(self._outputs)
        rows = reduce(lambda union, other: union.unionByName(other), self._dead)
        given = {
            "bootstrap": self.bootstrap,
            **self.options,
            "topic": self.dead_letters,
            "guarantee": self.guarantee,
        }
        return {**self._outputs, DEAD_LETTERS: TopicOutput(DEAD_LETTERS, rows, "append", given)}

    def start(self, *only: str, until_done: bool = False) -> dict[str, StreamingQuery]:
        """Starts every output (or `only` these) as a query; with `until_done` the queries end when they have processed the
        records that exist now.  In a file that `tidelog pipeline run` reads, this method only records what to start, and
        the command starts it."""
        if any(query.isActive for query in self.queries.values()):
            raise PipelineError(f"pipeline {self.name!r} is already running")
        outputs = self.outputs()
        for name in only:
            if name not in outputs:
                raise PipelineError(f"there is no output {name!r}: the outputs are {', '.join(outputs)}")
        if _reading_files:
            self.wanted = StartRequest(only, until_done)
            return {}
        self.queries, self._running, self._until_done = {}, outputs, until_done
        self._starts_left = STARTS_MAX
        try:
            for name in only or outputs:
                self._begin(name)
        except BaseException:
            self.stop()
            raise
        return dict(self.queries)

    def folder(self, output: str) -> str:
        """The checkpoint folder of one output."""
        return os.path.join(self.checkpoint, _file_name(output))

    def _begin(self, name: str) -> None:
        with state_settings(self.spark):
            self.queries[name] = started(
                self._running[name], f"{self.name}.{name}", self.folder(name), self.trigger, self._until_done
            )

    def run(self, *only: str, until_done: bool = False) -> None:
        """Starts the pipeline and waits until it ends.  If an output fails, the others are stopped and its error raised."""
        self.start(*only, until_done=until_done)
        self.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all queries have ended (true), or for at most `timeout` seconds (false)."""
        import time

        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while True:
                self.settle()
                active = [query for query in self.queries.values() if query.isActive]
                failed = [query.exception() for query in self.queries.values() if not query.isActive]
                problem = next((exception for exception in failed if exception is not None), None)
                if problem is not None:
                    raise problem
                if not active:
                    return True
                if deadline is not None and time.monotonic() >= deadline:
                    return False
                active[0].awaitTermination(1)
        except BaseException:
            self.stop()
            raise

    def settle(self) -> None:
        """Stops queries that are done and would not end by themselves; restarts queries that a busy machine was too slow to
        start."""
        for name, query in list(self.queries.items()):
            if query.isActive:
                if self._until_done and self._running[name].clocked and caught_up(query):
                    query.stop()
            elif self._starts_left > 0 and SLOW_START in str(query.exception()):
                self._starts_left -= 1
                self._begin(name)

    def stop(self) -> None:
        for query in self.queries.values():
            query.stop()

    # State

    def query(
        self, output: str, *, store: str | None = None, operator: int = 0, batch: int | None = None
    ) -> DataFrame:
        """The state of an output in its last checkpoint.  `store`: the name of a store of `process`."""
        from tidelog.pipeline.streams.state import state_of

        return state_of(self.spark, self.folder(output), store, operator, batch)


# Every pipeline that was defined in this process: `tidelog pipeline run FILE.py` starts them.
DEFINED: list[Pipeline] = []
_reading_files = False


@contextmanager
def defined_in_files() -> Iterator[None]:
    """Within this context pipelines are only defined, and the caller starts them: `run` and `start` return at once."""
    global _reading_files
    _reading_files = True
    try:
        yield
    finally:
        _reading_files = False


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
