"""The audit trail's queue: bounded, in order, and honest about what it left out."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tidelog.access.audit_events import AUTHORIZATION, CHANGE, DENIED, SUCCESS, Actor, RepeatedEvents
from tidelog.broker.audit.trail import AuditSettings, AuditTrail
from tidelog.testing.clock import VirtualClock

ANN = Actor("User:ann", "SEC", "client", "10.0.0.1")


def trail(queue_max: int = 100) -> AuditTrail:
    return AuditTrail(1, lambda: AuditSettings(True, queue_max))


def changes(trail: AuditTrail, first: int, last: int) -> None:
    for number in range(first, last):
        trail.record(CHANGE, SUCCESS, ANN, "CreateTopics", "TOPIC", f"topic-{number}")


BOB = Actor("User:bob", "SEC", "client", "10.0.0.2")


def test_changes_in_a_loop_do_not_push_out_what_others_did(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    audit = AuditTrail(1, lambda: AuditSettings(True, 1_000), clock)
    caplog.set_level(logging.INFO, "tidelog.audit")
    audit.record(CHANGE, SUCCESS, BOB, "DeleteTopics", "TOPIC", "before")
    changes(audit, 0, 5_000)
    for _ in range(3):
        audit.record(CHANGE, SUCCESS, ANN, "DeleteTopics", "TOPIC", "again")
    audit.record(CHANGE, SUCCESS, BOB, "DeleteTopics", "TOPIC", "after")
    audit.record(AUTHORIZATION, DENIED, BOB, "READ", "TOPIC", "other")
    assert len(caplog.records) == 5_006  # the log has each of them
    assert (audit.queued, audit.dropped) == (RepeatedEvents.CHANGES_OF_PRINCIPAL_MAX + 3, 0)
    assert audit.window_ends_in_s() == 60
    clock.elapse_ms(RepeatedEvents.WINDOW_MS)
    audit.end_window()
    events = read(audit.take(10_000, 1 << 30))
    assert [event["resource"] for event in events if event["principal"] == "User:bob"] == [
        "before",
        "after",
        "other",
    ]
    several = {event["operation"]: event["count"] for event in events if event.get("resource") == "(others)"}
    assert several == {"CreateTopics": 4_800, "DeleteTopics": 3}
    changes(audit, 0, 5)
    assert len(audit.take(10_000, 1 << 30)) == 5  # a new window


def test_changes_of_many_principals_take_bounded_memory() -> None:
    audit = trail(queue_max=0)
    for number in range(3_000):
        actor = Actor(f"User:{number}", "SEC", None, "10.0.0.1")
        for _ in range(3):
            audit.record(CHANGE, SUCCESS, actor, f"Operation{number}", "TOPIC", "topic")
    repeated = audit._repeated
    assert len(repeated._changes) <= RepeatedEvents.PRINCIPALS_MAX + 1
    assert len(repeated._by_kind) <= RepeatedEvents.CHANGE_KINDS_MAX + 1


def read(events: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(event) for event in events]


def test_without_settings_nothing_is_recorded() -> None:
    silent = AuditTrail()
    changes(silent, 0, 3)
    assert not silent.recorded
    assert not silent.queued


def test_each_change_is_an_event_with_an_id_of_its_own() -> None:
    audit = trail()
    changes(audit, 0, 50)
    events = read(audit.take(1_000, 1 << 20))
    assert [event["resource"] for event in events] == [f"topic-{number}" for number in range(50)]
    assert len({event["id"] for event in events}) == 50


def test_what_does_not_fit_is_counted_and_the_count_is_an_event() -> None:
    audit = trail(queue_max=10)
    changes(audit, 0, 25)
    assert (audit.queued, audit.dropped) == (10, 15)
    assert len(audit.take(5, 1 << 20)) == 5
    rest = read(audit.take(100, 1 << 20))
    assert [event["event"] for event in rest] == ["change"] * 5 + ["audit"]
    assert rest[-1]["count"] == 15


def test_events_that_could_not_be_written_come_first_the_next_time() -> None:
    audit = trail(queue_max=10)
    changes(audit, 0, 4)
    taken = audit.take(3, 1 << 20)
    changes(audit, 4, 6)
    audit.give_back(taken)
    events = read(audit.take(100, 1 << 20))
    assert [event["resource"] for event in events] == [f"topic-{number}" for number in range(6)]


def test_giving_back_keeps_the_bound() -> None:
    audit = trail(queue_max=5)
    changes(audit, 0, 5)
    taken = audit.take(100, 1 << 20)
    changes(audit, 5, 8)
    audit.give_back(taken)
    assert (audit.queued, audit.dropped) == (5, 3)


def test_a_batch_is_bounded_in_bytes() -> None:
    audit = trail()
    changes(audit, 0, 50)
    taken = audit.take(1_000, 1_000)
    assert 0 < sum(map(len, taken)) < 2_000
