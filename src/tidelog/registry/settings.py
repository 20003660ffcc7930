"""The compatibility level, mode and other settings in effect for a subject: its own, its context's, or global.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.registry.schema import Schema
from tidelog.registry.state import RegistryState
from tidelog.registry.subjects import Subject, context_key

DEFAULT_LEVEL = "BACKWARD"
DEFAULT_MODE = "READWRITE"
_RULES = ("migrationRules", "domainRules", "encodingRules")


def config_of(state: RegistryState, subject: str | None) -> dict[str, Any]:
    """Each setting from the narrowest scope that has it.  Only a subject's own alias counts."""
    config: dict[str, Any] = {"compatibilityLevel": DEFAULT_LEVEL}
    scopes = _scopes(subject)
    for scope in scopes:
        config.update(state.configs.get(scope, {}))
    if "alias" not in state.configs.get(scopes[-1], {}):
        config.pop("alias", None)
    return config


def mode_of(state: RegistryState, subject: str | None) -> str:
    """The mode in effect.  A global READONLY_OVERRIDE wins over the modes of subjects."""
    if state.modes.get(None) == "READONLY_OVERRIDE":
        return "READONLY_OVERRIDE"
    for scope in reversed(_scopes(subject)):
        if scope in state.modes:
            return state.modes[scope]
    return DEFAULT_MODE


def _scopes(subject: str | None) -> list[str | None]:
    """The scopes of a subject, from global to the subject itself."""
    if subject is None:
        return [None]
    named = Subject.of(subject)
    scopes: list[str | None] = [None]
    context = context_key(named.context)
    if context is not None:
        scopes.append(context)
    if named.name:
        scopes.append(named.qualified)
    return scopes


def without_alias(state: RegistryState, subject: str) -> str:
    """The subject that this name is an alias of, or the subject itself."""
    alias = state.configs.get(subject, {}).get("alias")
    return subject if alias is None else str(alias)


def completed(state: RegistryState, subject: str, schema: Schema, config: Mapping[str, Any]) -> Schema:
    """The schema with metadata and rules: its own, or else the previous version's; the subject's defaults fill gaps, and
    its overrides win."""
    before = state.latest(subject)
    metadata, rule_set = schema.metadata, schema.rule_set
    if before is not None:
        metadata = before.schema.metadata if metadata is None else metadata
        rule_set = before.schema.rule_set if rule_set is None else rule_set
    metadata = _merged(_merged(config.get("defaultMetadata"), metadata), config.get("overrideMetadata"))
    rule_set = _ruled(_ruled(config.get("defaultRuleSet"), rule_set), config.get("overrideRuleSet"))
    return Schema(schema.text, schema.type, schema.references, metadata, rule_set)


def _merged(below: Mapping[str, Any] | None, above: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if below is None or above is None:
        return above if below is None else below
    out: dict[str, Any] = {}
    for name in ("tags", "properties"):
        both = {**(below.get(name) or {}), **(above.get(name) or {})}
        if both:
            out[name] = dict(sorted(both.items()))
    sensitive = {*(below.get("sensitive") or ()), *(above.get("sensitive") or ())}
    if sensitive:
        out["sensitive"] = sorted(sensitive)
    return out


def _ruled(below: Mapping[str, Any] | None, above: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Both rule sets; of two rules with one name, the upper one counts."""
    if below is None or above is None:
        return above if below is None else below
    out = {**below, **above}
    for kind in _RULES:
        upper = above.get(kind) or []
        names = {rule["name"] for rule in upper}
        rules = [rule for rule in below.get(kind) or [] if rule["name"] not in names] + list(upper)
        if rules:
            out[kind] = rules
    return out
