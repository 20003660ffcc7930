"""Finds mistyped names of a query before Spark starts: streams, tables, topics, and columns where that is certain."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from sqlglot import exp

from tidelog.pipeline.sql.catalog import Catalog, Relation
from tidelog.pipeline.sql.foreign import COLUMNS
from tidelog.pipeline.sql.rewriting import full_name, tables_of
from tidelog.pipeline.sql.statements import SqlError, SqlQuery

OF_RECORD = ("_key", "_topic", "_partition", "_offset", "_timestamp", "_headers")
OF_WINDOWS = ("window", "session_window")
# Nodes that bring names of their own, which only Spark knows.
WITH_NAMES = (exp.Lambda, exp.Lateral, exp.Subquery, exp.Pivot, exp.CTE, exp.SetOperation)


def undeclared(topic: str) -> Relation:
    return Relation("stream", topic, topic, "text", ())


def relations_of(catalog: Catalog, query: SqlQuery, topics: Callable[[], list[str]]) -> list[Relation]:
    """The relations that the query reads, in the order of `tables_of`; raises an error for a name that does not exist."""
    relations = [relation_of(catalog, table, query, topics) for table in tables_of(query)]
    if len(relations) == 1:
        _check_columns(query, relations[0])
    return relations


def relation_of(
    catalog: Catalog, table: exp.Table, query: SqlQuery, topics: Callable[[], list[str]]
) -> Relation:
    name = full_name(table)
    relation = catalog.get(name)
    if relation is not None:
        return relation
    existing = topics()
    if name in existing:
        return undeclared(name)
    hint = _hint(name, [*(declared.name for declared in catalog), *existing])
    raise SqlError(f"there is no stream, table or topic {name!r}{hint}", *query.position(table.name))


def _check_columns(query: SqlQuery, relation: Relation) -> None:
    """An error for a column that is a mistyped column of the only relation."""
    columns = [name for name, _ in relation.columns] or (
        ["key", "value"] if relation.format == "text" else []
    )
    if not columns or query.tree.find(*WITH_NAMES) is not None:
        return
    aliases = [alias.alias for alias in query.tree.find_all(exp.Alias)]
    readable = {name.lower() for name in (*columns, *aliases, *OF_RECORD, *OF_WINDOWS)}
    for column in query.tree.find_all(exp.Column):
        name = column.name
        # What is no name at all, and what resembles no column, is left to Spark: it may be a function without brackets.
        if column.table or not name or name.lower() in readable:
            continue
        if name.lower() in COLUMNS:
            raise SqlError(f"{name} is {COLUMNS[name.lower()]} here", *query.position(name))
        hint = _hint(name, [*columns, *OF_RECORD])
        if hint:
            raise SqlError(f"{relation.name} has no column {name!r}{hint}", *query.position(name))


def _hint(name: str, candidates: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(candidates), n=1)
    return f": did you mean {near[0]!r}?" if near else ""
