"""What was sent, promised and shown to readers, partition by partition: the facts that invariants are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.types import TopicPartition


class OneValuePerOffset(AssertionError):
    """An offset that was promised to one record, or showed it, has another."""


class Origin(NamedTuple):
    """Who sent a record: `number` counts the records of one session of a producer in one partition."""

    producer: int
    session: int
    number: int


@dataclass(slots=True)
class Session:
    """One producer's records to one partition under one producer id, or over one connection."""

    idempotent: bool
    sent: int = 0
    power_losses: int = 0
    """Those that may have taken records, or the memory of sequences, from the middle of it."""


class Found(NamedTuple):
    """A partition as a reader found it: every record from `start` to `end`."""

    start: int
    end: int
    records: list[tuple[int, bytes]]


@dataclass(slots=True)
class PartitionHistory:
    name: TopicPartition
    synced: bool
    """The topic asks for a sync before every answer."""
    compacted: bool
    origins: dict[bytes, Origin] = field(default_factory=dict)
    keys: dict[bytes, bytes] = field(default_factory=dict)
    """Of each value, in a compacted topic."""
    sessions: dict[tuple[int, int], Session] = field(default_factory=dict)
    promised: dict[int, bytes] = field(default_factory=dict)
    without_lease: dict[int, bytes] = field(default_factory=dict)
    """Promised by leaders that could not know any more that they led: only with all replicas may they."""
    shown: dict[int, bytes] = field(default_factory=dict)
    committed: int = 0
    """The highest end that anybody was told of."""
    deleted: int = 0
    """Records before this were asked to be deleted: they may be there or not."""
    buried: set[bytes] = field(default_factory=set)
    """What was sent to deleted topics of the same name."""
    power_losses: int = 0
    may_have_lost: bool = False
    """The power went since the partition was last read from end to end."""
    may_rot: bool = False
    """Bytes of a replica changed on its disk."""
    was_cut: bool = False
    """As `may_have_lost`, where it is known to the record what was lost."""

    def sent(self, origin: Origin, value: bytes, key: bytes | None, idempotent: bool) -> None:
        session = self.sessions.setdefault((origin.producer, origin.session), Session(idempotent))
        assert origin.number == session.sent, f"{origin} is not the next after {session.sent}"
        session.sent += 1
        self.origins[value] = origin
        if key is not None:
            self.keys[value] = key

    def acknowledged(self, base: int, values: list[bytes], power_losses: int) -> None:
        """`power_losses` as it was when the records were sent: a promise from before is not one for after."""
        if power_losses != self.power_losses and not self.synced:
            return
        for offset, value in enumerate(values, base):
            before = self.promised.setdefault(offset, value)
            if before != value:
                raise OneValuePerOffset(f"{self.name}: {offset} was promised to {before!r} and {value!r}")
        if self.synced:
            self.committed = max(self.committed, base + len(values))

    def acknowledged_without_lease(self, base: int, values: list[bytes], power_losses: int) -> None:
        if power_losses == self.power_losses:
            self.without_lease.update(enumerate(values, base))

    def was_shown(self, offset: int, value: bytes, power_losses: int) -> None:
        if power_losses == self.power_losses or self.synced:
            before = self.shown.setdefault(offset, value)
            if before != value:
                raise OneValuePerOffset(f"{self.name}: {offset} was {before!r} and is {value!r} now")

    def end_was_told(self, end: int, power_losses: int) -> None:
        if power_losses == self.power_losses or self.synced:
            self.committed = max(self.committed, end)

    def recreated(self) -> PartitionHistory:
        """The same partition of a new topic of the same name."""
        fresh = PartitionHistory(self.name, self.synced, self.compacted)
        fresh.buried = self.buried | set(self.origins)
        return fresh

    def deletion_asked(self, before: int) -> None:
        self.deleted = max(self.deleted, before)

    def power_lost(self) -> None:
        self.power_losses += 1
        if not self.synced:
            self.may_have_lost = True
            for session in self.sessions.values():
                session.power_losses += 1

    def cut_to(self, end: int, kept: Mapping[int, bytes]) -> None:
        """After power cuts no replica has more than `kept`: nothing else is promised any more."""
        self.power_losses += 1
        gone = [at for at, value in self.promised.items() if kept.get(at) != value]
        gone += [at for at, value in self.shown.items() if kept.get(at) != value]
        if gone or end < self.committed:
            self.promised = {at: value for at, value in self.promised.items() if kept.get(at) == value}
            self.shown = {at: value for at, value in self.shown.items() if kept.get(at) == value}
            self.committed = min(self.committed, end)
            self.was_cut = True
        self.without_lease = {at: value for at, value in self.without_lease.items() if kept.get(at) == value}
        # What was sent and not answered may be gone as well, and the memory of its sequences with it.
        for session in self.sessions.values():
            session.power_losses += 1

    def settle(self, found: Found) -> None:
        """What a power loss took was not promised beyond it."""
        if self.may_have_lost:
            self.promised = {at: value for at, value in self.promised.items() if at < found.end}
            self.shown = {at: value for at, value in self.shown.items() if at < found.end}
            self.committed = min(self.committed, found.end)
            self.may_have_lost = False
        self.was_cut = False
