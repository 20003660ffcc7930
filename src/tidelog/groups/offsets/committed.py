"""The committed offsets of one shard's groups, and the pending offsets of open transactions.

An offset that is committed in a transaction is pending until the transaction's marker is in the log; it then counts
only if no later record has replaced it.  Pure; `GroupStateMachine` owns it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from tidelog.wire.messages.offset_commit_record import OffsetCommitKey, OffsetCommitValue

NO_TOPIC_ID = UUID(int=0)
NEVER = -1

Place = tuple[str, int]  # topic, partition
Partition = tuple[int, int, int, str | None]  # index, offset, leader epoch, metadata


class CommittedOffset(NamedTuple):
    """`order` tells which of two records about one partition comes later in the log."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int  # NEVER: `offsets.retention.minutes` decides
    topic_id: UUID
    order: int


class OffsetsState:
    def __init__(self) -> None:
        self._groups: dict[str, dict[Place, CommittedOffset]] = {}
        self._pending: dict[int, dict[str, dict[Place, CommittedOffset]]] = {}  # by producer id
        self._open: dict[str, dict[Place, set[int]]] = {}  # the producers with a pending offset
        self._order = 0

    # Reading

    def of(self, group: str) -> dict[Place, CommittedOffset]:
        """The group's committed offsets; callers must not change them."""
        return self._groups.get(group, {})

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        offsets = self._groups.get(group)
        return None if offsets is None else offsets.get((topic, partition))

    def has_any(self, group: str) -> bool:
        """True if the group has offsets, committed or pending in a transaction."""
        return group in self._groups or group in self._open

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """True if an open transaction holds an offset for this partition."""
        places = self._open.get(group)
        return places is not None and (topic, partition) in places

    def pending(self, group: str) -> set[Place]:
        return set(self._open.get(group, ()))

    def groups(self) -> Iterator[str]:
        """The groups with committed offsets."""
        return iter(list(self._groups))

    def all_pending(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        for groups in self._pending.values():
            for group, places in groups.items():
                for (topic, partition), committed in places.items():
                    yield group, topic, partition, committed

    def view(self) -> tuple[object, object]:
        """The whole state, for comparisons in tests."""
        return (
            {name: dict(places) for name, places in self._groups.items()},
            {
                producer: {name: dict(places) for name, places in groups.items()}
                for producer, groups in self._pending.items()
            },
        )

    # Applying records

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int) -> None:
        place = (key.topic, key.partition)
        self._order += 1
        if value is None:
            self._forget(key.group, place)
            return
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            self._order,
        )
        if producer_id < 0:
            self._groups.setdefault(key.group, {})[place] = committed
            return
        self._pending.setdefault(producer_id, {}).setdefault(key.group, {})[place] = committed
        self._open.setdefault(key.group, {}).setdefault(place, set()).add(producer_id)

    def committed(
        self, group: str, topic: str, topic_id: UUID, partitions: Iterable[Partition], now_ms: int
    ) -> None:
        """As `replay` for records of a topic's partitions, outside of transactions."""
        mine = self._groups.setdefault(group, {})
        order = self._order
        for index, offset, leader_epoch, metadata in partitions:
            order += 1
            mine[topic, index] = CommittedOffset(
                offset, leader_epoch, metadata or "", now_ms, NEVER, topic_id, order
            )
        self._order = order

    def ended(self, producer_id: int, committed: bool) -> None:
        for group, places in self._pending.pop(producer_id, {}).items():
            for place, pending in places.items():
                self._closed(group, place, producer_id)
                if not committed:
                    continue
                mine = self._groups.setdefault(group, {})
                current = mine.get(place)
                # A later commit from outside of the transaction stands.
                if current is None or current.order < pending.order:
                    mine[place] = pending

    def _forget(self, group: str, place: Place) -> None:
        mine = self._groups.get(group)
        if mine is not None:
            mine.pop(place, None)
            if not mine:
                del self._groups[group]
        for producer_id in tuple(self._open.get(group, {}).get(place, ())):
            self._closed(group, place, producer_id)
            groups = self._pending[producer_id]
            del groups[group][place]
            if not groups[group]:
                del groups[group]
            if not groups:
                del self._pending[producer_id]

    def _closed(self, group: str, place: Place, producer_id: int) -> None:
        places = self._open[group]
        places[place].discard(producer_id)
        if not places[place]:
            del places[place]
        if not places:
            del self._open[group]
