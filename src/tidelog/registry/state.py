"""The state of the registry, which the records of `_schemas` add up to: subjects, versions, ids and settings.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidelog.coordination.records import CoordinatorRecord
from tidelog.registry.records import (
    ClearSubjectKey,
    ConfigKey,
    DeleteSubjectKey,
    ModeKey,
    NoopKey,
    SchemaKey,
    SchemaVersion,
    Settings,
)
from tidelog.registry.schema import Resolved, Schema
from tidelog.registry.subjects import Subject, canonical


class SchemaContext:
    """A schema context; ids are unique within it."""

    __slots__ = ("id_max", "ids", "schemas", "users")

    def __init__(self) -> None:
        self.id_max = 0
        self.schemas: dict[int, Schema] = {}
        self.ids: dict[bytes, int] = {}
        self.users: dict[int, set[SchemaKey]] = {}


class RegistryState:
    __slots__ = ("_referrers", "configs", "contexts", "modes", "subjects")

    def __init__(self) -> None:
        self.contexts: dict[str, SchemaContext] = {}
        self.subjects: dict[str, dict[int, SchemaVersion]] = {}
        self.configs: dict[str | None, Settings] = {}
        self.modes: dict[str | None, str] = {}
        self._referrers: dict[SchemaKey, set[SchemaKey]] = {}

    # From records

    def replay(self, entry: CoordinatorRecord, producer_id: int) -> None:
        key, value = entry.key, entry.value
        if isinstance(key, SchemaKey):
            self._forget(key)
            if value is not None:
                self._remember(value)
        elif isinstance(key, ConfigKey):
            _set(self.configs, key.subject, None if value is None else _config(value))
        elif isinstance(key, ModeKey):
            _set(self.modes, key.subject, None if value is None else value.get("mode"))
        elif isinstance(key, DeleteSubjectKey):
            if value is not None:
                self._delete_up_to(key.subject, int(value.get("version") or 0))
        elif isinstance(key, ClearSubjectKey):
            for version in list(self.subjects.get(key.subject, ())):
                self._forget(SchemaKey(key.subject, version))
        elif isinstance(key, NoopKey) and value is not None:
            for context, most in (value.get("ids") or {}).items():
                schema_context = self.contexts.setdefault(context, SchemaContext())
                schema_context.id_max = max(schema_context.id_max, int(most))

    def ended(self, producer_id: int, committed: bool) -> None:
        """This topic has no transactions."""

    def _remember(self, stored: SchemaVersion) -> None:
        context = self.contexts.setdefault(Subject.of(stored.subject).context, SchemaContext())
        self.subjects.setdefault(stored.subject, {})[stored.version] = stored
        context.id_max = max(context.id_max, stored.id)
        context.schemas[stored.id] = stored.schema
        context.ids.setdefault(stored.schema.fingerprint, stored.id)
        context.users.setdefault(stored.id, set()).add(stored.key)
        if not stored.deleted:
            for target in self.targets(stored):
                self._referrers.setdefault(target, set()).add(stored.key)

    def _forget(self, key: SchemaKey) -> None:
        versions = self.subjects.get(key.subject)
        stored = None if versions is None else versions.pop(key.version, None)
        if versions is None or stored is None:
            return
        if not versions:
            del self.subjects[key.subject]
        context = self.contexts[Subject.of(key.subject).context]
        users = context.users[stored.id]
        users.discard(key)
        if not users:
            del context.users[stored.id]
            del context.schemas[stored.id]
            if context.ids.get(stored.schema.fingerprint) == stored.id:
                del context.ids[stored.schema.fingerprint]
        for target in self.targets(stored):
            referrers = self._referrers.get(target, set())
            referrers.discard(key)
            if not referrers:
                self._referrers.pop(target, None)

    def _delete_up_to(self, subject: str, version: int) -> None:
        for stored in list(self.subjects.get(subject, {}).values()):
            if stored.version <= version and not stored.deleted:
                self._forget(stored.key)
                self._remember(stored._replace(deleted=True))

    # For questions

    def versions(self, subject: str, deleted: bool = False) -> list[SchemaVersion]:
        """The subject's versions in order; `deleted` includes soft-deleted ones."""
        stored = self.subjects.get(subject, {})
        return [stored[at] for at in sorted(stored) if deleted or not stored[at].deleted]

    def latest(self, subject: str) -> SchemaVersion | None:
        versions = self.versions(subject)
        return versions[-1] if versions else None

    def targets(self, stored: SchemaVersion) -> Iterator[SchemaKey]:
        for reference in stored.schema.references:
            yield SchemaKey(within(stored.subject, reference.subject), reference.version)

    def referrers(self, key: SchemaKey) -> list[SchemaVersion]:
        """Versions that refer to this one and are not deleted."""
        versions = (
            self.subjects[referrer.subject][referrer.version] for referrer in self._referrers.get(key, ())
        )
        return sorted(versions, key=lambda version: (version.id, version.subject, version.version))

    def resolve(self, subject: str, schema: Schema) -> Resolved:
        """All schemas that the schema refers to; raises KeyError with the name of a missing one."""
        resolved: dict[str, Schema] = {}
        self._resolve(subject, schema, resolved, ())
        return resolved

    def _resolve(
        self, subject: str, schema: Schema, resolved: dict[str, Schema], above: tuple[SchemaKey, ...]
    ) -> None:
        for reference in schema.references:
            if reference.name in resolved:
                continue
            key = SchemaKey(within(subject, reference.subject), reference.version)
            stored = self.subjects.get(key.subject, {}).get(key.version)
            if key.version == -1:
                stored = self.latest(key.subject)
            if stored is None or stored.key in above:
                raise KeyError(f"{reference.subject!r} version {reference.version}")
            self._resolve(stored.subject, stored.schema, resolved, (*above, stored.key))
            resolved[reference.name] = stored.schema

    def id_max(self, context: str) -> int:
        schema_context = self.contexts.get(context)
        return 0 if schema_context is None else schema_context.id_max

    def in_context(self, context: str) -> Iterable[str]:
        return [name for name in self.subjects if Subject.of(name).context == context]


def within(subject: str, reference: str) -> str:
    """The subject of a reference: without a context of its own, it is in the context of the referring subject."""
    named = Subject.of(reference)
    if reference.startswith(":."):
        return named.qualified
    return Subject(Subject.of(subject).context, named.name).qualified


def _set(where: dict[str | None, Any], subject: str | None, value: Any) -> None:
    name = None if subject is None else canonical(subject)
    if value is None:
        where.pop(name, None)
    else:
        where[name] = value


def _config(value: Settings) -> Settings:
    return {name: setting for name, setting in value.items() if name != "subject"}
