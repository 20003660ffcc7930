"""Avro's rules: what we call compatible is readable, and Avro's own package says the same."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse as avro_parse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.property.registry.avro.avro_schemas import changed, schemas, values
from tidelog.registry.avro.schema import ParsedAvroSchema, parse_avro
from tidelog.registry.refusal import Refusal
from tidelog.registry.schema import Schema


def parsed(schema: Any) -> ParsedAvroSchema:
    return parse_avro(Schema(json.dumps(schema)), {})


def pairs() -> st.SearchStrategy[tuple[Any, Any]]:
    return schemas().flatmap(lambda schema: st.tuples(st.just(schema), changed(schema)))


@given(pairs(), st.data())
def test_what_is_compatible_is_read(pair: tuple[Any, Any], data: st.DataObject) -> None:
    writer, reader = pair
    try:
        assume(not parsed(reader).differences(parsed(writer)))
    except Refusal:
        assume(False)
    value = data.draw(values(writer))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), value)
    out.seek(0)
    fastavro.schemaless_reader(out, fastavro.parse_schema(writer), fastavro.parse_schema(reader))


@settings(max_examples=60)
@given(pairs())
def test_the_verdicts_are_those_of_avros_own_package(pair: tuple[Any, Any]) -> None:
    writer, reader = pair
    try:
        differences = parsed(reader).differences(parsed(writer))
    except Refusal:
        assume(False)
    # It takes no notice of aliases of fields, nor of the default of a reader's enum.
    assume("aliases" not in json.dumps(reader) and '"symbols"' not in json.dumps([reader, writer]))
    checker = ReaderWriterCompatibilityChecker()
    theirs = checker.get_compatibility(avro_parse(json.dumps(reader)), avro_parse(json.dumps(writer)))
    assert (theirs.compatibility is SchemaCompatibilityType.compatible) == (not differences), (
        differences,
        theirs.messages,
    )


@settings(max_examples=60)
@given(schemas())
def test_the_kept_form_means_the_same_and_does_not_change_again(schema: Any) -> None:
    kept = parsed(schema).canonical()
    again = parse_avro(Schema(kept), {})
    assert again.canonical() == kept
    assert not again.differences(parsed(schema)) and not parsed(schema).differences(again)
    assert fastavro.schema.fingerprint(
        fastavro.schema.to_parsing_canonical_form(json.loads(kept)), "CRC-64-AVRO"
    ) == fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO")


@settings(max_examples=60)
@given(schemas())
def test_the_order_of_attributes_does_not_matter_to_the_normal_form(schema: Any) -> None:
    assert parsed(_reversed(schema)).normal() == parsed(schema).normal()


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "name",
                        "fields",
                        "items",
                        "values",
                        "symbols",
                        "size",
                        "default",
                        "namespace",
                        "aliases",
                    ]
                ),
                inner | st.sampled_from(["record", "enum", "fixed", "array", "map", "int"]),
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_anything_that_is_no_schema_is_refused_in_words(thing: Any) -> None:
    try:
        parsed(thing)
    except Refusal as problem:
        assert problem.number == 42201 and len(str(problem)) > 10
