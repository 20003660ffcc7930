"""Decisions of the registry: the records that a request writes, and its answer when they are committed.

The state and a request go in, a decision comes out, or a Refusal is raised.  `coordinator` writes and answers.  Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from tidelog.coordination.records import CoordinatorRecord
from tidelog.registry.compatibility import NewSchema, problems
from tidelog.registry.formats import Formats
from tidelog.registry.records import ConfigKey, DeleteSubjectKey, ModeKey, NoopKey, SchemaKey, SchemaVersion
from tidelog.registry.refusal import (
    context_not_empty,
    incompatible,
    invalid_schema,
    not_permitted,
    reference_exists,
    schema_not_found,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from tidelog.registry.requests import LATEST, SchemaRequest, changed_config, parse_mode
from tidelog.registry.schema import Reference, Schema
from tidelog.registry.settings import completed, config_of, mode_of
from tidelog.registry.state import RegistryState, within
from tidelog.registry.subjects import Subject, checked, context_key


class RegistryDecision(NamedTuple):
    entries: list[CoordinatorRecord]
    answer: Any


# Registering and looking up


def register(
    state: RegistryState, formats: Formats, subject: str, request: SchemaRequest, normalize: bool
) -> RegistryDecision:
    subject = checked(subject)
    mode = mode_of(state, subject)
    _check_writable(subject, mode)
    importing = mode == "IMPORT"
    if request.id is not None and not importing:
        raise not_permitted(f"Subject {subject} is not in import mode: an id cannot be chosen")
    if importing and request.id is None:
        raise not_permitted(f"Subject {subject} is in import mode: schemas need their id")
    config = config_of(state, subject)
    new = understood(state, formats, subject, request.schema, normalize or bool(config.get("normalize")))
    if not importing:
        new = NewSchema(completed(state, subject, new.schema, config), new.parsed)
    before = state.versions(subject)
    existing = next(
        (version for version in reversed(before) if version.schema.fingerprint == new.schema.fingerprint),
        None,
    )
    if (
        existing is not None
        and request.id in (None, existing.id)
        and request.version in (None, existing.version)
    ):
        return RegistryDecision([], existing)
    if importing:
        stored = _imported(state, subject, request, new.schema)
    else:
        differences = problems(state, formats, new, before, config)
        if differences:
            raise incompatible(subject, differences)
        version = _next_version(state, subject)
        if request.version not in (None, version):
            raise not_permitted(f"Version is not one more than previous version: {version} would be next")
        stored = SchemaVersion(subject, version, _id_for(state, subject, new.schema), new.schema)
    return RegistryDecision([CoordinatorRecord(stored.key, stored)], stored)


def understood(
    state: RegistryState, formats: Formats, subject: str, schema: Schema, normalize: bool
) -> NewSchema:
    """The parsed schema, with its text in the form in which the registry stores it."""
    references = tuple(_settled_reference(state, subject, reference) for reference in schema.references)
    given = Schema(schema.text, schema.type, references, schema.metadata, schema.rule_set)
    try:
        resolved = state.resolve(subject, given)
    except KeyError as problem:
        raise invalid_schema(f"it refers to {problem.args[0]}, which does not exist") from None
    parsed = formats.parse(given, resolved)
    text = parsed.normal() if normalize else parsed.canonical()
    if normalize:
        references = tuple(
            sorted(references, key=lambda reference: (reference.name, reference.subject, reference.version))
        )
    return NewSchema(Schema(text, given.type, references, given.metadata, given.rule_set), parsed)


def _settled_reference(state: RegistryState, subject: str, reference: Reference) -> Reference:
    """The reference with `latest` replaced by the present version, so that a later version does not change the schema."""
    target = within(subject, reference.subject)
    stored = (
        state.latest(target)
        if reference.version == LATEST
        else state.subjects.get(target, {}).get(reference.version)
    )
    if stored is None or stored.deleted:
        raise invalid_schema(
            f"it refers to subject {reference.subject!r} version {reference.version}, which does not exist"
        )
    return Reference(reference.name, reference.subject, stored.version)


def _imported(state: RegistryState, subject: str, request: SchemaRequest, schema: Schema) -> SchemaVersion:
    assert request.id is not None
    context = Subject.of(subject).context
    existing = state.contexts[context].schemas.get(request.id) if context in state.contexts else None
    if existing is not None and existing.fingerprint != schema.fingerprint:
        raise not_permitted(
            f"Overwrite new schema with id {request.id} in context {context} is not permitted."
        )
    return SchemaVersion(subject, request.version or _next_version(state, subject), request.id, schema)


def _next_version(state: RegistryState, subject: str) -> int:
    return max(state.subjects.get(subject, {}), default=0) + 1


def _id_for(state: RegistryState, subject: str, schema: Schema) -> int:
    name = Subject.of(subject).context
    context = state.contexts.get(name)
    existing_id = None if context is None else context.ids.get(schema.fingerprint)
    return state.id_max(name) + 1 if existing_id is None else existing_id


def look_up(
    state: RegistryState,
    formats: Formats,
    subject: str,
    request: SchemaRequest,
    normalize: bool,
    deleted: bool,
) -> SchemaVersion:
    versions = state.versions(subject, deleted)
    if not versions:
        raise subject_not_found(subject)
    normalize = normalize or bool(config_of(state, subject).get("normalize"))
    new = understood(state, formats, subject, request.schema, normalize).schema
    # A schema without metadata and rules matches any version with its text.
    silent = new.metadata is None and new.rule_set is None
    for stored in reversed(versions):
        if stored.schema.fingerprint == new.fingerprint or (silent and stored.schema.bare == new.bare):
            return stored
    if normalize:
        for stored in reversed(versions):
            if stored.schema.type == new.type and _normal(state, formats, stored).bare == new.bare:
                return stored
    raise schema_not_found()


def _normal(state: RegistryState, formats: Formats, stored: SchemaVersion) -> Schema:
    return understood(state, formats, stored.subject, stored.schema, True).schema


def check(
    state: RegistryState,
    formats: Formats,
    subject: str,
    request: SchemaRequest,
    normalize: bool,
    version: int | None,
) -> list[str]:
    """Incompatibilities with one version, or with the versions that the subject's compatibility covers (`version` None)."""
    config = config_of(state, subject)
    before = state.versions(subject)
    if version is not None and version != LATEST:
        before = [candidate for candidate in before if candidate.version == version]
        if not before:
            raise version_not_found(version)
    elif version == LATEST:
        before = before[-1:]
    new = understood(state, formats, subject, request.schema, normalize or bool(config.get("normalize")))
    new = NewSchema(completed(state, subject, new.schema, config), new.parsed)
    return problems(state, formats, new, before, config)


