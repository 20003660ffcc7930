"""Fetch sessions (KIP-227), the consumer's side: a request names only the partitions that have changed since the last
one.  Pure.

A session begins with a request for all partitions (epoch 0) and continues with the epochs 1, 2, ...  When the two sides
may disagree, the session begins again.  `Fetcher` keeps one for each broker.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

NO_SESSION = 0
FIRST_EPOCH = 0
EPOCH_MAX = 2**31 - 1


class TopicIdPartition(NamedTuple):
    """A partition in a request; one of `topic` and `topic_id` is empty on the wire."""

    topic: str
    topic_id: uuid.UUID
    partition: int


class PartitionFetch(NamedTuple):
    """The fields of one partition in a fetch request."""

    offset: int
    leader_epoch: int
    last_epoch: int
    bytes_max: int


class SessionRequest(NamedTuple):
    session_id: int
    epoch: int
    named: Mapping[TopicIdPartition, PartitionFetch]
    forgotten: list[TopicIdPartition]


class FetchSessionHandler:
    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[TopicIdPartition, PartitionFetch] = {}

    def next(self, wanted: Mapping[TopicIdPartition, PartitionFetch]) -> SessionRequest:
        """The request that makes the broker look at exactly `wanted`."""
        if self._epoch == FIRST_EPOCH:
            self._known = dict(wanted)
            return SessionRequest(NO_SESSION, FIRST_EPOCH, wanted, [])
        named = {place: fetch for place, fetch in wanted.items() if self._known.get(place) != fetch}
        forgotten = [place for place in self._known if place not in wanted]
        self._known = dict(wanted)
        return SessionRequest(self._id, self._epoch, named, forgotten)

    def answered(self, session_id: int) -> None:
        """The last request was taken; an id of 0 means that the broker keeps no session for us."""
        if session_id == NO_SESSION:
            self.failed()
            return
        self._id = session_id
        self._epoch = self._epoch + 1 if self._epoch < EPOCH_MAX else 1

    def failed(self) -> None:
        """The broker may or may not have taken the last request."""
        self._id, self._epoch = NO_SESSION, FIRST_EPOCH
        self._known = {}
