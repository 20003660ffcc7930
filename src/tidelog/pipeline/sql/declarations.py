"""Makes a relation from CREATE STREAM or CREATE TABLE, and reports all mistakes before anything is created."""

from __future__ import annotations

from tidelog.pipeline.options.source import source_options
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.sql.catalog import FORMATS, OF_SOURCE, PROPERTIES, Relation
from tidelog.pipeline.sql.relations import OF_RECORD
from tidelog.pipeline.sql.statements import Create, SqlError
from tidelog.pipeline.streams.durations import spark_interval


def declared(statement: Create) -> Relation:
    given = statement.properties
    for name in given:
        if name not in (*PROPERTIES, *OF_SOURCE):
            raise SqlError(
                f"there is no property {name!r}: the properties are {', '.join((*PROPERTIES, *OF_SOURCE))}"
            )
    format = given.get("format", "json").lower()
    if format not in FORMATS:
        raise SqlError(f"the format is one of {', '.join(FORMATS)}, not {format!r}")
    on_error = given.get("on_error", "fail").lower()
    if on_error not in ("fail", "skip"):
        raise SqlError(f"on_error is fail or skip, not {on_error!r}")
    names = [name for name, _ in statement.columns]
    check_columns(names)
    key = statement.key or given.get("key")
    for role, column in (("key", key), ("timestamp", given.get("timestamp"))):
        if column is not None and names and column not in names:
            raise SqlError(f"the {role} {column!r} is not among the columns: {', '.join(names)}")
    if statement.kind == "table" and statement.query is None and key is None and format == "json":
        raise SqlError(f"table {statement.name} needs a key: id BIGINT PRIMARY KEY, or WITH (key='id')")
    relation = Relation(
        statement.kind,
        statement.name,
        given.get("topic", statement.name),
        format,
        statement.columns,
        key,
        given.get("timestamp"),
        **{name: given[name] for name in ("watermark", "starting") if name in given},
        options={name: given[name] for name in OF_SOURCE if name in given},
        on_error="skip" if on_error == "skip" else "fail",
    )
    _check_times(relation)
    return relation


def check_columns(names: list[str]) -> None:
    for name in names:
        if name.lower() in OF_RECORD:
            raise SqlError(f"every record has a column {name!r}: give this column another name")


def _check_times(relation: Relation) -> None:
    try:
        spark_interval(relation.watermark)
    except PipelineError as problem:
        raise SqlError(f"watermark: {problem}") from None
    try:
        given = {"bootstrap": "localhost:1", "topics": relation.topic, "starting": relation.starting}
        source_options(given, streaming=True)
    except PipelineError as problem:
        raise SqlError(str(problem)) from None
