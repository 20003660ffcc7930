"""One request to the registry: path, parameters, body; and the shapes of answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.registry.coordinator import SchemaRegistry
from tidelog.registry.records import SchemaVersion
from tidelog.registry.refusal import Refusal, malformed
from tidelog.registry.requests import parse_version
from tidelog.registry.schema import Schema
from tidelog.registry.state import within
from tidelog.registry.subjects import Subject, canonical, context_key


class Plain(str):
    """Text that is answered as it is, not as a JSON string."""

    __slots__ = ()


class Call(NamedTuple):
    registry: SchemaRegistry
    names: tuple[str, ...]
    """The values of the placeholders {} of the path."""
    query: Mapping[str, str]
    content: bytes
    context: str | None
    """The context, when the path begins with /contexts/..."""
    read: Any = None
    """What a long content says."""

    @property
    def body(self) -> Any:
        if self.read is not None or not self.content:
            return self.read or {}
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError) as problem:
            raise Refusal(400, 400, f"The body is not JSON: {problem}") from None

    @property
    def subject(self) -> str:
        return self._in_context(self.names[0])

    @property
    def version(self) -> int:
        return parse_version(self.names[1])

    @property
    def scope(self) -> str | None:
        """The owner of the settings: a subject, a context, or None for the global settings."""
        if self.names:
            subject = self.subject
            named = Subject.of(subject)
            return subject if named.name else context_key(named.context)
        return None if self.context is None else context_key(self.context)

    @property
    def subject_of_id(self) -> str | None:
        """The parameter that selects the context of an id."""
        given = self.query.get("subject")
        if given:
            return self._in_context(given)
        return None if self.context is None else context_key(self.context)

    @property
    def prefix(self) -> str:
        return self._in_context(self.query.get("subjectPrefix") or ("" if self.context else ":*:"))

    def _in_context(self, subject: str) -> str:
        if subject.startswith(":*:"):
            return subject
        if self.context is None:
            return canonical(subject)
        return within(Subject(self.context, "").qualified, subject)

    def flag(self, name: str) -> bool:
        given = self.query.get(name, "").lower()
        if given not in ("", "true", "false"):
            raise malformed(f"the parameter {name} must be true or false, not {given!r}")
        return given == "true"

    def page(self, items: list[Any], limit_most: int) -> list[Any]:
        offset, limit = self._number("offset", 0), self._number("limit", -1)
        limit = limit_most if limit < 0 else min(limit, limit_most)
        return items[offset : offset + limit]

    def _number(self, name: str, otherwise: int) -> int:
        given = self.query.get(name)
        if not given:
            return otherwise
        try:
            number = int(given)
        except ValueError:
            raise malformed(f"the parameter {name} must be a number, not {given!r}") from None
        return otherwise if number < 0 else number


def schema_json(schema: Schema, text: str | None = None) -> dict[str, Any]:
    return {**schema.optional_fields, "schema": schema.text if text is None else text}


def version_json(stored: SchemaVersion, text: str | None = None) -> dict[str, Any]:
    body = {
        "subject": stored.subject,
        "version": stored.version,
        "id": stored.id,
        "guid": stored.schema.guid,
        **schema_json(stored.schema, text),
    }
    if stored.deleted:
        body["deleted"] = True
    return body
