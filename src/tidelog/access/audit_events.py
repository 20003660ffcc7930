"""Events of the audit trail: who (principal, listener, client id, address) did what, when, and with what outcome.  Pure.

Much of an event is text that a client chose, so every field is cut to a bound and an event is one line of ASCII, whatever
the client sent.  `RepeatedEvents` adds up what a client can cause as often as it likes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

NAME_CHARACTERS_MAX = 300
REASON_CHARACTERS_MAX = 500
CHANGED_MAX = 50
SUCCESS, FAILURE, DENIED = OUTCOMES = ("success", "failure", "denied")
AUTHENTICATION, AUTHORIZATION, CHANGE, AUDIT = "authentication", "authorization", "change", "audit"
OTHERS = "(others)"
_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
HIDDEN = "[hidden]"
"""In place of a secret."""


class Actor(NamedTuple):
    """Who did something."""

    principal: str
    listener: str
    client_id: str | None
    address: str


class AuditEvent(NamedTuple):
    time_ms: int
    event: str
    outcome: str
    actor: Actor
    operation: str
    """CREATE_TOPICS, WRITE, SCRAM-SHA-512, ..."""
    resource_type: str = ""
    resource: str = ""
    reason: str = ""
    change: Mapping[str, Any] | None = None
    times: int = 1
    """How often this happened since `first_ms`."""
    first_ms: int | None = None

    def fields(self, node: int, id: str) -> dict[str, Any]:
        """`id` is of this event alone: an event may be in the topic twice."""
        actor = self.actor
        fields: dict[str, Any] = {
            "id": id,
            "time": _shown_time(self.time_ms),
            "broker": node,
            "event": self.event,
            "outcome": self.outcome,
            "principal": cut(actor.principal),
            "listener": cut(actor.listener),
            "client_id": None if actor.client_id is None else cut(actor.client_id),
            "address": cut(actor.address),
            "operation": cut(self.operation),
        }
        if self.resource_type:
            fields |= {"resource_type": self.resource_type, "resource": cut(self.resource)}
        if self.reason:
            fields["reason"] = cut(self.reason, REASON_CHARACTERS_MAX)
        if self.change:
            fields["change"] = _bounded(self.change)
        if self.times > 1:
            fields["count"] = self.times
        if self.first_ms is not None:
            fields["first"] = _shown_time(self.first_ms)
        return fields

    @property
    def same_as(self) -> tuple[object, ...]:
        """Equal for events that are told once, with how often they happened."""
        return (
            self.event,
            self.outcome,
            self.actor.principal,
            self.actor.listener,
            self.operation,
            self.resource_type,
            self.resource,
        )


def encoded(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))


def cut(text: str, most: int = NAME_CHARACTERS_MAX) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _bounded(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, Mapping):
        entries = list(value.items())[:CHANGED_MAX]
        bounded = {cut(str(name)): _bounded(entry, depth + 1) for name, entry in entries}
        return bounded if len(value) <= CHANGED_MAX else bounded | {"...": f"{len(value) - CHANGED_MAX} more"}
    if isinstance(value, Sequence):
        items = [_bounded(item, depth + 1) for item in value[:CHANGED_MAX]]
        return items if len(value) <= CHANGED_MAX else [*items, f"... {len(value) - CHANGED_MAX} more"]
    return value


def _shown_time(time_ms: int) -> str:
    return f"{(_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec='milliseconds')}Z"


class _Repeats:
    __slots__ = ("count", "event")

    def __init__(self, event: AuditEvent) -> None:
        self.event = event
        self.count = 0
        """Of those that came after the first one, which was told at once."""


class RepeatedEvents:
    """Reports the first refusal of a kind at once, and adds up later ones until `WINDOW_MS` are over.  In a window, each
    address has a number of kinds of its own, and all addresses together have some more; events beyond these are one event
    with a count.  Changes are reported one by one, up to a number for each principal."""

    WINDOW_MS = 60_000
    OF_ADDRESS_MAX = 20
    OF_ALL_MAX = 400
    CHANGES_OF_PRINCIPAL_MAX = 200
    PRINCIPALS_MAX = 1_000
    CHANGE_KINDS_MAX = 400

    def __init__(self) -> None:
        self._changes: dict[str, int] = {}
        self._changes_began_ms: int | None = None
        self._change_kinds = 0
        self._began_ms = 0
        self._by_kind: dict[tuple[object, ...], _Repeats] = {}
        self._by_address: dict[str, int] = {}

    def came(self, event: AuditEvent, now_ms: int) -> AuditEvent | None:
        """The event, if it is to be told now.  `now_ms` is of a clock that never goes back."""
        if not self._by_kind:
            self._began_ms = now_ms
        address = event.actor.address
        repeats = self._by_kind.get((address, *event.same_as))
        if repeats is not None:
            repeats.count += 1
            return None
        if len(self._by_kind) - self._change_kinds >= self.OF_ALL_MAX:
            self._add_up(event, OTHERS)
            return None
        if self._by_address.get(address, 0) >= self.OF_ADDRESS_MAX:
            self._add_up(event, address)
            return None
        self._by_address[address] = self._by_address.get(address, 0) + 1
        self._by_kind[address, *event.same_as] = _Repeats(event)
        return event

    def changed(self, event: AuditEvent, now_ms: int) -> bool:
        """True if this change is told by itself.  Beyond a number of changes of a principal within a window, those of one
        operation are added up: a client that changes something in a loop must not push out what others did."""
        if self._changes_began_ms is None or now_ms - self._changes_began_ms >= self.WINDOW_MS:
            self._changes.clear()
            self._changes_began_ms = now_ms
        principal = event.actor.principal
        if principal not in self._changes and len(self._changes) >= self.PRINCIPALS_MAX:
            principal = OTHERS
        self._changes[principal] = self._changes.get(principal, 0) + 1
        if self._changes[principal] <= self.CHANGES_OF_PRINCIPAL_MAX:
            return True
        several = event._replace(
            actor=event.actor._replace(principal=principal), resource=OTHERS, reason="", change=None
        )
        key = (CHANGE, *several.same_as)
        if key not in self._by_kind:
            if self._change_kinds >= self.CHANGE_KINDS_MAX:
                several = several._replace(operation=OTHERS, resource_type="")
                key = (CHANGE, CHANGE, SUCCESS)
            self._change_kinds += key not in self._by_kind
        if not self._by_kind:
            self._began_ms = now_ms
        self._by_kind.setdefault(key, _Repeats(several)).count += 1
        return False

    def _add_up(self, event: AuditEvent, address: str) -> None:
        key = (address, event.event, event.outcome)
        repeats = self._by_kind.get(key)
        if repeats is None:
            actor = Actor(OTHERS, OTHERS, None, address)
            several = AuditEvent(event.time_ms, event.event, event.outcome, actor, OTHERS)
            repeats = self._by_kind[key] = _Repeats(several)
        repeats.count += 1

    def ends_in_ms(self, now_ms: int) -> int | None:
        """Until the window ends; None without anything to tell."""
        return max(0, self._began_ms + self.WINDOW_MS - now_ms) if self._by_kind else None

    def ended(self, time_ms: int) -> list[AuditEvent]:
        """The window is over: what was added up in it.  `time_ms` is the time of day."""
        repeated = [
            repeats.event._replace(
                time_ms=time_ms, times=repeats.count, first_ms=repeats.event.time_ms, reason="repeated"
            )
            for repeats in self._by_kind.values()
            if repeats.count
        ]
        self._by_kind.clear()
        self._by_address.clear()
        self._change_kinds = 0
        return repeated
