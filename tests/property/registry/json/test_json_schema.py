"""JSON Schema: whatever a writer's schema accepts, a reader's that is called compatible accepts too."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import jsonschema_rs
from hypothesis import assume, event, given
from hypothesis import strategies as st

from tidelog.registry.json.schema import ParsedJsonSchema, parse_json_schema
from tidelog.registry.refusal import Refusal
from tidelog.registry.schema import Schema

NAMES = ["a", "ab", "b"]
SCALARS: list[Any] = [None, True, False, -1, 0, 1, 2, 3, 4, 1.5, 6, "", "a", "ab", "abc", "b1"]
# Every small value there is, to try both schemas on.
POOL: list[Any] = [
    *SCALARS,
    *([], [1], ["a"], [1, 1], [1, 2], ["a", 1], [1, "a"], [1, 2, 3], [None, True, "a"], [[]], [[1]], [{}]),
    *({"a": one} for one in (*SCALARS[:8], "a", [], {}, {"a": 1}, {"b": "x"})),
    *({"ab": one} for one in (1, "a", None, {})),
    *({"b": one} for one in (1, "a", None, [1])),
    *({"a": x, "b": y} for x, y in itertools.product((1, "a", None), repeat=2)),
    *({"a": x, "ab": y} for x, y in itertools.product((1, "a"), repeat=2)),
    *({}, {"z": 1}, {"z": "a"}, {"a": 1, "z": None}, {"a": 1, "ab": 1, "b": 1}, {"a": {"a": {"a": 1}}}),
]


def parsed(schema: Any) -> ParsedJsonSchema:
    return parse_json_schema(Schema(json.dumps(schema), "JSON"), {})


def _numbers() -> st.SearchStrategy[Any]:
    bound = st.integers(-1, 4)
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": bound,
            "maximum": bound,
            "exclusiveMinimum": bound,
            "exclusiveMaximum": bound,
            "multipleOf": st.sampled_from([1, 2, 3, 0.5]),
        },
    )


def _texts() -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 3),
            "pattern": st.sampled_from(["^a", "b", "[0-9]"]),
        },
    )


def _plain() -> st.SearchStrategy[Any]:
    return st.one_of(
        _numbers(),
        _texts(),
        st.sampled_from(
            [True, False, {}, {"type": "null"}, {"type": "boolean"}, {"type": ["string", "null"]}]
        ),
        st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3).map(lambda values: {"enum": values}),
        st.sampled_from(SCALARS).map(lambda value: {"const": value}),
        _numbers().map(lambda one: {key: value for key, value in one.items() if key != "type"}),
    )


def _bigger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(NAMES)
    objects = st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, unique=True, max_size=2),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(0, 3),
            "propertyNames": _texts(),
            "dependentRequired": st.dictionaries(names, st.lists(names, unique=True, max_size=2), max_size=1),
            "dependentSchemas": st.dictionaries(names, inner, max_size=1),
            "unevaluatedProperties": st.sampled_from([False, {"type": "integer"}]),
        },
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 3),
            "uniqueItems": st.booleans(),
            "contains": inner,
            "unevaluatedItems": st.sampled_from([False, {"type": "integer"}]),
        },
    )
    many = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        objects,
        arrays,
        many.map(lambda some: {"anyOf": some}),
        many.map(lambda some: {"allOf": some}),
        inner.map(lambda one: {"not": one}),
        st.tuples(objects, many).map(lambda both: {**both[0], "anyOf": both[1]}),
        st.tuples(inner, inner, inner).map(lambda all_: {"if": all_[0], "then": all_[1], "else": all_[2]}),
        st.tuples(inner, objects).map(lambda both: {"$defs": {"x": both[0]}, "$ref": "#/$defs/x", **both[1]}),
    )


def schemas() -> st.SearchStrategy[Any]:
    return st.recursive(_plain(), _bigger, max_leaves=5)


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """One place in it is another schema, or has another keyword."""
    made = copy.deepcopy(schema)
    places = list(_places(made))
    if not places or draw(st.booleans()):
        return _around(draw, made)
    holder, key = draw(st.sampled_from(places))
    holder[key] = _around(draw, holder[key])
    return made


def _around(draw: st.DrawFn, schema: Any) -> Any:
    choice = draw(st.integers(0, 4))
    if choice == 0:
        return draw(schemas())
    if choice == 1 and isinstance(schema, dict):
        words = [word for word in schema if word not in ("$ref", "$defs")]
        gone = draw(st.sampled_from(words)) if words else None
        return {word: value for word, value in schema.items() if word != gone}
    if choice == 2:
        return {"anyOf": [schema, draw(schemas())]}
    if choice == 3 and isinstance(schema, dict):
        more = draw(schemas())
        return {**schema, **more} if isinstance(more, dict) and "$ref" not in {**more, **schema} else schema
    return schema


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        for word, inner in value.items():
            if word in ("properties", "patternProperties", "dependentSchemas"):
                yield from ((inner, name) for name in inner)
                for inner_schema in inner.values():
                    yield from _places(inner_schema)
            elif word in ("additionalProperties", "items", "contains", "not", "if", "then", "else"):
                yield (value, word)
                yield from _places(inner)
            elif word in ("anyOf", "allOf", "prefixItems"):
                yield from ((inner, at) for at in range(len(inner)))
                for inner_schema in inner:
                    yield from _places(inner_schema)


def _root(schema: Any) -> Any:
    """References are to the root: a schema that has one somewhere inside has lost its target."""
    text = json.dumps(schema)
    if "#/$defs/x" in text:
        assume(text.count("#/$defs/x") == 1 and isinstance(schema, dict) and "$ref" in schema)
    if isinstance(schema, dict):
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return schema


def pairs() -> st.SearchStrategy[tuple[Any, Any]]:
    return schemas().flatmap(lambda schema: st.tuples(st.just(schema), changed(schema)))


@given(pairs())
def test_what_is_compatible_is_accepted(pair: tuple[Any, Any]) -> None:
    writer, reader = map(_root, pair)
    try:
        differences = parsed(reader).differences(parsed(writer))
    except Refusal:
        assume(False)
    event("compatible" if not differences else "not")
    if differences:
        return
    written = jsonschema_rs.validator_for(writer)
    read = jsonschema_rs.validator_for(reader)
    for value in POOL:
        assert read.is_valid(value) or not written.is_valid(value), value


@given(schemas())
def test_a_schema_reads_what_it_wrote(schema: Any) -> None:
    schema = _root(schema)
    try:
        assert not parsed(schema).differences(parsed(json.loads(json.dumps(schema))))
    except Refusal:
        assume(False)


@given(schemas())
def test_the_normal_form_does_not_depend_on_the_order_of_keywords(schema: Any) -> None:
    schema = _root(schema)
    try:
        normal = parsed(schema).normal()
    except Refusal:
        assume(False)
    assert parsed(_reversed(schema)).normal() == normal
    assert parse_json_schema(Schema(normal, "JSON"), {}).normal() == normal


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


# Each keyword with a few values, alone and in the places where schemas stand: every one is tried against every other.
SMALL: list[Any] = [
    *(
        True,
        False,
        {"type": "null"},
        {"type": "boolean"},
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
    ),
    *(
        {"type": ["string", "null"]},
        {"type": ["integer", "string"]},
        {"enum": [1, 2]},
        {"enum": [1, "a"]},
        {"const": 1},
    ),
    *({"minimum": 1}, {"minimum": 2}, {"exclusiveMinimum": 1}, {"exclusiveMinimum": 2}),
    *({"maximum": 2}, {"exclusiveMaximum": 2}, {"exclusiveMaximum": 3}, {"multipleOf": 2}, {"multipleOf": 4}),
    *(
        {"type": "integer", "multipleOf": 1},
        {"type": "integer", "multipleOf": 0.5},
        {"minLength": 1},
        {"minLength": 2},
    ),
    *(
        {"maxLength": 1},
        {"maxLength": 2},
        {"pattern": "^a"},
        {"pattern": "b"},
        {"type": "string", "pattern": "^a"},
    ),
    *(
        {"type": "object"},
        {"type": "array"},
        {"not": {"type": "string"}},
        {"not": {"type": ["string", "null"]}},
    ),
    *(
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    ),
    *({"allOf": [{"minimum": 1}, {"maximum": 2}]}, {"anyOf": [{"minimum": 2}, {"maxLength": 1}]}),
    {"if": {"type": "string"}, "then": {"minLength": 1}},
]
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
LARGER: list[Any] = [
    *({"properties": {"a": one}} for one in SMALL[:24]),
    *({"properties": {"a": one}, "additionalProperties": False} for one in SMALL[:8]),
    *({"properties": {"a": TEXT, "b": one}, "additionalProperties": False} for one in (True, TEXT, WHOLE)),
    *({"properties": {"a": WHOLE}, "additionalProperties": one} for one in (TEXT, WHOLE, {"type": "null"})),
    *({"patternProperties": {"^a": one}} for one in (TEXT, WHOLE, {})),
    *({"patternProperties": {"^a": one}, "additionalProperties": False} for one in (TEXT, WHOLE, {})),
    *({"patternProperties": {"b$": one}, "additionalProperties": False} for one in (TEXT, WHOLE, {})),
    *({"required": one} for one in ([], ["a"], ["b"], ["a", "b"])),
    *({"minProperties": 1}, {"minProperties": 2}, {"maxProperties": 1}, {"maxProperties": 2}),
    *({"propertyNames": {"minLength": 2}}, {"propertyNames": {"pattern": "^a"}}, {"propertyNames": False}),
    *({"dependentRequired": {"a": ["b"]}}, {"dependentSchemas": {"a": {"required": ["b"]}}}),
    *({"dependencies": {"a": ["b"]}}, {"properties": {"a": TEXT}, "unevaluatedProperties": False}),
    {"allOf": [{"properties": {"b": WHOLE}}], "properties": {"a": TEXT}, "unevaluatedProperties": False},
    {"type": "object", "properties": {"a": WHOLE}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    *({"items": one} for one in SMALL[:12]),
    *({"prefixItems": [one]} for one in (True, False, TEXT, WHOLE)),
    *({"prefixItems": [one], "items": False} for one in (TEXT, WHOLE)),
    *({"prefixItems": [WHOLE, one], "items": False} for one in (TEXT, WHOLE)),
    *({"prefixItems": [WHOLE], "items": one} for one in (TEXT, WHOLE)),
    *({"prefixItems": [WHOLE], "unevaluatedItems": False}, {"items": WHOLE, "unevaluatedItems": False}),
    *({"minItems": 1}, {"minItems": 2}, {"maxItems": 1}, {"maxItems": 2}, {"uniqueItems": True}),
    *({"contains": TEXT}, {"contains": WHOLE}, {"contains": {}}),
]
ALL = [
    one if isinstance(one, bool) else {"$schema": "https://json-schema.org/draft/2020-12/schema", **one}
    for one in [*SMALL, *LARGER]
]


def test_every_pair_of_small_schemas() -> None:
    understood = [parsed(one) for one in ALL]
    accepted = [
        frozenset(at for at, value in enumerate(POOL) if one.is_valid(value))
        for one in map(jsonschema_rs.validator_for, ALL)
    ]
    compatible = 0
    for reader, writer in itertools.product(range(len(ALL)), repeat=2):
        if not understood[reader].differences(understood[writer]):
            compatible += 1
            lost = accepted[writer] - accepted[reader]
            assert not lost, (ALL[reader], ALL[writer], [POOL[at] for at in lost][:3])
    # Not by saying no to everything: of the pairs in which no value here is lost, most are seen to be so.
    possible = sum(one <= other for one, other in itertools.product(accepted, repeat=2))
    assert compatible > 0.75 * possible, (compatible, possible)
