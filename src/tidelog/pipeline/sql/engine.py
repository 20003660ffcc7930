"""Statements, carried out: queries by Spark, continuous ones as pipelines with a topic at their end.

In the shell a continuous query starts at once; `tidelog pipeline run FILE.sql` collects them and starts them together."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.pipeline.sql import statements
from tidelog.pipeline.sql.catalog import Catalog, Relation
from tidelog.pipeline.sql.declaring import check_columns, declared
from tidelog.pipeline.sql.live import Live
from tidelog.pipeline.sql.planning import Plan, planned
from tidelog.pipeline.sql.relations import HIDDEN, columns_of, undeclared
from tidelog.pipeline.sql.schemas import has_schema, with_schema
from tidelog.pipeline.sql.statements import SqlError, parse_script
from tidelog.pipeline.streams.encode import encoded
from tidelog.pipeline.streams.pipeline import Pipeline
from tidelog.pipeline.streams.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


STATEMENT = "tidelog-sql-statement"
LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Said:
    text: str


@dataclass(frozen=True)
class Rows:
    columns: list[str]
    rows: Iterator[tuple[Any, ...]]
    live: bool = False


Result = Said | Rows


class Engine:
    """`pipeline` has the session, the broker and the options; without `starting` its outputs are only defined."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        starting: bool = True,
        catalog: Catalog | None = None,
        until_done: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._starting = starting
        self._until_done = until_done
        self.catalog = catalog or Catalog()
        self.queries: dict[str, tuple[str, Pipeline]] = {}  # by name: the topic it writes, and what runs it
        self._watched: Live | None = None
        self._cancelled = False

    def script(self, text: str, where: str = "") -> list[Result]:
        """Everything in a text, in order; an error names the file."""
        try:
            return [self.execute(one) for one in parse_script(text)]
        except SqlError as problem:
            raise SqlError(f"{where}: {problem}" if where else str(problem)) from None

    def results(self, text: str) -> Iterator[Result]:
        """Statement by statement, for somebody who looks at each before the next; none follows after `cancel`."""
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
        }
        self._watched = None
        return work[type(statement)](statement)

    def wait(self) -> None:
        """Until the continuous queries have ended."""
        for _, running in list(self.queries.values()):
            while not self._cancelled and not running.wait(LOOK_EVERY_S):
                pass

    def cancel(self) -> None:
        """Ends the statement that another thread carries out, or its wait for what it has started.  Continuous queries go
        on."""
        self._cancelled = True
        if self._watched is not None:
            self._watched.stop()
        self._pipeline.cancel_jobs(STATEMENT)

    def stop(self) -> None:
        for _, running in self.queries.values():
            running.stop()

    # Queries

    def _plan(self, query: statements.Query, streaming: bool) -> Plan:
        return planned(self._pipeline, self.catalog, query, streaming, self.topics)

    def topics(self) -> list[str]:
        with self._admin() as admin:
            return sorted(one.name for one in admin.list_topics())

    def _admin(self) -> Any:
        return self._pipeline.admin()

    def _select(self, statement: statements.Select) -> Result:
        query = statement.query
        if query.emit is None:
            self._can_be_cancelled()
            rows = self._plan(query, streaming=False).df
            return Rows(rows.columns, (tuple(one) for one in rows.toLocalIterator()))
        if not self._starting:
            raise SqlError(
                "SELECT ... EMIT CHANGES shows rows to a person: in a file, CREATE STREAM ... AS SELECT"
            )
        plan = self._plan(query, streaming=True)
        self._watched = Live(plan.df, plan.mode, query.limit, self._until_done)
        return Rows(plan.df.columns, iter(self._watched), live=True)

    def _can_be_cancelled(self) -> None:
        """The jobs that this thread starts from now on; those of continuous queries have groups of their own."""
        self._pipeline.spark.sparkContext.setJobGroup(STATEMENT, "a statement", interruptOnCancel=True)

    def _explain(self, statement: statements.Explain) -> Result:
        plan = self._plan(statement.query, streaming=statement.query.emit is not None)
        text: str = plan.df._jdf.queryExecution().explainString(_explain_mode(plan.df, "formatted"))
        return Said(text.strip())

    # Streams and tables

    def _create(self, statement: statements.Create) -> Result:
        known = self.catalog.get(statement.name)
        if known is not None and not statement.replace:
            if statement.if_not_exists:
                return Said(f"{known.kind} {known.name} is there already")
            raise SqlError(
                f"there is a {known.kind} {known.name} already: CREATE OR REPLACE, or DROP it first"
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
            return Said(f"{relation.kind} {relation.name} is topic {relation.topic}")
        plan = self._plan(statement.query, streaming=True)
        check_columns([one for one in plan.df.columns if one != "_key"])
        keys = (relation.key,) if relation.key is not None else plan.keys if statement.kind == "table" else ()
        for one in keys:
            if one not in plan.df.columns:
                raise SqlError(f"the key {one!r} is not among the columns: {', '.join(plan.df.columns)}")
        key = keys[0] if len(keys) == 1 else None
        relation = with_schema(replace(relation, columns=columns_of(plan.df.schema), key=key))
        self._make_topic(relation, statement.properties)
        # What takes the place of another goes on where that one was; what is new begins anew.
        self._end(statement.name)
        if known is None:
            self._forget(statement.name)
        name = self._continuous(statement.name, plan, keys, relation)
        self.catalog.add(relation)
        return Said(f"{relation.kind} {relation.name} is written to topic {relation.topic} by query {name}")

    def _make_topic(self, relation: Relation, properties: dict[str, str]) -> None:
        from tidelog.client.admin.topics import NewTopic

        with self._admin() as admin:
            if relation.topic in {one.name for one in admin.list_topics()}:
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
        self, name: str, plan: Plan, keys: tuple[str, ...], target: Relation, told_apart: str = ""
    ) -> str:
        """A pipeline of its own in the shell; an output of the file's pipeline else.  `told_apart`: what tells its
        checkpoint from that of others with its name."""
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
        """The query of this name, if there is one, writes no more."""
        found = next((one for one in self.queries if one.lower() == name.lower()), None)
        if found is None:
            return
        _, running = self.queries.pop(found)
        if self._starting:
            running.stop()
        else:
            running.take_back(found)

    def _forget(self, name: str) -> None:
        """Where the queries that wrote to a stream or table in this shell had come to.  Files keep theirs: they are run
        again and again."""
        folder = Path(self._pipeline.checkpoint)
        if self._starting and folder.is_dir():
            for one in folder.iterdir():
                if one.name == name or one.name.startswith(f"{_insert_name(name)}."):
                    shutil.rmtree(one)

    # Writing

    def _insert(self, statement: statements.Insert) -> Result:
        target = self.catalog.get(statement.name) or undeclared(statement.name)
        if target.name == target.topic and target.topic not in self.topics():
            raise SqlError(f"there is no stream, table or topic {statement.name!r} to insert into")
        if statement.query is not None and statement.query.emit is not None:
            plan = self._plan(statement.query, streaming=True)
            plan = replace(plan, df=_named(plan.df, statement, target))
            # The same statement goes on where it was when it is said again.
            text = statement.query.text[statement.query.start : statement.query.end]
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            name = self._continuous(
                _insert_name(target.name), plan, _keys(target, plan.df), target, f".{digest}"
            )
            return Said(f"{target.name} is written to by query {name}")
        self._can_be_cancelled()
        if statement.rows is not None:
            rows = self._pipeline.spark.sql(f"SELECT * FROM {statement.rows}")
        else:
            assert statement.query is not None
            rows = self._plan(statement.query, streaming=False).df
        rows = _named(rows, statement, target)
        stream = Stream(self._pipeline, rows, _keys(target, rows))
        # Read once: what is counted is what is written.
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
        return Said(f"{count} records written to {target.topic}")

    # About them

    def _show(self, statement: statements.Show) -> Result:
        if statement.what == "topics":
            with self._admin() as admin:
                found = admin.list_topics()
            rows: list[tuple[Any, ...]] = sorted((one.name, len(one.partitions)) for one in found)
            return Rows(["topic", "partitions"], iter(rows))
        if statement.what == "queries":
            rows = [(name, topic, _state(running)) for name, (topic, running) in self.queries.items()]
            return Rows(["query", "topic", "state"], iter(rows))
        kind = statement.what.removesuffix("s")
        rows = [(one.name, one.topic, one.format, one.key) for one in self.catalog if one.kind == kind]
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
        return Rows(["column", "type", "about"], iter(rows))

    def _terminate(self, statement: statements.Terminate) -> Result:
        names = list(self.queries) if statement.name is None else [statement.name]
        for name in names:
            if name not in self.queries:
                there = ", ".join(self.queries) or "none"
                raise SqlError(f"there is no query {name!r}: there are {there}")
            self._end(name)
        return Said(f"terminated {', '.join(names) or 'nothing'}")

    def _drop(self, statement: statements.Drop) -> Result:
        relation = self.catalog.get(statement.name)
        if relation is None or relation.kind != statement.kind:
            if statement.if_exists:
                return Said(f"there is no {statement.kind} {statement.name}")
            raise SqlError(f"there is no {statement.kind} {statement.name!r}")
        writers = [name for name, (topic, _) in self.queries.items() if topic == relation.topic]
        if writers:
            raise SqlError(f"{relation.name} is written to by query {writers[0]}: TERMINATE it first")
        self.catalog.remove(relation.name)
        self._forget(relation.name)
        if statement.delete_topic:
            with self._admin() as admin:
                admin.delete_topics([relation.topic])
        return Said(f"{relation.kind} {relation.name} dropped")

    def _set(self, statement: statements.Set) -> Result:
        try:
            self._pipeline.spark.conf.set(statement.name, statement.value)
        except Exception as problem:
            raise SqlError(str(problem).split("\n")[0]) from None
        return Said(f"{statement.name} is {statement.value}")


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
    """Columns of a query have the names of the target's, by position, unless they have them already."""
    wanted = list(statement.columns) or [name for name, _ in target.columns]
    if not wanted and target.format == "text":
        wanted = ["key", "value"]
    if len(rows.columns) != len(wanted):
        raise SqlError(
            f"{len(rows.columns)} columns are given, {target.name} has {len(wanted)}: {', '.join(wanted)}"
        )
    known = dict(target.columns)
    for name in statement.columns:
        if known and name not in known:
            raise SqlError(f"{target.name} has no column {name!r}: there are {', '.join(known)}")
    same = not statement.columns and set(rows.columns) == set(wanted)
    if not same:
        rows = rows.toDF(*wanted)
    return rows.selectExpr(*[f"CAST(`{name}` AS {known.get(name, 'STRING')}) AS `{name}`" for name in wanted])


def _state(running: Pipeline) -> str:
    states = [
        "running" if query.isActive else "failed" if query.exception() is not None else "ended"
        for query in running.queries.values()
    ]
    return next((one for one in ("failed", "running") if one in states), "ended" if states else "defined")


def _explain_mode(df: DataFrame, mode: str) -> Any:
    jvm = df.sparkSession._jvm
    assert jvm is not None
    return jvm.org.apache.spark.sql.execution.ExplainMode.fromString(mode)
