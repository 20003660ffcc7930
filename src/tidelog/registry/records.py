"""The records of `_schemas`: keys and values in JSON, in the format of Confluent's registry, so that either registry can
take over the topic of the other.  Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.coordination.records import CoordinatorRecord, RecordTypes
from tidelog.errors import InvalidRecord
from tidelog.registry.schema import Reference, Schema

TOPIC = "_schemas"
Settings = Mapping[str, Any]


class SchemaKey(NamedTuple):
    subject: str
    version: int


class DeleteSubjectKey(NamedTuple):
    subject: str


class ClearSubjectKey(NamedTuple):
    subject: str


class ConfigKey(NamedTuple):
    subject: str | None
    """None for all subjects; `:.context:` for all subjects of a context."""


class ModeKey(NamedTuple):
    subject: str | None


class NoopKey(NamedTuple):
    """Other registries only read this key.  Its value holds the largest id that each context ever used."""


class SchemaVersion(NamedTuple):
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False

    @property
    def key(self) -> SchemaKey:
        return SchemaKey(self.subject, self.version)


_KEYTYPES: dict[str, tuple[type[Any], int]] = {
    "SCHEMA": (SchemaKey, 1),
    "DELETE_SUBJECT": (DeleteSubjectKey, 0),
    "CLEAR_SUBJECT": (ClearSubjectKey, 0),
    "CONFIG": (ConfigKey, 0),
    "MODE": (ModeKey, 0),
    "NOOP": (NoopKey, 0),
}
_NAMES = {kind: (name, magic) for name, (kind, magic) in _KEYTYPES.items()}


class JsonRecordTypes(RecordTypes):
    """Records in JSON instead of Kafka's numbered record types."""

    def encode(self, entry: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        name, magic = _NAMES[type(entry.key)]
        key = {"keytype": name, **entry.key._asdict(), "magic": magic}
        if name in ("CONFIG", "MODE") and entry.key.subject is None:
            key = {"keytype": name, "magic": magic}
        value = entry.value
        if value is None:
            return _bytes(key), None
        return _bytes(key), _bytes(_stored_body(value) if isinstance(value, SchemaVersion) else value)

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
        fields = _loads(key)
        kind = _KEYTYPES.get(str(fields.get("keytype")))
        if kind is None:
            return None  # a record type of other registries
        given = None if value is None else _loads(value)
        try:
            read = _key(kind[0], fields)
            if given is not None and isinstance(read, SchemaKey):
                return CoordinatorRecord(read, _stored(read, given))
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidRecord(f"{fields}: {problem!r}") from None
        return CoordinatorRecord(read, given)


def _key(kind: type[Any], fields: dict[str, Any]) -> Any:
    if kind is SchemaKey:
        return SchemaKey(str(fields["subject"]), int(fields["version"]))
    if kind is NoopKey:
        return NoopKey()
    subject = fields.get("subject")
    return kind(None if subject is None else str(subject))


def _stored_body(stored: SchemaVersion) -> dict[str, Any]:
    schema = stored.schema
    body: dict[str, Any] = {"subject": stored.subject, "version": stored.version, "id": stored.id}
    body["md5"] = base64.b64encode(schema.fingerprint).decode()
    return {**body, **schema.optional_fields, "schema": schema.text, "deleted": stored.deleted}


def _stored(key: SchemaKey, given: dict[str, Any]) -> SchemaVersion:
    references = tuple(
        Reference(str(reference["name"]), str(reference["subject"]), int(reference["version"]))
        for reference in given.get("references") or ()
    )
    schema = Schema(
        str(given["schema"]),
        given.get("schemaType") or "AVRO",
        references,
        given.get("metadata"),
        given.get("ruleSet"),
    )
    return SchemaVersion(key.subject, key.version, int(given["id"]), schema, bool(given.get("deleted")))


def _bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _loads(data: bytes | None) -> dict[str, Any]:
    try:
        fields = json.loads((data or b"").decode("utf-8", "surrogatepass"))
    except ValueError:
        raise InvalidRecord(f"the record of {TOPIC} is not JSON") from None
    if not isinstance(fields, dict):
        raise InvalidRecord(f"the record of {TOPIC} is not a JSON object")
    return fields
