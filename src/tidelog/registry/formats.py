"""The schema formats (Avro, Protobuf, JSON Schema), each loaded at first use, and a cache of parsed schemas."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from tidelog.extras import MissingPackage, need
from tidelog.registry.refusal import Refusal, invalid_schema, not_installed
from tidelog.registry.schema import TYPES, Parsed, Resolved, Schema

PARSED_MAX = 1000
TEXT_MAX = 1 << 20  # the largest schema text that is cached


def checked_type(given: object) -> str:
    if given is None or given == "":
        return "AVRO"
    if not isinstance(given, str) or given.upper() not in TYPES:
        raise invalid_schema(f"schema type {given!r} is not supported: use one of {', '.join(TYPES)}")
    return given.upper()


def _parser(type_: str) -> Callable[[Schema, Resolved], Parsed]:
    if type_ == "AVRO":
        from tidelog.registry.avro.schema import parse_avro

        return parse_avro
    if type_ == "JSON":
        need("jsonschema_rs", "JSON schemas")
        from tidelog.registry.json.schema import parse_json_schema

        return parse_json_schema
    need("google.protobuf", "Protobuf schemas")
    from tidelog.registry.protobuf.schema import parse_protobuf

    return parse_protobuf


class Formats:
    """Used by one thread at a time."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[tuple[object, ...], Parsed] = OrderedDict()

    def parse(self, schema: Schema, references: Resolved) -> Parsed:
        """The parsed schema; raises a Refusal if it is not valid."""
        key = (schema.bare, tuple((name, reference.bare) for name, reference in references.items()))
        cached = self._parsed.get(key)
        if cached is not None:
            self._parsed.move_to_end(key)
            return cached
        try:
            parsed = _parser(schema.type)(schema, references)
        except Refusal:
            raise
        except MissingPackage as problem:
            raise not_installed(str(problem)) from None
        except RecursionError:
            raise invalid_schema("it is nested too deeply") from None
        except UnicodeError as problem:
            raise invalid_schema(f"its text is not valid Unicode: {problem}") from None
        if len(schema.text) <= TEXT_MAX:
            self._parsed[key] = parsed
            while len(self._parsed) > PARSED_MAX:
                self._parsed.popitem(last=False)
        return parsed
