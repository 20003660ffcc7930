"""The interface of every group type for the requests that serve all of them (offsets, listing, deletion).

`ClassicGroup`, `ConsumerGroup`, `ShareGroup` and `StreamsGroup` each implement it.  Pure: a check raises the
protocol's error and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from tidelog.coordination.records import CoordinatorRecord

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"

CheckPartition = Callable[[str, UUID, int], None]
"""(topic, topic id, partition): raises if this member may not commit an offset of this partition."""


class Group(Protocol):
    id: str

    @property
    def kind(self) -> str:
        """CLASSIC, CONSUMER, SHARE or STREAMS: the group type in ListGroups."""
        ...

    @property
    def protocol_type(self) -> str:
        """The protocol type in ListGroups: `consumer`, `share`, `streams`, or the one that classic members joined with."""
        ...

    @property
    def state_name(self) -> str:
        """The state in ListGroups, such as `Stable`."""
        ...

    @property
    def is_empty(self) -> bool:
        """True if the group has no members."""
        ...

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, transactional: bool, version: int
    ) -> CheckPartition | None:
        """Raises if this member may not commit offsets with this generation or epoch.  The caller calls the returned
        function for each partition; None: no partition needs a check.  `version` is that of OffsetCommit or
        TxnOffsetCommit."""
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raises if this member may not fetch the committed offsets."""
        ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None:
        """Raises if the group cannot be deleted now."""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """The tombstones of the group's own records (not of its offsets)."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """True if members subscribe to this topic now: its offsets are then neither deleted nor expired."""
        ...

    def expires_from(self, commit_ms: int) -> int | None:
        """The time from which `offsets.retention.minutes` counts for an offset committed at `commit_ms`; None while the
        group's offsets do not expire."""
        ...

    @property
    def expires(self) -> bool:
        """True if the group itself is deleted once it is empty and its last offset has expired."""
        ...
