"""Endpoints of /schemas, /config, /mode and /contexts."""

from __future__ import annotations

from typing import Any

from tidelog.gateways.registry.call import Call, Plain, schema_json, version_json
from tidelog.gateways.registry.subjects import SUBJECTS_MAX, formatted, matches
from tidelog.registry import decisions
from tidelog.registry.records import SchemaVersion
from tidelog.registry.refusal import compatibility_not_set, malformed, mode_not_set, schema_not_found
from tidelog.registry.schema import TYPES
from tidelog.registry.settings import config_of, mode_of
from tidelog.registry.state import RegistryState, SchemaContext
from tidelog.registry.subjects import DEFAULT_CONTEXT, Subject, context_named

SCHEMAS_MAX = 1000
_ID_MAX = (1 << 31) - 1


async def types(call: Call) -> Any:
    return list(TYPES)


async def schemas(call: Call) -> Any:
    prefix, deleted, latest_only = call.prefix, call.flag("deleted"), call.flag("latestOnly")

    def ask(state: RegistryState) -> list[SchemaVersion]:
        stored_versions: list[SchemaVersion] = []
        for name in sorted(state.subjects):
            if matches(name, prefix):
                versions = state.versions(name, deleted)
                stored_versions += versions[-1:] if latest_only else versions
        return stored_versions

    return [version_json(version) for version in call.page(await call.registry.read(ask), SCHEMAS_MAX)]


def _id(call: Call) -> int:
    text = call.names[0]
    if not (text.isascii() and text.isdigit()) or int(text) > _ID_MAX:
        raise schema_not_found(text)
    return int(text)


def users_of_id(state: RegistryState, call: Call) -> tuple[str, list[SchemaVersion]]:
    """As `_users`, of the id that the request names."""
    return _users(state, _id(call), call.subject_of_id)


def _users(state: RegistryState, wanted: int, subject: str | None) -> tuple[str, list[SchemaVersion]]:
    """The context that the id belongs to, and the versions that use the id in this context."""
    named = Subject.of(subject or "")
    context = state.contexts.get(named.context)
    if context is not None and wanted in context.schemas:
        return named.context, _stored(state, context, wanted)
    if subject and not subject.startswith(":."):
        # A subject of that name in another context will do, if it is the only place where the id is.
        for name, other in sorted(state.contexts.items()):
            stored_versions = _stored(state, other, wanted) if wanted in other.schemas else []
            if any(Subject.of(version.subject).name == subject for version in stored_versions):
                return name, stored_versions
    raise schema_not_found(wanted)


def _stored(state: RegistryState, context: SchemaContext, wanted: int) -> list[SchemaVersion]:
    stored_versions = (state.subjects[key.subject][key.version] for key in context.users[wanted])
    return sorted(stored_versions, key=lambda version: (version.subject, version.version))


async def by_id(call: Call) -> Any:
    wanted, subject, with_max = _id(call), call.subject_of_id, call.flag("fetchMaxId")

    def ask(state: RegistryState) -> tuple[SchemaVersion, int]:
        context, stored_versions = _users(state, wanted, subject)
        return stored_versions[0], state.id_max(context)

    if call.query.get("format"):

        def understand(state: RegistryState, formats: Any) -> tuple[tuple[SchemaVersion, str], int]:
            stored, id_max = ask(state)
            return formatted(state, formats, stored, call), id_max

        (stored, text), id_max = await call.registry.understand(understand)
        body = schema_json(stored.schema, text)
    else:
        stored, id_max = await call.registry.read(ask)
        body = schema_json(stored.schema)
    body["guid"] = stored.schema.guid
    if with_max:
        body["maxId"] = id_max
    return body


async def text_by_id(call: Call) -> Any:
    return Plain((await by_id(call))["schema"])


async def subjects_of_id(call: Call) -> Any:
    return sorted({version.subject for version in await _versions_of_id(call)})


async def versions_of_id(call: Call) -> Any:
    return [
        {"subject": version.subject, "version": version.version} for version in await _versions_of_id(call)
    ]


async def _versions_of_id(call: Call) -> list[SchemaVersion]:
    wanted, subject, deleted = _id(call), call.subject_of_id, call.flag("deleted")
    only = None if subject is None else Subject.of(subject).name or None

    def ask(state: RegistryState) -> list[SchemaVersion]:
        _, stored_versions = _users(state, wanted, subject)
        return [
            version
            for version in stored_versions
            if (deleted or not version.deleted) and only in (None, Subject.of(version.subject).name)
        ]

    return call.page(await call.registry.read(ask), SUBJECTS_MAX)


async def by_guid(call: Call) -> Any:
    guid = call.names[0].lower()

    def ask(state: RegistryState) -> SchemaVersion:
        for versions in state.subjects.values():
            for stored in versions.values():
                if stored.schema.guid == guid:
                    return stored
        raise schema_not_found(guid)

    if not call.query.get("format"):
        stored = await call.registry.read(ask)
        return {**schema_json(stored.schema), "guid": guid}
    stored, text = await call.registry.understand(lambda s, f: formatted(s, f, ask(s), call))
    return {**schema_json(stored.schema, text), "guid": guid}


async def ids_of_guid(call: Call) -> Any:
    guid = call.names[0].lower()

    def ask(state: RegistryState) -> list[dict[str, Any]]:
        stored_versions = [
            {"context": name, "id": number}
            for name, context in sorted(state.contexts.items())
            for number, schema in sorted(context.schemas.items())
            if schema.guid == guid
        ]
        if not stored_versions:
            raise schema_not_found(guid)
        return stored_versions

    return await call.registry.read(ask)


async def contexts(call: Call) -> Any:
    def ask(state: RegistryState) -> list[str]:
        used = {Subject.of(name).context for name in state.subjects}
        return sorted({DEFAULT_CONTEXT, *used})

    return call.page(await call.registry.read(ask), SUBJECTS_MAX)


async def delete_context(call: Call) -> Any:
    context = context_named(call.names[0])
    return await call.registry.change(lambda state, _: decisions.delete_context(state, context))


# Settings


async def config(call: Call) -> Any:
    scope, inherited = call.scope, call.flag("defaultToGlobal")

    def ask(state: RegistryState) -> dict[str, Any]:
        own = state.configs.get(scope)
        if scope is None or inherited:
            return config_of(state, scope)
        if own is None:
            raise compatibility_not_set(scope)
        return dict(own)

    return await call.registry.read(ask)


async def set_config(call: Call) -> Any:
    scope, body = call.scope, call.body
    return await call.registry.change(lambda state, _: decisions.set_config(state, scope, body))


async def delete_config(call: Call) -> Any:
    scope = call.scope
    return await call.registry.change(lambda state, _: decisions.delete_config(state, scope))


async def mode(call: Call) -> Any:
    scope, inherited = call.scope, call.flag("defaultToGlobal")

    def ask(state: RegistryState) -> dict[str, str]:
        if scope is not None and not inherited and scope not in state.modes:
            raise mode_not_set(scope)
        return {"mode": mode_of(state, scope) if inherited or scope is None else state.modes[scope]}

    return await call.registry.read(ask)


async def set_mode(call: Call) -> Any:
    scope, body, force = call.scope, call.body, call.flag("force")
    if not isinstance(body, dict):
        raise malformed('The body must be a JSON object such as {"mode": "READONLY"}')
    return await call.registry.change(lambda state, _: decisions.set_mode(state, scope, body, force))


async def delete_mode(call: Call) -> Any:
    scope = call.scope
    return await call.registry.change(lambda state, _: decisions.delete_mode(state, scope))
