"""How often members of consumer groups send heartbeats, and how long each may be held for news.

A client sends the next heartbeat the told interval after the last one, and some (librdkafka) give up on an answer after
the same time.  So a heartbeat is held for less than the interval its member was told, and a member that got news, or
waits for some, is told a short one: it comes back soon, and then ever less often until the group's own interval.  Pure."""

from __future__ import annotations

from typing import NamedTuple

HELD_PART = 0.9
NEWS_MS = 100  # after news: there is often more
MADE_WAY_MS = 250  # after a heartbeat that made way for another request, which leaves the next one unheld
LEAST_MS = 500  # for members that send many other requests
WAITING_MS = 1000  # the longest, for a member that others keep waiting
SLOWER = 1.5


class HeartbeatOutcome(NamedTuple):
    """What became of a heartbeat.  `expired`: it was held as long as it may be."""

    news: bool
    waiting: bool
    held_ms: int
    expired: bool


def hold_ms(told_ms: int) -> int:
    return int(told_ms * HELD_PART)


def next_ms(told_ms: int, interval_ms: int, came: HeartbeatOutcome) -> int:
    """The interval to tell; `told_ms`: the last one, 0 when it is not known."""
    if came.news:
        paced = NEWS_MS
    elif came.expired:
        paced = int(told_ms * SLOWER)
    else:
        paced = max(came.held_ms + MADE_WAY_MS, LEAST_MS, told_ms if told_ms < interval_ms else 0)
    most = min(interval_ms, WAITING_MS) if came.waiting else interval_ms
    return min(paced, most)
