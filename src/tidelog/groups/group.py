"""What every kind of group has, as the requests that serve all kinds (offsets, listing, deletion) see it.

`ClassicGroup`, `ConsumerGroup` and `ShareGroup` each implement it.  Pure: a check raises the protocol's error and
changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from tidelog.coordination.records import CoordinatorRecord

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"

CheckPartition = Callable[[str, UUID, int], None]
"""(topic, topic id, partition): raises when this member may not commit an offset of this partition."""


class Group(Protocol):
    id: str

    @property
    def kind(self) -> str:
        """CLASSIC, CONSUMER or SHARE: the group type that ListGroups tells."""
        ...

    @property
    def protocol_type(self) -> str:
        """As ListGroups tells it: `consumer`, `share`, or what classic members joined with."""
        ...

    @property
    def state_name(self) -> str:
        """As ListGroups tells it, like `Stable`."""
        ...

    @property
    def is_empty(self) -> bool:
        """Without members."""
        ...

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, transactional: bool, version: int
    ) -> CheckPartition | None:
        """May this member commit offsets, with this generation or epoch?  What it returns is asked for each
        partition; None: for none of them.  `version` is that of OffsetCommit or TxnOffsetCommit."""
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """May this member ask for the committed offsets?"""
        ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None:
        """May the whole group be deleted now?"""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """What deletes the group's own records (not its offsets)."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Is this topic consumed by members now?  Its offsets are then neither deleted nor expired."""
        ...

    def expires_from(self, commit_ms: int) -> int | None:
        """The time from which `offsets.retention.minutes` counts for an offset that was committed at `commit_ms`; None
        while offsets of this group do not expire at all."""
        ...

    @property
    def expires(self) -> bool:
        """Is the group itself deleted once it is empty and its last offset has expired?"""
        ...
