"""The heartbeat intervals of members of consumer groups, and the longest hold of a heartbeat.

An answer sets the client's next heartbeat interval, and some clients (librdkafka) time out after the same interval.  So the
coordinator holds a heartbeat for less than the member's interval.  A member that got a change, or waits for one, gets a
short interval; each quiet round makes the interval longer, up to the group's own.  Pure."""

from __future__ import annotations

from typing import NamedTuple

HELD_PART = 0.9
NEWS_MS = 100  # after news, because more often follows
MADE_WAY_MS = 250  # added after another request of the connection ended the hold
LEAST_MS = 500  # the shortest interval of a member that sends many other requests
WAITING_MS = 1000  # the longest interval of a member that waits for other members
SLOWER = 1.5


class HeartbeatOutcome(NamedTuple):
    """How a heartbeat ended.  `expired`: it was held for the full time."""

    news: bool
    waiting: bool
    held_ms: int
    expired: bool


def hold_ms(told_ms: int) -> int:
    return int(told_ms * HELD_PART)


def next_ms(told_ms: int, interval_ms: int, outcome: HeartbeatOutcome) -> int:
    """The member's next interval; `told_ms` is its last one, 0 if unknown."""
    if outcome.news:
        paced = NEWS_MS
    elif outcome.expired:
        paced = int(told_ms * SLOWER)
    else:
        paced = max(outcome.held_ms + MADE_WAY_MS, LEAST_MS, told_ms if told_ms < interval_ms else 0)
    most = min(interval_ms, WAITING_MS) if outcome.waiting else interval_ms
    return min(paced, most)
