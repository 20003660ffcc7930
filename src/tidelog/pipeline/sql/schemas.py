"""Schemas of streams and tables in Avro, Protobuf or JSON: the columns come from the schema, or the schema from the
columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidelog.pipeline.options.source import ValueOptions
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.sql.catalog import Relation
from tidelog.pipeline.sql.relations import columns_of
from tidelog.pipeline.sql.statements import SqlError
from tidelog.pipeline.streams.decode import struct_type
from tidelog.pipeline.values.encoding import encoding_of
from tidelog.pipeline.values.value_format import value_format


def has_schema(relation: Relation) -> bool:
    """True if the relation has a schema of its own or from a registry."""
    return "schema" in relation.options or "registry" in relation.options


def has_schema_properties(properties: Mapping[str, str]) -> bool:
    """True if CREATE names a schema or a registry, or a format that has to have one."""
    format = properties.get("format", "json").lower()
    return "schema" in properties or "registry" in properties or format in ("avro", "protobuf")


def with_schema(relation: Relation) -> Relation:
    """The relation with the columns of its schema; checks that the schema has the declared columns.  A new subject gets its
    first schema."""
    given = relation.options
    if relation.format not in ("avro", "protobuf") and not (
        relation.format == "json" and has_schema(relation)
    ):
        return relation
    if not has_schema(relation):
        raise SqlError(f"format {relation.format} needs WITH (registry = 'http://...'), or (schema = '...')")
    wanted = ValueOptions(
        relation.format,
        given.get("schema"),
        given.get("message"),
        given.get("registry"),
        given.get("subject"),
        "failfast",
    )
    try:
        if relation.columns:
            encoding_of(wanted, relation.topic, struct_type(relation.schema))
            return relation
        columns = columns_of(value_format(wanted, (relation.topic,)).fields)
    except PipelineError as problem:
        raise SqlError(f"{relation.name}: {problem}") from None
    if relation.key is not None and relation.key not in (name for name, _ in columns):
        names = ", ".join(name for name, _ in columns)
        raise SqlError(f"the key {relation.key!r} is not among the columns: {names}")
    return replace(relation, columns=columns)