def version_of(state: RegistryState, subject: str, version: int, deleted: bool = False) -> SchemaVersion:
    versions = state.versions(subject, deleted)
    if not versions:
        raise subject_not_found(subject)
    if version == LATEST:
        return versions[-1]
    stored = next((candidate for candidate in versions if candidate.version == version), None)
    if stored is None:
        raise version_not_found(version)
    return stored


# Deleting


def delete_subject(state: RegistryState, subject: str, permanent: bool) -> RegistryDecision:
    _check_writable(subject, mode_of(state, subject))
    everything, alive = state.versions(subject, True), state.versions(subject)
    if not everything:
        raise subject_not_found(subject)
    if not alive and not permanent:
        raise subject_soft_deleted(subject)
    if alive and permanent:
        raise subject_not_soft_deleted(subject)
    for stored in alive or everything:
        _check_unreferenced(state, stored)
    entries: list[CoordinatorRecord] = []
    if permanent:
        entries += _forgetting(state, everything)
        entries.append(CoordinatorRecord(DeleteSubjectKey(subject), None))
    else:
        last = {"subject": subject, "version": alive[-1].version}
        entries.append(CoordinatorRecord(DeleteSubjectKey(subject), last))
    if subject in state.modes:
        entries.append(CoordinatorRecord(ModeKey(subject), None))
    if subject in state.configs:
        entries.append(CoordinatorRecord(ConfigKey(subject), None))
    return RegistryDecision(entries, [stored.version for stored in (everything if permanent else alive)])


def delete_version(state: RegistryState, subject: str, version: int, permanent: bool) -> RegistryDecision:
    _check_writable(subject, mode_of(state, subject))
    if not state.versions(subject, True):
        raise subject_not_found(subject)
    if version == LATEST:
        stored = version_of(state, subject, LATEST, permanent)
    else:
        stored = version_of(state, subject, version, True)
    if stored.deleted and not permanent:
        raise version_soft_deleted(subject, stored.version)
    if permanent and not stored.deleted:
        raise version_not_soft_deleted(subject, stored.version)
    _check_unreferenced(state, stored)
    if permanent:
        return RegistryDecision(_forgetting(state, [stored]), stored.version)
    return RegistryDecision([CoordinatorRecord(stored.key, stored._replace(deleted=True))], stored.version)


