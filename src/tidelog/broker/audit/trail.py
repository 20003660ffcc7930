"""The audit trail of one broker: log-ins, denials, changes, of every door.  Each event goes to the logger `tidelog.audit`
and into a bounded queue, which `topic_writer` writes to the topic.

`record` never waits and never fails: auditing holds up no request.  What does not fit into the queue is counted, and the
count is an event of its own as soon as there is room."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tidelog.access.audit_events import (
    AUDIT,
    AUTHENTICATION,
    AUTHORIZATION,
    CHANGE,
    DENIED,
    FAILURE,
    SUCCESS,
    Actor,
    AuditEvent,
    RepeatedEvents,
    encoded,
)
from tidelog.broker.session import Session
from tidelog.clock import Clock, SystemClock
from tidelog.config import BrokerConfig

log = logging.getLogger("tidelog.audit")


class AuditSettings(NamedTuple):
    enabled: bool = False
    queue_max: int = 0
    """0: events go to the log alone."""


def audit_settings(config: BrokerConfig) -> AuditSettings:
    return AuditSettings(config.audits, config.tidelog_audit_queue_max if config.tidelog_audit_topic else 0)


class AuditTrail:
    def __init__(
        self,
        node: int = 0,
        settings: Callable[[], AuditSettings] = AuditSettings,
        clock: Clock | None = None,
    ) -> None:
        """Without settings nothing is recorded."""
        self._node = node
        self._settings = settings
        self._clock = SystemClock() if clock is None else clock
        self._repeated = RepeatedEvents()
        self._queue: deque[bytes] = deque()
        self._missing = 0
        self._began_ms = self._clock.now_ms()
        self._told = 0
        self.came = asyncio.Event()
        """Set when there is something to write."""
        self.recorded: dict[tuple[str, str], int] = {}
        """Events by kind and outcome, repeated ones included."""
        self.dropped = 0
        """Events that the topic does not have."""

    @property
    def enabled(self) -> bool:
        return self._settings().enabled

    # What happened

    def logged_in(self, session: Session, mechanism: str) -> None:
        self.record(AUTHENTICATION, SUCCESS, _actor(session), mechanism)

    def login_refused(self, session: Session, mechanism: str, name: str | None, reason: str) -> None:
        """`name` is what the client called itself."""
        actor = _actor(session)._replace(principal="" if name is None else f"User:{name}")
        self.record(AUTHENTICATION, FAILURE, actor, mechanism, reason=reason)

    def denied(self, session: Session, operation: str, resource_type: str, resource: str) -> None:
        self.record(AUTHORIZATION, DENIED, _actor(session), operation, resource_type, resource)

    def changed(
        self,
        session: Session,
        operation: str,
        resource_type: str,
        resource: str,
        change: Mapping[str, Any],
        problem: str | None,
    ) -> None:
        """`problem`: the name of the error that the client was answered; None if it was done."""
        outcome = SUCCESS if problem is None else FAILURE
        self.record(
            CHANGE, outcome, _actor(session), operation, resource_type, resource, problem or "", change
        )

    def record(
        self,
        event: str,
        outcome: str,
        actor: Actor,
        operation: str,
        resource_type: str = "",
        resource: str = "",
        reason: str = "",
        change: Mapping[str, Any] | None = None,
    ) -> None:
        if not self.enabled:
            return
        key = event, outcome
        self.recorded[key] = self.recorded.get(key, 0) + 1
        now_ms = self._clock.now_ms()
        recorded = AuditEvent(
            now_ms, event, outcome, actor, operation, resource_type, resource, reason, change
        )
        if event == CHANGE and outcome == SUCCESS:
            if self._repeated.changed(recorded, self._clock.monotonic_ms()):
                self._tell(recorded)
            else:
                self._log(recorded)
                self.came.set()
            return
        first = self._repeated.came(recorded, self._clock.monotonic_ms())
        if first is not None:
            self._tell(first)
        self.came.set()

    def _tell(self, event: AuditEvent) -> None:
        self._enqueue(self._log(event).encode())

    def _log(self, event: AuditEvent) -> str:
        """The log has each change, also those that the topic has added up."""
        self._told += 1
        fields = event.fields(self._node, f"{self._node}-{self._began_ms}-{self._told}")
        line = encoded(fields)
        log.info("%s", line, extra={"audit": fields})
        return line

    def _enqueue(self, line: bytes) -> None:
        queue_max = self._settings().queue_max
        if len(self._queue) < queue_max:
            self._queue.append(line)
            self.came.set()
        elif queue_max:
            self.dropped += 1
            self._missing += 1

    # For who writes the topic

    @property
    def queued(self) -> int:
        return len(self._queue)

    def window_ends_in_s(self) -> float | None:
        ends_ms = self._repeated.ends_in_ms(self._clock.monotonic_ms())
        return None if ends_ms is None else ends_ms / 1000

    def end_window(self) -> None:
        """Records the added-up events."""
        for event in self._repeated.ended(self._clock.now_ms()):
            self._tell(event)

    def take(self, count_max: int, bytes_max: int) -> list[bytes]:
        """The oldest events, taken out of the queue; at least one if there is any."""
        taken: list[bytes] = []
        size = 0
        while self._queue and len(taken) < count_max and size < bytes_max:
            taken.append(self._queue.popleft())
            size += len(taken[-1])
        if self._missing and len(self._queue) < self._settings().queue_max:
            missing, self._missing = self._missing, 0
            actor = Actor("", "", None, "")
            self._tell(
                AuditEvent(
                    self._clock.now_ms(), AUDIT, FAILURE, actor, "DROP", reason="queue full", times=missing
                )
            )
        return taken

    def give_back(self, events: list[bytes]) -> None:
        """Puts events that could not be written back at the head of the queue, within its bound."""
        places = max(0, self._settings().queue_max - len(self._queue))
        lost = len(events) - places
        if lost > 0:
            self.dropped += lost
            self._missing += lost
            events = events[lost:]
        self._queue.extendleft(reversed(events))


def _actor(session: Session) -> Actor:
    return Actor(session.principal, session.listener, session.client_id, session.host)
