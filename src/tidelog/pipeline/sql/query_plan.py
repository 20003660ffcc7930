"""Plans a query over relations as a DataFrame: the names of streams, tables and topics become Spark views.

In a continuous query, streams are read continuously.  A table beside a stream is read whole in every micro-batch; a table
alone is the stream of its changes."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tidelog.pipeline.sql.catalog import Catalog
from tidelog.pipeline.sql.foreign import FUNCTIONS
from tidelog.pipeline.sql.names import relations_of
from tidelog.pipeline.sql.relations import HIDDEN, frame
from tidelog.pipeline.sql.rewriting import named_among, rewritten, tables_of
from tidelog.pipeline.sql.statements import SqlError, SqlQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidelog.pipeline.streams.pipeline import Pipeline

_VIEWS = itertools.count()


@dataclass(frozen=True)
class QueryPlan:
    df: DataFrame
    mode: str
    keys: tuple[str, ...]  # the key columns of a table made from the query


def planned(
    pipeline: Pipeline, catalog: Catalog, query: SqlQuery, streaming: bool, topics: Callable[[], list[str]]
) -> QueryPlan:
    tree, tables = query.tree, tables_of(query)
    relations = relations_of(catalog, query, topics)
    if streaming and not relations:
        raise SqlError("EMIT CHANGES needs a stream, table or topic to read from")
    looked_up = streaming and any(relation.kind == "stream" for relation in relations)
    named, views = named_among(query, HIDDEN), []
    for table, relation in zip(tables, relations, strict=True):
        version = table.args.get("version")
        live = streaming and not (looked_up and relation.kind == "table")
        rows = frame(pipeline, relation, live, version)
        view = f"_tidelog_{next(_VIEWS)}"
        rows.drop(*[column for column in HIDDEN if column not in named]).createOrReplaceTempView(view)
        views.append((table, view))
    df = _run(pipeline, rewritten(query, views, named), query)
    grouped = tree.find(exp.Group) is not None or any(
        isinstance(aggregate, exp.AggFunc)
        for select in tree.find_all(exp.Select)
        for aggregate in _aggregates(select)
    )
    mode = "update" if grouped and query.emit != "final" and not _sessions(tree) else "append"
    return QueryPlan(df, mode, _group_keys(tree, df))


def _run(pipeline: Pipeline, text: str, query: SqlQuery) -> DataFrame:
    from pyspark.errors import PySparkException

    # PySpark also logs what it raises.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        return pipeline.spark.sql(text)
    except PySparkException as problem:
        reason = str(problem).split("\n")[0]
        reason = re.sub(r";? line \d+ pos \d+.*$", "", re.sub(r"\s*SQLSTATE: \w+.*$", "", reason))
        reason = re.sub(r"^\[[\w.]+\]\s*", "", reason)
        names = re.findall(r"`([^`]+)`", reason)
        place = next(
            (at for at in (query.position(name) for name in names) if at[0] is not None), (None, None)
        )
        raise SqlError(reason, *place) from None


def _aggregates(select: exp.Select) -> list[Any]:
    return [
        aggregate
        for expression in select.expressions
        for aggregate in expression.find_all(exp.AggFunc)
        if not aggregate.find_ancestor(exp.Window)
    ]


def _sessions(tree: exp.Expression) -> bool:
    """True if the query has session windows, which Spark emits only when they have ended."""
    return any(function.name.lower() == "session_window" for function in tree.find_all(exp.Anonymous)) or any(
        function.sql_name().lower() == "session_window"
        for function in tree.find_all(exp.Func)
        if not isinstance(function, exp.Anonymous)
    )


def _group_keys(tree: exp.Expression, df: DataFrame) -> tuple[str, ...]:
    """The key columns of a grouped query: all selected columns that are not aggregates depend on the grouping."""
    if not isinstance(tree, exp.Select) or tree.args.get("group") is None:
        return ()
    names = [
        expression.alias_or_name or df.columns[at]
        for at, expression in enumerate(tree.expressions)
        if expression.find(exp.AggFunc) is None
        and not any(function.name.upper() in FUNCTIONS for function in expression.find_all(exp.Anonymous))
    ]
    return tuple(name for name in names if name in df.columns)
