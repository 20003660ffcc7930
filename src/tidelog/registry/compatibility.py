"""Compatibility check: which earlier versions a schema is compared with, in which direction, and the messages.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.registry.difference import told
from tidelog.registry.formats import Formats
from tidelog.registry.records import SchemaVersion
from tidelog.registry.refusal import Refusal
from tidelog.registry.schema import Parsed, Schema
from tidelog.registry.state import RegistryState


class NewSchema(NamedTuple):
    """A schema that is not registered yet, and its parsed form."""

    schema: Schema
    parsed: Parsed


def problems(
    state: RegistryState,
    formats: Formats,
    new: NewSchema,
    before: Sequence[SchemaVersion],
    config: Mapping[str, Any],
) -> list[str]:
    """The messages about why `new` may not follow the versions `before`, which are in order; empty if it may."""
    level = str(config["compatibilityLevel"])
    if level == "NONE":
        return []
    group = config.get("compatibilityGroup")
    if group is not None:
        before = [version for version in before if _group(version.schema, group) == _group(new.schema, group)]
    if not level.endswith("_TRANSITIVE"):
        before = before[-1:]
    lenient = config.get("compatibilityPolicy") == "LENIENT"
    for stored in reversed(before):
        differences = _between(state, formats, new, stored, level.removesuffix("_TRANSITIVE"), lenient)
        if differences:
            return [
                *differences,
                f"{{oldSchemaVersion: {stored.version}}}",
                f"{{oldSchema: '{stored.schema.text}'}}",
                f"{{compatibility: '{level}'}}",
            ]
    return []


def _between(
    state: RegistryState,
    formats: Formats,
    new: NewSchema,
    stored: SchemaVersion,
    direction: str,
    lenient: bool,
) -> list[str]:
    if stored.schema.type != new.schema.type:
        return [
            f"{{errorType:'SCHEMA_TYPE_MISMATCH', description:'The new schema is {new.schema.type}, "
            f"the old one {stored.schema.type}: formats cannot be mixed'}}"
        ]
    try:
        old = formats.parse(stored.schema, state.resolve(stored.subject, stored.schema))
    except (Refusal, KeyError) as problem:
        return [f"{{errorType:'INVALID_OLD_SCHEMA', description:'{problem}'}}"]
    messages = []
    if direction in ("BACKWARD", "FULL"):
        messages += told(_differences(new.parsed, old, lenient), "new", "old")
    if direction in ("FORWARD", "FULL"):
        messages += told(_differences(old, new.parsed, lenient), "old", "new")
    return messages


def _differences(reader: Any, writer: Any, lenient: bool) -> Any:
    if reader.type == "JSON":
        return reader.differences(writer, lenient)
    return reader.differences(writer)


def _group(schema: Schema, name: str) -> str | None:
    value: str | None = ((schema.metadata or {}).get("properties") or {}).get(name)
    return value