def _forgetting(state: RegistryState, gone: list[SchemaVersion]) -> list[CoordinatorRecord]:
    """Tombstones, and a record of the largest id that each context ever used, so that no id is used twice."""
    ids = {name: context.id_max for name, context in sorted(state.contexts.items())}
    return [
        CoordinatorRecord(NoopKey(), {"ids": ids}),
        *(CoordinatorRecord(stored.key, None) for stored in gone),
    ]


def _check_unreferenced(state: RegistryState, stored: SchemaVersion) -> None:
    for other in state.referrers(SchemaKey(stored.subject, stored.version)):
        if other.subject != stored.subject or other.version != stored.version:
            raise reference_exists(stored.subject, stored.version)


def delete_context(state: RegistryState, context: str) -> RegistryDecision:
    if context not in state.contexts:
        raise subject_not_found(context)
    if state.in_context(context):
        raise context_not_empty(context)
    key = context_key(context)
    entries: list[CoordinatorRecord] = []
    if key in state.modes:
        entries.append(CoordinatorRecord(ModeKey(key), None))
    if key in state.configs:
        entries.append(CoordinatorRecord(ConfigKey(key), None))
    return RegistryDecision(entries, None)


# Settings


def set_config(state: RegistryState, subject: str | None, body: Any) -> RegistryDecision:
    _check_scope(state, subject)
    after = changed_config(body, state.configs.get(subject, {}))
    value = {**({} if subject is None else {"subject": subject}), **after}
    return RegistryDecision([CoordinatorRecord(ConfigKey(subject), value if after else None)], body)


def delete_config(state: RegistryState, subject: str | None) -> RegistryDecision:
    _check_scope(state, subject)
    before = state.configs.get(subject)
    if before is None and subject is not None:
        raise subject_not_found(subject)
    # Without an own level a subject had everybody's, and that is what it is told.
    effective = config_of(state, subject) if before is None else {"compatibilityLevel": None, **before}
    if effective["compatibilityLevel"] is None:
        effective["compatibilityLevel"] = config_of(state, subject)["compatibilityLevel"]
    return RegistryDecision(
        [CoordinatorRecord(ConfigKey(subject), None)] if before is not None else [], effective
    )


def set_mode(state: RegistryState, subject: str | None, body: Any, force: bool) -> RegistryDecision:
    mode = parse_mode(body)
    if mode == "READONLY_OVERRIDE" and subject is not None:
        raise not_permitted("READONLY_OVERRIDE is for all subjects together, not for one")
    if mode == "IMPORT" and not force and _has_schemas(state, subject):
        raise not_permitted("Cannot import since found existing subjects: delete them, or set force=true")
    value = {**({} if subject is None else {"subject": subject}), "mode": mode}
    return RegistryDecision([CoordinatorRecord(ModeKey(subject), value)], {"mode": mode})


def delete_mode(state: RegistryState, subject: str | None) -> RegistryDecision:
    before = state.modes.get(subject)
    if before is None:
        if subject is not None:
            raise subject_not_found(subject)
        return RegistryDecision([], {"mode": mode_of(state, None)})
    return RegistryDecision([CoordinatorRecord(ModeKey(subject), None)], {"mode": before})


def _has_schemas(state: RegistryState, subject: str | None) -> bool:
    if subject is None:
        return any(state.versions(name) for name in state.subjects)
    named = Subject.of(subject)
    if not named.name:
        return any(state.versions(name) for name in state.in_context(named.context))
    return bool(state.versions(subject))


def _check_scope(state: RegistryState, subject: str | None) -> None:
    if mode_of(state, subject) in ("READONLY", "READONLY_OVERRIDE"):
        scope = "The registry" if subject is None else f"Subject {subject}"
        raise not_permitted(f"{scope} is in read-only mode")


def _check_writable(subject: str, mode: str) -> None:
    if mode in ("READONLY", "READONLY_OVERRIDE"):
        context = Subject.of(subject).context
        raise not_permitted(f"Subject {subject} in context {context} is in read-only mode")
