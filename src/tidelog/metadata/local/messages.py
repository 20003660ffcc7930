"""The messages between `local.store` and `local.server`: JSON in frames of a known length.

A request is `{"id": N, "call": NAME, ...}`; its answer has the same id, and `result` or `error`.  Values are bytes, which
JSON carries as base64.  Pure: sockets are in `local.sockets`."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from tidelog import errors
from tidelog.metadata.store import (
    Changes,
    Compacted,
    Compare,
    Delete,
    DeletePrefix,
    KeyChange,
    LeaseEnded,
    Operation,
    Put,
    Snapshot,
    StoredEntry,
    TooLarge,
)

LENGTH_BYTES = 4
REQUEST_BYTES_MAX = 16 << 20  # room for a transaction of `local.store.BYTES_MAX` in base64
ANSWER_BYTES_MAX = 512 << 20  # a snapshot of everything

# The errors that a store may raise, by the name that they have in an answer.
_ERRORS: dict[str, type[Exception]] = {
    "compacted": Compacted,
    "lease ended": LeaseEnded,
    "storage": errors.KafkaStorageError,
    "too large": TooLarge,
}


class BadMessage(Exception):
    """The peer does not speak this protocol, or another version of it."""


def encode(message: dict[str, Any]) -> bytes:
    data = json.dumps(message, separators=(",", ":")).encode()
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def decode(data: bytes) -> dict[str, Any]:
    try:
        message = json.loads(data)
    except ValueError as problem:
        raise BadMessage(f"A frame has no JSON: {problem}") from None
    if not isinstance(message, dict):
        raise BadMessage(f"A frame has {type(message).__name__} instead of an object.")
    return message


# Errors


def error_fields(problem: Exception) -> dict[str, str]:
    for name, kind in _ERRORS.items():
        if isinstance(problem, kind):
            return {"error": name, "text": str(problem)}
    return {"error": "storage", "text": f"The metadata store failed: {type(problem).__name__}: {problem}"}


def read_error(answer: dict[str, Any]) -> Exception:
    kind = _ERRORS.get(answer["error"], errors.KafkaStorageError)
    return kind(answer["text"])


# Entries and changes


def value_text(value: bytes) -> str:
    return b64encode(value).decode()


def entry_fields(entry: StoredEntry) -> list[Any]:
    return [entry.key, value_text(entry.value), entry.revision]


def read_entry(fields: Sequence[Any]) -> StoredEntry:
    key, value, revision = fields
    return StoredEntry(key, b64decode(value), revision)


def snapshot_fields(snapshot: Snapshot) -> dict[str, Any]:
    return {"revision": snapshot.revision, "entries": [entry_fields(entry) for entry in snapshot.entries]}


def read_snapshot(fields: dict[str, Any]) -> Snapshot:
    return Snapshot(fields["revision"], [read_entry(entry) for entry in fields["entries"]])


def changes_fields(changes: Changes) -> dict[str, Any]:
    pairs = [
        [change.key, None if change.value is None else value_text(change.value)] for change in changes.changes
    ]
    return {"revision": changes.revision, "changes": pairs}


def read_changes(fields: dict[str, Any]) -> Changes:
    pairs = (KeyChange(key, None if value is None else b64decode(value)) for key, value in fields["changes"])
    return Changes(fields["revision"], tuple(pairs))


# Transactions


def txn_fields(compare: Sequence[Compare], then: Sequence[Operation]) -> dict[str, Any]:
    return {"compare": [list(comparison) for comparison in compare], "then": list(map(_operation, then))}


def _operation(operation: Operation) -> list[Any]:
    if isinstance(operation, Put):
        return ["put", operation.key, value_text(operation.value), operation.lease]
    if isinstance(operation, Delete):
        return ["delete", operation.key]
    return ["delete prefix", operation.prefix]


def read_txn(fields: dict[str, Any]) -> tuple[list[Compare], list[Operation]]:
    compare = [Compare(key, revision) for key, revision in fields["compare"]]
    return compare, list(map(_read_operation, fields["then"]))


def _read_operation(fields: list[Any]) -> Operation:
    match fields:
        case ["put", key, value, lease]:
            return Put(key, b64decode(value), lease)
        case ["delete", key]:
            return Delete(key)
        case ["delete prefix", prefix]:
            return DeletePrefix(prefix)
    raise BadMessage(f"An operation cannot be {fields[:1]}.")
