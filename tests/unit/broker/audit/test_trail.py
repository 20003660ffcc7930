"""The audit trail's queue: bounded, in order, and honest about what it left out."""

from __future__ import annotations

import json
from typing import Any

from tidelog.access.audit_events import CHANGE, SUCCESS, Actor
from tidelog.broker.audit.trail import AuditSettings, AuditTrail

ANN = Actor("User:ann", "SEC", "client", "10.0.0.1")


def trail(queue_max: int = 100) -> AuditTrail:
    return AuditTrail(1, lambda: AuditSettings(True, queue_max))


def changes(trail: AuditTrail, first: int, last: int) -> None:
    for number in range(first, last):
        trail.record(CHANGE, SUCCESS, ANN, "CreateTopics", "TOPIC", f"topic-{number}")


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
