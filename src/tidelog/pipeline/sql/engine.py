"""Executes SQL statements: queries run on Spark, and continuous queries are pipelines that write to a topic.

In the shell a continuous query starts at once; `tidelog pipeline run FILE.sql` collects the queries and starts them
together."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.pipeline.sql import statements
from tidelog.pipeline.sql.catalog import Catalog, Relation
from tidelog.pipeline.sql.declarations import check_columns, declared
from tidelog.pipeline.sql.live_rows import LiveRows
from tidelog.pipeline.sql.names import relation_of, relations_of, undeclared
from tidelog.pipeline.sql.query_plan import QueryPlan, planned
from tidelog.pipeline.sql.relations import HIDDEN, columns_of
from tidelog.pipeline.sql.schemas import has_schema, with_schema
from tidelog.pipeline.sql.statements import SqlError, parse_script
from tidelog.pipeline.streams.encode import encoded
from tidelog.pipeline.streams.pipeline import Pipeline
from tidelog.pipeline.streams.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


log = logging.getLogger("tidelog.pipeline")

STATEMENT = "tidelog-sql-statement"
LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Notice:
    text: str


@dataclass(frozen=True)
class Rows:
    columns: list[str]
    rows: Iterator[tuple[Any, ...]]
    live: bool = False


Result = Notice | Rows


class Engine:
    """`pipeline`: has the session, the broker and the options; without `starting` its outputs are only defined."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        starting: bool = True,
        catalog: Catalog | None = None,
        until_done: bool = False,
        direct: bool = False,
    ) -> None:
        """`direct`: simple queries are answered without Spark, as long as no setting of Spark was changed."""
        self._pipeline = pipeline
        self._starting = starting
        self._until_done = until_done
        self._direct = direct
        self._job_group = f"{STATEMENT}-{uuid.uuid4().hex}"  # Other engines may share the Spark.
        self.catalog = catalog or Catalog()
        self.queries: dict[str, tuple[str, Pipeline]] = {}  # by name: the topic it writes, and its pipeline
        self._watched: LiveRows | None = None
        self._cancelled = False

    def script(self, text: str, where: str = "") -> list[Result]:
        """Executes all statements of a text, in order; an error names the file."""
        try:
            return [self.execute(statement) for statement in parse_script(text)]
        except SqlError as problem:
            raise SqlError(f"{where}: {problem}" if where else str(problem)) from None

    def results(self, text: str) -> Iterator[Result]:
        """Executes statement by statement, each when its result is requested; no statement follows after `cancel`."""
        self._cancelled = False
        for statement in parse_script(text):
            if not self._cancelled:
                yield self.execute(statement)

    def execute(self, statement: statements.Statement) -> Result:
        work: dict[type, Callable[[Any], Result]] = {
            statements.Create: self._create,
            statements.Insert: self._insert,
            statements.Select: self._select,
            statements.Explain: self._explain,
            statements.Show: self._show,
            statements.Describe: self._describe,
            statements.Terminate: self._terminate,
            statements.Drop: self._drop,
            statements.Set: self._set,
            statements.Alter: self._alter,
        }
        self._watched = None
        return work[type(statement)](statement)

    def wait(self) -> None:
        """Waits until the continuous queries have ended."""
        for _, running in list(self.queries.values()):
            while not self._cancelled and not running.wait(LOOK_EVERY_S):
                pass

    def cancel(self) -> None:
        """Ends the statement that another thread executes, or its wait for the queries.  Continuous queries go on."""
        self._cancelled = True
        if self._watched is not None:
            self._watched.stop()
        self._pipeline.cancel_jobs(self._job_group)

    def stop(self) -> None:
        for _, running in self.queries.values():
            running.stop()

    # Queries

    def _plan(self, query: statements.SqlQuery, streaming: bool, catalog: Catalog | None = None) -> QueryPlan:
        return planned(self._pipeline, catalog or self.catalog, query, streaming, self.topics)

    def _catalog_of(self, statement: statements.Select) -> Catalog:
        return Catalog() if statement.of_topic else self.catalog

    def topics(self) -> list[str]:
        with self._admin() as admin:
            return sorted(topic.name for topic in admin.list_topics())

    def _admin(self) -> Any:
        return self._pipeline.admin()

    def _select(self, statement: statements.Select) -> Result:
        query = statement.query
        directly = self.without_spark(statement)
        if directly is not None:
            return directly
        if query.emit is None:
            self._can_be_cancelled()
            rows = self._plan(query, streaming=False).df
            return Rows(rows.columns, (tuple(row) for row in rows.toLocalIterator()))
        if not self._starting:
            raise SqlError(
                "SELECT ... EMIT CHANGES shows rows to a person: in a file, use CREATE STREAM ... AS SELECT"
            )
        plan = self._plan(query, streaming=True, catalog=self._catalog_of(statement))
        self._watched = LiveRows(plan.df, plan.mode, query.limit, self._until_done)
        return Rows(plan.df.columns, iter(self._watched), live=True)

    def without_spark(self, statement: statements.Select) -> Rows | None:
        """The rows of a query that needs no Spark; None if Spark has to answer.  Raises an error for a mistyped name."""
        query = statement.query
        relations_of(self._catalog_of(statement), query, self.topics)
        if not self._direct or query.emit is not None:
            return None
        from tidelog.pipeline.sql.direct.answer import answered, only_table
        from tidelog.pipeline.sql.direct.plan import NotDirect

        try:
            relation = relation_of(self._catalog_of(statement), only_table(query), query, self.topics)
            answer = answered(self._pipeline, relation, query, lambda: self._cancelled)
        except NotDirect as reason:
            log.debug("Spark runs this query: %s", reason)
            return None
        return Rows(answer.columns, answer.rows)

    def use_spark(self) -> None:
        """From now on Spark answers every query."""
        self._direct = False

    def _can_be_cancelled(self) -> None:
        """Makes the jobs that this thread starts from now on cancellable; continuous queries have job groups of their
        own."""
        self._pipeline.spark.sparkContext.setJobGroup(self._job_group, "a statement", interruptOnCancel=True)

    def _explain(self, statement: statements.Explain) -> Result:
        plan = self._plan(statement.query, streaming=statement.query.emit is not None)
        text: str = plan.df._jdf.queryExecution().explainString(_explain_mode(plan.df, "formatted"))
        return Notice(text.strip())

    # Streams and tables

    def _create(self, statement: statements.Create) -> Result:
        existing = self.catalog.get(statement.name)
        if existing is not None and not statement.replace:
            if statement.if_not_exists:
                return Notice(f"{existing.kind} {existing.name} already exists")
            raise SqlError(
                f"{existing.kind} {existing.name} already exists: CREATE OR REPLACE, or DROP it first"
            )
        relation = declared(statement)
        if statement.query is None:
            if not statement.columns and relation.format == "json" and not has_schema(relation):
                raise SqlError(
                    f"{statement.name} has no columns: CREATE {statement.kind.upper()} name (id BIGINT, ...)"
                )
            relation = with_schema(relation)
            self._make_topic(relation, statement.properties)
            self._end(statement.name)
            self.catalog.add(relation)
            return Notice(f"{relation.kind} {relation.name} is topic {relation.topic}")
        plan = self._plan(statement.query, streaming=True)
        check_columns([column for column in plan.df.columns if column != "_key"])
        keys = (relation.key,) if relation.key is not None else plan.keys if statement.kind == "table" else ()
        for column in keys:
            if column not in plan.df.columns:
                raise SqlError(f"the key {column!r} is not among the columns: {', '.join(plan.df.columns)}")
        key = keys[0] if len(keys) == 1 else None
        relation = with_schema(replace(relation, columns=columns_of(plan.df.schema), key=key))
        self._make_topic(relation, statement.properties)
        # A replacement continues where the replaced query was; a new stream or table begins without a checkpoint.
        self._end(statement.name)
        if existing is None:
            self._forget(statement.name)
        name = self._continuous(statement.name, plan, keys, relation)
        self.catalog.add(relation)
        return Notice(f"{relation.kind} {relation.name} is written to topic {relation.topic} by query {name}")

    def _make_topic(self, relation: Relation, properties: dict[str, str]) -> None:
        from tidelog.client.admin.topics import NewTopic

        with self._admin() as admin:
            if relation.topic in {topic.name for topic in admin.list_topics()}:
                return
            counts = {}
            for name, default in (("partitions", 1), ("replicas", -1)):
                text = properties.get(name, str(default))
                if not text.lstrip("-").isdigit():
                    raise SqlError(f"{name} is a number, not {text!r}")
                counts[name] = int(text)
            configs = {"cleanup.policy": "compact"} if relation.kind == "table" else {}
            new = NewTopic(
                relation.topic,
                partitions=counts["partitions"],
                replication_factor=counts["replicas"],
                configs=configs,
            )
            admin.create_topics([new])

    def _continuous(
        self, name: str, plan: QueryPlan, keys: tuple[str, ...], target: Relation, told_apart: str = ""
    ) -> str:
        """Starts a continuous query: in the shell as its own pipeline, otherwise as an output of the file's pipeline.
        `told_apart`: distinguishes its checkpoint from those of other queries with its name."""
        taken = {*self.queries}
        number, unique = 1, name
        while unique in taken:
            number += 1
            unique = f"{name}-{number}"
        folder = os.path.join(self._pipeline.checkpoint, unique + told_apart)
        running = self._pipeline
        if self._starting:
            running = self._pipeline.another(f"{self._pipeline.name}.{unique}", folder)
        stream = Stream(running, plan.df, keys, mode=plan.mode)
        running.write(stream, target.topic, name=unique, **_encoding(target))
        if self._starting:
            running.start(until_done=self._until_done)
        self.queries[unique] = (target.topic, running)
        return unique

    def _end(self, name: str) -> None:
        """Ends the query with this name, if there is one."""
        query = next((query_name for query_name in self.queries if query_name.lower() == name.lower()), None)
        if query is None:
            return
        _, running = self.queries.pop(query)
        if self._starting:
            running.stop()
        else:
            running.take_back(query)

    def _forget(self, name: str) -> None:
        """Removes the checkpoints of queries that wrote to a stream or table in this shell.  Files keep theirs, because
        files run again and again."""
        folder = Path(self._pipeline.checkpoint)
        if self._starting and folder.is_dir():
            for checkpoint in folder.iterdir():
                if checkpoint.name == name or checkpoint.name.startswith(f"{_insert_name(name)}."):
                    shutil.rmtree(checkpoint)

    # Writing

    def _insert(self, statement: statements.Insert) -> Result:
        target = self.catalog.get(statement.name) or undeclared(statement.name)
        if target.name == target.topic and target.topic not in self.topics():
            raise SqlError(f"there is no stream, table or topic {statement.name!r} to insert into")
        if statement.query is not None and statement.query.emit is not None:
            plan = self._plan(statement.query, streaming=True)
            plan = replace(plan, df=_named(plan.df, statement, target))
            # The same statement, executed again, continues where it was.
            text = statement.query.text[statement.query.start : statement.query.end]
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            name = self._continuous(
                _insert_name(target.name), plan, _keys(target, plan.df), target, f".{digest}"
            )
            return Notice(f"{target.name} is written to by query {name}")
        if statement.query is not None:
            relations_of(self.catalog, statement.query, self.topics)
        self._can_be_cancelled()
        if statement.rows is not None:
            rows = self._pipeline.spark.sql(f"SELECT * FROM {statement.rows}")
        else:
            assert statement.query is not None
            rows = self._plan(statement.query, streaming=False).df
        rows = _named(rows, statement, target)
        stream = Stream(self._pipeline, rows, _keys(target, rows))
        # Read once, so that the records counted are the records written.
        how = _encoding(target)
        records, of_sink = encoded(stream, how.pop("format"), how.pop("key"), how.pop("value"), how)
        records = records.persist()
        try:
            count = records.count()
            options = {"bootstrap": self._pipeline.bootstrap, **self._pipeline.options, **of_sink}
            options["topic"] = target.topic
            records.write.format("tidelog").options(**options).mode("append").save()
        finally:
            records.unpersist()
        return Notice(f"{count} records written to {target.topic}")

    # Catalog

    def _show(self, statement: statements.Show) -> Result:
        if statement.subject == "topics":
            with self._admin() as admin:
                topics = admin.list_topics()
            rows: list[tuple[Any, ...]] = sorted((topic.name, len(topic.partitions)) for topic in topics)
            return Rows(["topic", "partitions"], iter(rows))
        if statement.subject == "queries":
            rows = [(name, topic, _state(running)) for name, (topic, running) in self.queries.items()]
            return Rows(["query", "topic", "state"], iter(rows))
        kind = statement.subject.removesuffix("s")
        rows = [
            (relation.name, relation.topic, relation.format, relation.key)
            for relation in self.catalog
            if relation.kind == kind
        ]
        return Rows([kind, "topic", "format", "key"], iter(rows))

    def _describe(self, statement: statements.Describe) -> Result:
        relation = self.catalog.get(statement.name)
        if relation is None:
            if statement.name not in self.topics():
                raise SqlError(f"there is no stream, table or topic {statement.name!r}")
            relation = undeclared(statement.name)
        plain = (("key", "string"), ("value", "string")) if relation.format == "text" else ()
        rows = [
            (
                name,
                kind.lower(),
                "key" if name == relation.key else "time" if name == relation.timestamp else "",
            )
            for name, kind in relation.columns or plain
        ]
        hidden = ("binary", "string", "int", "bigint", "timestamp")
        rows += [(name, kind, "of the record") for name, kind in zip(HIDDEN, hidden, strict=False)]
        if statement.extended:
            rows += self._details(relation)
        return Rows(["column", "type", "about"], iter(rows))

    def _details(self, relation: Relation) -> list[tuple[Any, ...]]:
        """How the relation is read, and its topic."""
        fields = ("topic", "format", "key", "timestamp", "watermark", "starting", "on_error")
        details = {name: getattr(relation, name) for name in fields}
        details |= {name: value for name, value in relation.options.items() if name != "schema"}
        with self._admin() as admin:
            partitions = len(admin.describe_topics([relation.topic])[relation.topic].partitions)
        rows: list[tuple[Any, ...]] = [
            (name, str(value), "property") for name, value in details.items() if value
        ]
        rows.append(("partitions", str(partitions), "property"))
        writers = [name for name, (topic, _) in self.queries.items() if topic == relation.topic]
        return rows + [("query", name, "writes it") for name in writers]

    def _alter(self, statement: statements.Alter) -> Result:
        relation = self.catalog.get(statement.name)
        if relation is None or relation.kind != statement.kind:
            raise SqlError(f"there is no {statement.kind} {statement.name!r}")
        if relation.format != "json" or has_schema(relation):
            raise SqlError(
                f"the columns of {relation.name} are those of its schema: register a new version of it"
            )
        names = [name for name, _ in statement.columns]
        check_columns(names)
        for name in names:
            if name.lower() in (column.lower() for column, _ in relation.columns):
                raise SqlError(f"{relation.name} already has a column {name!r}")
        self.catalog.add(replace(relation, columns=(*relation.columns, *statement.columns)))
        return Notice(
            f"{relation.kind} {relation.name} has {', '.join(names)}; running queries go on without"
        )

    def _terminate(self, statement: statements.Terminate) -> Result:
        names = list(self.queries) if statement.name is None else [statement.name]
        for name in names:
            if name not in self.queries:
                running = ", ".join(self.queries) or "none"
                raise SqlError(f"there is no query {name!r}: the queries are {running}")
            self._end(name)
        return Notice(f"terminated {', '.join(names) or 'nothing'}")

    def _drop(self, statement: statements.Drop) -> Result:
        relation = self.catalog.get(statement.name)
        if relation is None or relation.kind != statement.kind:
            if statement.if_exists:
                return Notice(f"there is no {statement.kind} {statement.name}")
            raise SqlError(f"there is no {statement.kind} {statement.name!r}")
        writers = [name for name, (topic, _) in self.queries.items() if topic == relation.topic]
        if writers:
            raise SqlError(f"{relation.name} is written to by query {writers[0]}: TERMINATE it first")
        self.catalog.remove(relation.name)
        self._forget(relation.name)
        if statement.delete_topic:
            with self._admin() as admin:
                admin.delete_topics([relation.topic])
        return Notice(f"{relation.kind} {relation.name} dropped")

    def _set(self, statement: statements.Set) -> Result:
        try:
            self._pipeline.spark.conf.set(statement.name, statement.value)
        except Exception as problem:
            raise SqlError(str(problem).split("\n")[0]) from None
        self.use_spark()
        return Notice(f"{statement.name} is {statement.value}")


