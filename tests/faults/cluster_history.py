"""What clients of a cluster were told while faults went on, what is there afterwards, and which anomalies there are.

| Anomaly | Check |
|---|---|
| lost write | `_lost`: acknowledged, and not at its offset or not readable; `_undelivered` for share groups |
| duplicate | `_duplicated`: a value at two offsets |
| reordering | `_out_of_order`: a producer's values of a partition, in the order they were sent |
| inconsistent offsets | `_lost`, `_wrong_polls`: an offset has another value than before; `_differing_replicas` |
| aborted read | `_wrong_transactions`, also of readers that were there meanwhile |
| torn transaction | `_wrong_transactions`: some of its records can be read, or were shown, and others are missing |
| stale read | `_stale_reads`: a reader that began after an acknowledgement did not come upon the record; `_stale_offsets` |
| delivery after an acknowledgement | `ShareDeliveries.again` |

`test_cluster_history.py` plants each one.  Nothing here does any I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

COMMITTED_ONLY, UNCOMMITTED_TOO = "read_committed", "read_uncommitted"
UNKNOWN, COMMITTED, ABORTED = "unknown", "committed", "aborted"

Place = tuple[int, int]
"""Partition and offset."""
Records = dict[int, list[tuple[int, bytes]]]
"""Of each partition: (offset, value), in order."""


@dataclass
class Written:
    """What an idempotent producer sent to each partition, and was told."""

    name: str
    sent: Mapping[int, Sequence[bytes]]
    acknowledged: Mapping[Place, bytes]
    somewhere: Sequence[tuple[int, bytes]] = ()
    """Partition and value of records that were acknowledged without an offset."""
    failed: Sequence[str] = ()


@dataclass
class Transaction:
    outcome: str = UNKNOWN
    values: list[bytes] = field(default_factory=list)
    acknowledged: dict[Place, bytes] = field(default_factory=dict)
    producer: int = 0
    """The how many-th of this writer."""
    began: str = ""


@dataclass
class Shown:
    """What a reader that went on from the start was shown, as it came."""

    isolation: str
    seen: Mapping[int, Sequence[tuple[int, bytes]]]


@dataclass
class LateRead:
    """A reader that began after `acknowledged` had been, and read to the end."""

    isolation: str
    acknowledged: Mapping[Place, bytes]
    seen: Mapping[Place, bytes]


@dataclass(frozen=True)
class OffsetCommit:
    """Offsets of one group and partition only grow.  `ended` is None if the commit was not answered with a success."""

    partition: int
    offset: int
    began: float
    ended: float | None
    repeated: bool = False
    """The client may have sent it more than once; a copy that comes late is stored, too."""


@dataclass(frozen=True)
class OffsetRead:
    partition: int
    offset: int
    """-1: none."""
    began: float
    ended: float


@dataclass
class ShareDeliveries:
    seen: set[Place] = field(default_factory=set)
    again: list[Place] = field(default_factory=list)
    """Given once more after its acknowledgement was answered."""


@dataclass
class History:
    written: Sequence[Written]
    transactions: Sequence[Transaction]
    shown: Sequence[Shown]
    found: Mapping[str, Records]
    """What is there afterwards, by isolation level."""
    late_reads: Sequence[LateRead] = ()
    offset_commits: Sequence[OffsetCommit] = ()
    offset_reads: Sequence[OffsetRead] = ()
    share: ShareDeliveries | None = None
    logs: Mapping[int, Mapping[int, bytes]] = field(default_factory=dict)
    """Of each partition: the bytes on each machine's disk."""
    broken: Sequence[str] = ()
    """Clients that ended with an error that they must not meet."""

    def anomalies(self) -> list[str]:
        return [
            *self.broken,
            *self._lost(),
            *self._out_of_order(),
            *self._duplicated(),
            *self._wrong_transactions(),
            *self._wrong_polls(),
            *self._differing_replicas(),
            *self._stale_reads(),
            *self._stale_offsets(),
            *self._undelivered(),
        ]

    def _lost(self) -> Iterator[str]:
        """Acknowledged and not there, or something else at its offset."""
        there = {(part, at): value for part, records in self._all.items() for at, value in records}
        visible = set(values(self._visible))
        for writer in self.written:
            yield from (f"a record was given up: {error}" for error in writer.failed)
            yield from _differing(writer.acknowledged, there)
            for value in (*writer.acknowledged.values(), *(value for _, value in writer.somewhere)):
                if value not in visible:
                    yield f"{value!r} was acknowledged and cannot be read"
        for transaction in self.transactions:
            yield from _differing(transaction.acknowledged, there)

    def _out_of_order(self) -> Iterator[str]:
        for writer in self.written:
            for partition, sent in writer.sent.items():
                own = set(sent)
                if [value for _, value in self._all[partition] if value in own] != list(sent):
                    yield f"partition {partition}: records of {writer.name} are missing or out of order"

    def _duplicated(self) -> Iterator[str]:
        places: dict[bytes, list[Place]] = defaultdict(list)
        for partition, records in self._all.items():
            for offset, value in records:
                places[value].append((partition, offset))
        yield from (f"{value!r} is at {found}" for value, found in places.items() if len(found) > 1)

    def _wrong_transactions(self) -> Iterator[str]:
        visible = set(values(self._visible))
        shown = {
            value
            for reader in self.shown
            if reader.isolation == COMMITTED_ONLY
            for value in values(reader.seen)
        }
        for transaction in self.transactions:
            count = len(visible.intersection(transaction.values))
            if transaction.outcome == COMMITTED and count < len(transaction.values):
                yield f"{transaction} was committed and {count} of its records can be read"
            elif transaction.outcome == ABORTED and (count or shown.intersection(transaction.values)):
                yield f"{transaction} was aborted and has been read"
            elif 0 < count < len(transaction.values):
                yield f"{transaction} is half there"

    def _wrong_polls(self) -> Iterator[str]:
        """A reader that was never led back nor over anything has seen just what is there, in order."""
        for reader in self.shown:
            for partition, records in self.found[reader.isolation].items():
                seen = list(reader.seen.get(partition, ()))
                if seen != records:
                    pairs = zip(seen, records, strict=False)
                    at = next((at for at, (one, other) in enumerate(pairs) if one != other), -1)
                    yield (
                        f"partition {partition}, {reader.isolation}: shown {len(seen)} records, {len(records)} are "
                        f"there; first difference: {seen[at : at + 2]} for {records[at : at + 2]}"
                    )

    def _differing_replicas(self) -> Iterator[str]:
        for partition, logs in self.logs.items():
            if len(set(logs.values())) > 1:
                sizes = {machine: len(data) for machine, data in logs.items()}
                yield f"partition {partition}: the replicas' files differ (bytes: {sizes})"

    def _stale_reads(self) -> Iterator[str]:
        for read in self.late_reads:
            for place, value in read.acknowledged.items():
                if (seen := read.seen.get(place)) != value:
                    yield (
                        f"{place} was acknowledged as {value!r}, and a {read.isolation} reader that began after that "
                        f"came upon {seen!r}"
                    )

    def _stale_offsets(self) -> Iterator[str]:
        for read in self.offset_reads:
            commits = [commit for commit in self.offset_commits if commit.partition == read.partition]
            least = max(
                (c.offset for c in commits if c.ended is not None and c.ended < read.began), default=-1
            )
            most = max((c.offset for c in commits if c.began < read.ended), default=-1)
            late = read.offset in {commit.offset for commit in commits if commit.repeated}
            if not least <= read.offset <= most and not late:
                yield (
                    f"the group's offset of partition {read.partition} was read as {read.offset}; {least} had been "
                    f"committed, {most} was the last that anybody had asked for"
                )

    def _undelivered(self) -> Iterator[str]:
        if self.share is None:
            return
        yield from (f"{place} was delivered after its acknowledgement" for place in self.share.again)
        for writer in self.written:
            lost = [place for place in writer.acknowledged if place not in self.share.seen]
            if lost:
                yield f"{len(lost)} records of {writer.name} were not delivered, the first is {lost[0]}"

    @property
    def _all(self) -> Records:
        return self.found[UNCOMMITTED_TOO]

    @property
    def _visible(self) -> Records:
        return self.found[COMMITTED_ONLY]


def values(records: Mapping[int, Sequence[tuple[int, bytes]]]) -> Iterator[bytes]:
    for each in records.values():
        yield from (value for _, value in each)


def _differing(acknowledged: Mapping[Place, bytes], there: Mapping[Place, bytes]) -> Iterator[str]:
    for place, value in acknowledged.items():
        if there.get(place) != value:
            yield f"{place} was acknowledged as {value!r} and is {there.get(place)!r}"
