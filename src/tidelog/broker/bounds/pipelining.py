"""Detects clients that do not pipeline: those that send nothing more on a connection while they wait for an answer.

A heartbeat that is held gives way to the next request.  Some clients (Sarama) send the next one only when they have
the answer, and have one connection for all that they ask a broker: there a held heartbeat holds up fetches and commits.
They show by a request that comes the moment a hold is over.  Pure; a connection owns one, the router tells it."""

from __future__ import annotations

AT_ONCE_S = 0.05
BY_CHANCE_MAX = 1
_GROUP = frozenset((8, 9, 11, 12, 13, 14, 68, 88))
"""OffsetCommit, OffsetFetch, JoinGroup, Heartbeat, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat, StreamsGroupHeartbeat: all
that is on a connection which is there for heartbeats.  One of these may come at once by chance; anything else shows that the
connection is no such one."""


class PipeliningWatch:
    __slots__ = ("_at_once", "expired_s", "one_by_one")

    def __init__(self) -> None:
        self.one_by_one = False
        self._at_once = 0
        self.expired_s: float | None = None

    def expired(self, now_s: float) -> None:
        """A heartbeat was held for as long as it may be: nothing came in this time."""
        self.expired_s = now_s

    def asked(self, api_key: int, now_s: float) -> None:
        """The first request after `expired`; heartbeats go to `groups.classic.heartbeat_cadence` instead."""
        if self.expired_s is None:
            return
        at_once, self.expired_s = now_s - self.expired_s < AT_ONCE_S, None
        self._at_once = self._at_once + 1 if at_once else 0
        if at_once and (api_key not in _GROUP or self._at_once > BY_CHANCE_MAX):
            self.one_by_one = True
