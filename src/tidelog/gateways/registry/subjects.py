"""Endpoints of /subjects and /compatibility."""

from __future__ import annotations

from typing import Any

from tidelog.gateways.registry.call import Call, Plain, version_json
from tidelog.registry import decisions
from tidelog.registry.formats import Formats
from tidelog.registry.records import SchemaVersion
from tidelog.registry.refusal import schema_not_found, subject_not_found
from tidelog.registry.requests import read_schema_request
from tidelog.registry.settings import without_alias
from tidelog.registry.state import RegistryState
from tidelog.registry.subjects import ANY_CONTEXT, Subject

SUBJECTS_MAX = 20_000


async def subjects(call: Call) -> Any:
    with_deleted, only_deleted = call.flag("deleted"), call.flag("deletedOnly")
    prefix = call.prefix

    def ask(state: RegistryState) -> list[str]:
        return [
            name
            for name in sorted(state.subjects)
            if matches(name, prefix) and _shown(state, name, with_deleted, only_deleted)
        ]

    return call.page(await call.registry.read(ask), SUBJECTS_MAX)


def matches(subject: str, prefix: str) -> bool:
    named = Subject.of(subject)
    if prefix.startswith(ANY_CONTEXT):
        return named.name.startswith(prefix.removeprefix(ANY_CONTEXT))
    wanted = Subject.of(prefix)
    return named.context == wanted.context and named.name.startswith(wanted.name)


def _shown(state: RegistryState, subject: str, with_deleted: bool, only_deleted: bool) -> bool:
    alive = bool(state.versions(subject))
    return not alive if only_deleted else alive or with_deleted


async def versions(call: Call) -> Any:
    with_deleted, only_deleted = call.flag("deleted"), call.flag("deletedOnly")

    def ask(state: RegistryState) -> list[int]:
        subject = without_alias(state, call.subject)
        versions = state.versions(subject, with_deleted or only_deleted)
        if not versions:
            raise subject_not_found(subject)
        return [version.version for version in versions if version.deleted or not only_deleted]

    return call.page(await call.registry.read(ask), SUBJECTS_MAX)


async def version(call: Call) -> Any:
    wanted, deleted = call.version, call.flag("deleted")

    def ask(state: RegistryState) -> SchemaVersion:
        return decisions.version_of(state, without_alias(state, call.subject), wanted, deleted)

    if not call.query.get("format"):
        return version_json(await call.registry.read(ask))
    return version_json(*await call.registry.understand(lambda s, f: formatted(s, f, ask(s), call)))


def formatted(
    state: RegistryState, formats: Formats, stored: SchemaVersion, call: Call
) -> tuple[SchemaVersion, str]:
    """The text of the schema in the requested form: `resolved`, or `serialized` for Protobuf."""
    how = call.query.get("format", "")
    parsed = formats.parse(stored.schema, state.resolve(stored.subject, stored.schema))
    return stored, parsed.formatted(how)


async def version_text(call: Call) -> Any:
    return Plain((await version(call))["schema"])


async def referenced_by(call: Call) -> Any:
    wanted = call.version

    def ask(state: RegistryState) -> list[int]:
        stored = decisions.version_of(state, without_alias(state, call.subject), wanted, True)
        return sorted({referrer.id for referrer in state.referrers(stored.key)})

    return await call.registry.read(ask)


async def register(call: Call) -> Any:
    given, normalize = read_schema_request(call.body), call.flag("normalize")
    stored: SchemaVersion = await call.registry.change(
        lambda state, formats: decisions.register(
            state, formats, without_alias(state, call.subject), given, normalize
        )
    )
    return {"id": stored.id, "version": stored.version, "guid": stored.schema.guid}


async def look_up(call: Call) -> Any:
    given, normalize, deleted = read_schema_request(call.body), call.flag("normalize"), call.flag("deleted")

    def ask(state: RegistryState, formats: Formats) -> tuple[SchemaVersion, str | None]:
        subject = without_alias(state, call.subject)
        stored = decisions.look_up(state, formats, subject, given, normalize, deleted)
        return formatted(state, formats, stored, call) if call.query.get("format") else (stored, None)

    return version_json(*await call.registry.understand(ask))


async def with_metadata(call: Call, keys: list[str], values: list[str]) -> Any:
    """The latest version that has all of these properties."""
    wanted = dict(zip(keys, values, strict=False))
    deleted = call.flag("deleted")

    def ask(state: RegistryState) -> SchemaVersion:
        versions = state.versions(without_alias(state, call.subject), deleted)
        if not versions:
            raise subject_not_found(call.subject)
        for stored in reversed(versions):
            properties = (stored.schema.metadata or {}).get("properties") or {}
            if all(properties.get(key) == value for key, value in wanted.items()):
                return stored
        raise schema_not_found()

    if not call.query.get("format"):
        return version_json(await call.registry.read(ask))
    return version_json(*await call.registry.understand(lambda s, f: formatted(s, f, ask(s), call)))


async def delete_subject(call: Call) -> Any:
    permanent = call.flag("permanent")
    return await call.registry.change(
        lambda state, _: decisions.delete_subject(state, without_alias(state, call.subject), permanent)
    )


async def delete_version(call: Call) -> Any:
    wanted, permanent = call.version, call.flag("permanent")
    return await call.registry.change(
        lambda state, _: decisions.delete_version(
            state, without_alias(state, call.subject), wanted, permanent
        )
    )


async def check_version(call: Call) -> Any:
    return await _check(call, call.version)


async def check_all(call: Call) -> Any:
    return await _check(call, None)


async def _check(call: Call, wanted: int | None) -> Any:
    given, normalize = read_schema_request(call.body), call.flag("normalize")
    verbose = call.flag("verbose")

    def ask(state: RegistryState, formats: Formats) -> list[str]:
        subject = without_alias(state, call.subject)
        return decisions.check(state, formats, subject, given, normalize, wanted)

    problems = await call.registry.understand(ask)
    answer: dict[str, Any] = {"is_compatible": not problems}
    if verbose:
        answer["messages"] = problems
    return answer
