"""Types of events: their names and versions, and how a commit of them is written as one record.

A commit is what an aggregate decided at once.  It is one record, so it is stored, refused and read as a whole:

    {"events": [{"type": "account.deposited", "version": 1, "data": {"amount": 5}}], "meta": {}}"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tidelog.events.errors import EventError, UnknownEvent

E = TypeVar("E", bound=type)
Fields = dict[str, Any]
Upcaster = Callable[[Fields], Fields]


class Recorded(NamedTuple):
    """An event as it is stored.  `version`: of its aggregate after it; events of one commit have the same."""

    aggregate_id: str
    event: Any
    version: int
    timestamp_ms: int
    partition: int
    meta: Mapping[str, Any]


class _Type(NamedTuple):
    name: str
    version: int
    kind: type


_by_name: dict[str, _Type] = {}
_by_class: dict[type, _Type] = {}
_upcasters: dict[tuple[str, int], Upcaster] = {}


def event(name: str, version: int = 1) -> Callable[[E], E]:
    """Declares a dataclass as the newest version of an event:

    @event("account.deposited")
    @dataclass(frozen=True)
    class Deposited:
        amount: int"""

    def declare(kind: E) -> E:
        if not dataclasses.is_dataclass(kind):
            raise EventError(f"{kind.__name__} must be a dataclass: put @dataclass below @event")
        taken = _by_name.get(name)
        if taken is not None and _place(taken.kind) != _place(kind):
            raise EventError(f"two classes are the event {name!r}: {_place(taken.kind)} and {_place(kind)}")
        _by_name[name] = _by_class[kind] = _Type(name, version, kind)
        return kind

    return declare


def upcast(name: str, version: int) -> Callable[[Upcaster], Upcaster]:
    """Declares how the fields of an old version become those of the next one:

    @upcast("account.deposited", 1)
    def _(fields):
        return {"amount": fields["euros"] * 100}"""

    def declare(change: Upcaster) -> Upcaster:
        _upcasters[name, version] = change
        return change

    return declare


def check_declared(instance: object) -> None:
    if type(instance) not in _by_class:
        raise EventError(f"{type(instance).__name__} is not an event: put @event('its.name') above it")


def encode(events: Sequence[Any], meta: Mapping[str, Any]) -> bytes:
    """The value of a commit's record."""
    written = []
    for instance in events:
        check_declared(instance)
        declared = _by_class[type(instance)]
        data = {field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)}
        written.append({"type": declared.name, "version": declared.version, "data": data})
    try:
        text = json.dumps({"events": written, "meta": dict(meta)}, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as problem:
        raise EventError(
            f"an event of {', '.join(type(instance).__name__ for instance in events)} is no JSON: {problem}"
        ) from None
    return text.encode()


def decode(value: bytes) -> tuple[list[Any], Mapping[str, Any]]:
    """The events of a commit, each in its newest version, and the commit's own fields."""
    try:
        commit = json.loads(value)
        events = [_event(each["type"], each["version"], each["data"]) for each in commit["events"]]
        return events, commit.get("meta", {})
    except (ValueError, KeyError, TypeError) as problem:
        raise UnknownEvent(f"a record is not a commit of events: {problem!r}") from None


def _event(name: str, version: int, fields: Fields) -> Any:
    declared = _by_name.get(name)
    if declared is None:
        raise UnknownEvent(f"no class is declared for the event {name!r}: import the module that declares it")
    while version < declared.version:
        change = _upcasters.get((name, version))
        if change is None:
            raise UnknownEvent(
                f"version {version} of {name!r} is stored, and the newest is {declared.version}: declare "
                f"@upcast({name!r}, {version})"
            )
        fields, version = change(dict(fields)), version + 1
    if version > declared.version:
        raise UnknownEvent(
            f"version {version} of {name!r} is stored, newer than {declared.version}: update this program"
        )
    try:
        return declared.kind(**fields)
    except TypeError as problem:
        raise UnknownEvent(
            f"the stored fields of {name!r} are not those of {declared.kind.__name__}: {problem}"
        ) from None


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