def _encoding(target: Relation) -> dict[str, Any]:
    """How rows become records of the target, as `Pipeline.write` takes it."""
    if target.format in ("text", "bytes"):
        names = [name for name, _ in target.columns] or ["key", "value"]
        return {"format": target.format, "key": f"`{names[0]}`", "value": f"`{names[1]}`"}
    return {"format": target.format, "key": None, "value": None, **target.options}


def _insert_name(target: str) -> str:
    return f"insert-{target}"


def _keys(target: Relation, df: DataFrame) -> tuple[str, ...]:
    return (target.key,) if target.key is not None and target.key in df.columns else ()


def _named(rows: DataFrame, statement: statements.Insert, target: Relation) -> DataFrame:
    """Names the columns of a query like those of the target, by position, unless they have the same names already."""
    wanted = list(statement.columns) or [name for name, _ in target.columns]
    if not wanted and target.format == "text":
        wanted = ["key", "value"]
    if len(rows.columns) != len(wanted):
        raise SqlError(
            f"{len(rows.columns)} columns are given, {target.name} has {len(wanted)}: {', '.join(wanted)}"
        )
    types = dict(target.columns)
    for name in statement.columns:
        if types and name not in types:
            raise SqlError(f"{target.name} has no column {name!r}: its columns are {', '.join(types)}")
    same = not statement.columns and set(rows.columns) == set(wanted)
    if not same:
        rows = rows.toDF(*wanted)
    return rows.selectExpr(*[f"CAST(`{name}` AS {types.get(name, 'STRING')}) AS `{name}`" for name in wanted])


def _state(running: Pipeline) -> str:
    states = [
        "running" if query.isActive else "failed" if query.exception() is not None else "ended"
        for query in running.queries.values()
    ]
    return next(
        (state for state in ("failed", "running") if state in states), "ended" if states else "defined"
    )


def _explain_mode(df: DataFrame, mode: str) -> Any:
    jvm = df.sparkSession._jvm
    assert jvm is not None
    return jvm.org.apache.spark.sql.execution.ExplainMode.fromString(mode)
