"""A query over relations, as a DataFrame: names of streams, tables and topics become views of Spark's.

In a continuous query streams are read as they come; a table beside a stream is looked up as it stands in every
micro-batch, and a table alone is the stream of its changes."""

from __future__ import annotations

import difflib
import itertools
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tidelog.pipeline.sql.catalog import Catalog, Relation
from tidelog.pipeline.sql.relations import HIDDEN, frame, undeclared
from tidelog.pipeline.sql.rewriting import full_name, named_among, rewritten, tables_of
from tidelog.pipeline.sql.statements import SqlError, SqlQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidelog.pipeline.streams.pipeline import Pipeline

_VIEWS = itertools.count()


@dataclass(frozen=True)
class QueryPlan:
    df: DataFrame
    mode: str
    keys: tuple[str, ...]  # what a table made of it goes by


def planned(
    pipeline: Pipeline, catalog: Catalog, query: SqlQuery, streaming: bool, topics: Callable[[], list[str]]
) -> QueryPlan:
    tree, found = query.tree, tables_of(query)
    relations = [_relation(catalog, one, query, topics) for one in found]
    if streaming and not relations:
        raise SqlError("EMIT CHANGES needs a stream, table or topic to read from")
    looked_up = streaming and any(one.kind == "stream" for one in relations)
    named, views = named_among(query, HIDDEN), []
    for table, relation in zip(found, relations, strict=True):
        version = table.args.get("version")
        live = streaming and not (looked_up and relation.kind == "table")
        rows = frame(pipeline, relation, live, version)
        view = f"_tidelog_{next(_VIEWS)}"
        rows.drop(*[one for one in HIDDEN if one not in named]).createOrReplaceTempView(view)
        views.append((table, view))
    df = _run(pipeline, rewritten(query, views, named), query)
    grouped = tree.find(exp.Group) is not None or any(
        isinstance(one, exp.AggFunc) for select in tree.find_all(exp.Select) for one in _aggregates(select)
    )
    mode = "update" if grouped and query.emit != "final" and not _sessions(tree) else "append"
    return QueryPlan(df, mode, _group_keys(tree, df))


def _relation(
    catalog: Catalog, table: exp.Table, query: SqlQuery, topics: Callable[[], list[str]]
) -> Relation:
    name = full_name(table)
    relation = catalog.get(name)
    if relation is not None:
        return relation
    there = topics()
    if name in there:
        return undeclared(name)
    known = [*(one.name for one in catalog), *there]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f": did you mean {near[0]!r}?" if near else ""
    raise SqlError(f"there is no stream, table or topic {name!r}{hint}", *query.position(table.name))


def _run(pipeline: Pipeline, text: str, query: SqlQuery) -> DataFrame:
    from pyspark.errors import PySparkException

    # PySpark also logs what it raises.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        return pipeline.spark.sql(text)
    except PySparkException as problem:
        said = str(problem).split("\n")[0]
        said = re.sub(r";? line \d+ pos \d+.*$", "", re.sub(r"\s*SQLSTATE: \w+.*$", "", said))
        said = re.sub(r"^\[[\w.]+\]\s*", "", said)
        names = re.findall(r"`([^`]+)`", said)
        place = next((at for at in (query.position(one) for one in names) if at[0] is not None), (None, None))
        raise SqlError(said, *place) from None


def _aggregates(select: exp.Select) -> list[Any]:
    return [
        found
        for one in select.expressions
        for found in one.find_all(exp.AggFunc)
        if not found.find_ancestor(exp.Window)
    ]


def _sessions(tree: exp.Expression) -> bool:
    """Spark gives windows of sessions only when they have ended."""
    return any(one.name.lower() == "session_window" for one in tree.find_all(exp.Anonymous)) or any(
        one.sql_name().lower() == "session_window"
        for one in tree.find_all(exp.Func)
        if not isinstance(one, exp.Anonymous)
    )


def _group_keys(tree: exp.Expression, df: DataFrame) -> tuple[str, ...]:
    """What is selected beside aggregates in a grouped query is a function of what it is grouped by."""
    if not isinstance(tree, exp.Select) or tree.args.get("group") is None:
        return ()
    names = [
        one.alias_or_name or df.columns[at]
        for at, one in enumerate(tree.expressions)
        if one.find(exp.AggFunc) is None
    ]
    return tuple(one for one in names if one in df.columns)
