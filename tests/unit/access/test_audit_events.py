"""Events of the audit trail: their bounds, and how repeated ones are added up."""

from __future__ import annotations

import json

from tidelog.access.audit_events import (
    AUTHENTICATION,
    FAILURE,
    OTHERS,
    Actor,
    AuditEvent,
    RepeatedEvents,
    encoded,
)


def event(address: str = "10.0.0.1", user: str = "ann", time_ms: int = 1_000) -> AuditEvent:
    actor = Actor(f"User:{user}", "SEC", None, address)
    return AuditEvent(time_ms, AUTHENTICATION, FAILURE, actor, "PLAIN")


def test_the_first_event_is_told_at_once_and_the_others_with_their_number() -> None:
    repeated = RepeatedEvents()
    assert repeated.came(event(), 0) == event()
    assert repeated.came(event(time_ms=1_500), 500) is None
    assert repeated.came(event(time_ms=2_000), 1_000) is None
    assert repeated.ends_in_ms(1_000) == RepeatedEvents.WINDOW_MS - 1_000
    (several,) = repeated.ended(61_000)
    assert (several.times, several.time_ms, several.first_ms) == (2, 61_000, 1_000)
    assert repeated.ends_in_ms(61_000) is None
    assert repeated.came(event(), 61_000) == event()


def test_an_address_that_varies_names_is_told_a_bounded_number_of_times() -> None:
    repeated = RepeatedEvents()
    told = [repeated.came(event(user=f"user-{number}"), 0) for number in range(10_000)]
    assert sum(one is not None for one in told) == RepeatedEvents.OF_ADDRESS_MAX
    (several,) = repeated.ended(60_000)
    assert several.times == 10_000 - RepeatedEvents.OF_ADDRESS_MAX
    assert (several.actor.address, several.actor.principal) == ("10.0.0.1", OTHERS)


def test_many_addresses_together_are_told_a_bounded_number_of_times() -> None:
    repeated = RepeatedEvents()
    told = [repeated.came(event(address=f"10.0.{number >> 8}.{number & 255}"), 0) for number in range(10_000)]
    count = sum(one is not None for one in told)
    assert count == RepeatedEvents.OF_ALL_MAX
    (several,) = repeated.ended(60_000)
    assert (several.times, several.actor.address) == (10_000 - count, OTHERS)


def test_addresses_that_fill_their_own_bound_do_not_grow_the_table() -> None:
    repeated = RepeatedEvents()
    for address in range(2_000):
        for user in range(30):
            repeated.came(event(f"10.{address}.0.1", f"user-{user}"), 0)
    assert len(repeated.ended(60_000)) <= 2 * RepeatedEvents.OF_ALL_MAX


def test_an_event_is_one_bounded_line_of_ascii_whatever_the_client_sent() -> None:
    evil = "\x1b[2J\n\r\u202e\udc80" + "x" * 100_000
    change = {evil: [evil] * 1_000, "many": {str(number): number for number in range(1_000)}}
    actor = Actor(evil, evil, evil, "10.0.0.1")
    line = encoded(
        AuditEvent(0, "change", FAILURE, actor, evil, "TOPIC", evil, evil, change).fields(1, "1-1-1")
    )
    assert line.isascii()
    assert line.isprintable()
    assert len(line) < 50_000
    fields = json.loads(line)
    assert fields["time"] == "1970-01-01T00:00:00.000Z"
    assert fields["change"]["many"]["..."] == "950 more"
