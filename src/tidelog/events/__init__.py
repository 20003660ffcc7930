"""Event sourcing: aggregates whose state is what happened to them, in a topic that refuses a decision made on old knowledge.

    from tidelog.events import Aggregate, EventStore, applies, event

See docs/guide/event-sourcing.md.  `tidelog.events.testing` tests aggregates without a broker."""

from __future__ import annotations

from tidelog.events.aggregate import Aggregate, applies
from tidelog.events.errors import EventError, UnknownEvent, VersionConflict
from tidelog.events.projection import Projection
from tidelog.events.store import EventStore
from tidelog.events.types import Recorded, event, upcast

__all__ = [
    "Aggregate",
    "EventError",
    "EventStore",
    "Projection",
    "Recorded",
    "UnknownEvent",
    "VersionConflict",
    "applies",
    "event",
    "upcast",
]
