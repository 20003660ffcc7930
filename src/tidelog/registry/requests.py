"""Request bodies: reads and checks what a client sends, and refuses what the registry does not support.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.registry.formats import checked_type
from tidelog.registry.refusal import (
    invalid_compatibility,
    invalid_mode,
    invalid_rule_set,
    invalid_schema,
    invalid_version,
    malformed,
    not_permitted,
)
from tidelog.registry.schema import Reference, Schema

LEVELS = frozenset(
    (
        "NONE",
        "BACKWARD",
        "BACKWARD_TRANSITIVE",
        "FORWARD",
        "FORWARD_TRANSITIVE",
        "FULL",
        "FULL_TRANSITIVE",
    )
)
MODES = frozenset(("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"))
POLICIES = frozenset(("STRICT", "LENIENT"))
LATEST = -1
_NUMBER_MAX = (1 << 31) - 1
_RULES = ("migrationRules", "domainRules", "encodingRules")
_NOT_SERVED = ("aliasForDeks", "validateFields", "validateNewSchemas", "validateRules")


class SchemaRequest(NamedTuple):
    """A schema to register, look up or check; `id` and `version` are only set by imports."""

    schema: Schema
    id: int | None = None
    version: int | None = None


def read_schema_request(body: Any) -> SchemaRequest:
    if not isinstance(body, dict):
        raise malformed('The body must be a JSON object such as {"schema": "..."}')
    text = body.get("schema")
    if text is None or text == "":
        raise invalid_schema("Empty schema")
    if not isinstance(text, str):
        raise malformed("'schema' must be text: a schema in JSON goes in as a string")
    schema = Schema(
        text,
        checked_type(body.get("schemaType")),
        _references(body.get("references")),
        _metadata(body.get("metadata"), "metadata"),
        _rule_set(body.get("ruleSet"), "ruleSet"),
    )
    return SchemaRequest(schema, _number(body, "id", 1), _number(body, "version", 0) or None)


def parse_version(text: str) -> int:
    """A version in a request path; LATEST for the newest."""
    if text == "latest" or text == "-1":
        return LATEST
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _NUMBER_MAX:
        raise invalid_version(text)
    return int(text)


def changed_config(body: Any, before: Mapping[str, Any]) -> dict[str, Any]:
    """The settings after a change: settings that are not in the body stay, and null removes one."""
    if not isinstance(body, dict):
        raise malformed('The body must be a JSON object such as {"compatibility": "FULL"}')
    after = dict(before)
    names = {"compatibility", "compatibilityLevel", *_CONFIG, *_NOT_SERVED}
    for name, given in body.items():
        if name not in names:
            raise malformed(f"Unrecognized field: {name}")
        if name in _NOT_SERVED:
            if given:
                raise not_permitted(f"{name} is not supported by this registry: leave it out")
            continue
        place = "compatibilityLevel" if name == "compatibility" else name
        if given is None:
            after.pop(place, None)
        elif place == "compatibilityLevel":
            after[place] = _level(given)
        else:
            after[place] = _CONFIG[name](given, name)
    return after


def parse_mode(body: Any) -> str:
    mode = body.get("mode") if isinstance(body, dict) else None
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise invalid_mode(mode)
    return mode.upper()


def _level(given: Any) -> str:
    if not isinstance(given, str) or given.upper() not in LEVELS:
        raise invalid_compatibility(given)
    return given.upper()


def _number(body: Mapping[str, Any], name: str, least: int) -> int | None:
    given = body.get(name)
    if given is None or given == -1:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= _NUMBER_MAX:
        raise malformed(f"{name!r} must be a number from {least} to {_NUMBER_MAX}")
    return given


def _references(given: Any) -> tuple[Reference, ...]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise malformed("'references' must be a list")
    references = []
    for reference in given:
        if not isinstance(reference, dict):
            raise malformed("each of 'references' must be an object")
        name, subject, version = reference.get("name"), reference.get("subject"), reference.get("version")
        if not isinstance(name, str) or not isinstance(subject, str) or not name or not subject:
            raise malformed("each of 'references' needs a 'name', a 'subject' and a 'version'")
        if isinstance(version, bool) or not isinstance(version, int) or version == 0 or version < -1:
            raise invalid_version(version)
        references.append(Reference(name, subject, version))
    if len({reference.name for reference in references}) < len(references):
        raise invalid_schema("two references have the same name")
    return tuple(references)


def _metadata(given: Any, name: str) -> dict[str, Any] | None:
    """Metadata: tags of fields, properties of the schema, and the names of sensitive properties."""
    if given is None:
        return None
    if not isinstance(given, dict) or set(given) - {"tags", "properties", "sensitive"}:
        raise malformed(f"{name!r} must be an object with 'tags', 'properties' and 'sensitive'")
    tags, properties = given.get("tags") or {}, given.get("properties") or {}
    sensitive = given.get("sensitive") or []
    good = (
        isinstance(tags, dict)
        and all(
            isinstance(many, list) and all(isinstance(text, str) for text in many) for many in tags.values()
        )
        and isinstance(properties, dict)
        and all(isinstance(text, str) for text in properties.values())
        and isinstance(sensitive, list)
        and all(isinstance(text, str) for text in sensitive)
    )
    if not good:
        raise malformed(f"in {name!r}, tags map to lists of text, properties to text, sensitive is a list")
    out: dict[str, Any] = {}
    if tags:
        out["tags"] = {key: sorted(set(tags[key])) for key in sorted(tags)}
    if properties:
        out["properties"] = dict(sorted(properties.items()))
    if sensitive:
        out["sensitive"] = sorted(set(sensitive))
    return out


def _rule_set(given: Any, name: str) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, dict) or set(given) - {*_RULES, "enableAt"}:
        raise invalid_rule_set(f"{name!r} must be an object with {', '.join(_RULES)}")
    for kind in _RULES:
        rules = given.get(kind)
        if rules is None:
            continue
        if not isinstance(rules, list):
            raise invalid_rule_set(f"{kind} must be a list")
        seen = set()
        for rule in rules:
            if not isinstance(rule, dict) or not isinstance(rule.get("name"), str) or not rule["name"]:
                raise invalid_rule_set(f"each of {kind} needs a name")
            if rule["name"] in seen:
                raise invalid_rule_set(f"{kind} have the name {rule['name']!r} twice")
            seen.add(rule["name"])
    return {key: value for key, value in given.items() if value is not None}


def _switch(given: Any, name: str) -> bool:
    if not isinstance(given, bool):
        raise malformed(f"{name!r} must be true or false")
    return given


def _text(given: Any, name: str) -> str:
    if not isinstance(given, str) or not given:
        raise malformed(f"{name!r} must be text")
    return given


def _policy(given: Any, name: str) -> str:
    if not isinstance(given, str) or given.upper() not in POLICIES:
        raise malformed(f"{name!r} must be STRICT or LENIENT")
    return given.upper()


_CONFIG: dict[str, Any] = {
    "alias": _text,
    "normalize": _switch,
    "compatibilityGroup": _text,
    "compatibilityPolicy": _policy,
    "defaultMetadata": _metadata,
    "overrideMetadata": _metadata,
    "defaultRuleSet": _rule_set,
    "overrideRuleSet": _rule_set,
}
