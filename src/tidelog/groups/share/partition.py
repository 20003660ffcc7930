"""One partition as a share group reads it: who has which record, how often it was given, what is finished.

Pure: facts in, decisions out; the time is passed in.  What a change must be remembered by is in `ShareStateChange.batches`;
the caller persists it, and says `confirmed` or `undone`.  A record that was acknowledged is never given again, one that
was released or whose lock ran out is, until its deliveries are used up.  Called by `partitions` alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog import errors
from tidelog.groups.share.in_flight import InFlightRun, InFlightRuns, RecordState, StateBatch, restored

THROTTLE_FROM_MIN = 2
ALONE_LIMIT_MIN = 3  # with fewer deliveries than this the last one is not given alone


class AcknowledgeType(IntEnum):
    GAP = 0  # there is no record at this offset
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgedRange(NamedTuple):
    """`types` has one for all offsets, or one for each; `last` is inclusive, as on the wire."""

    first: int
    last: int
    types: Sequence[int]


class AcquiredRange(NamedTuple):
    first: int
    last: int
    deliveries: int


class OffsetSpan(NamedTuple):
    """The offsets of one batch of the log; `last` is inclusive.  Those that have no records for consumers are empty:
    markers, aborted transactions, what compaction left out."""

    first: int
    last: int
    empty: bool = False


class ShareTerms(NamedTuple):
    """The group's settings."""

    deliveries_max: int
    locks_max: int
    lock_ms: int
    dead_letters: bool  # what is given up is copied somewhere first
    renewals: bool


class AcquireRequest(NamedTuple):
    """What one member asks for.  `strict`: not one record more than `records_max`; otherwise whole batches are given."""

    member: str
    records_max: int
    batch_records_max: int
    strict: bool


class ShareStateChange:
    """`moves` are runs whose new state counts from the moment it is persisted; what is not among them counts already."""

    __slots__ = ("batches", "moves", "releases")

    def __init__(self) -> None:
        self.batches: list[StateBatch] = []
        self.moves: list[InFlightRun] = []
        self.releases = False  # somebody may be waiting for what it gives back

    def add(self, run: InFlightRun, state: RecordState) -> None:
        self.batches.append(StateBatch(run.first, run.last, state, run.deliveries))


class AcquireResult(NamedTuple):
    """What a member got, and what turned out to be empty on the way."""

    acquired: list[AcquiredRange]
    skipped: ShareStateChange


class SharePartition:
    def __init__(self, start: int, batches: Iterable[StateBatch] = ()) -> None:
        self._runs = restored(start, batches)

    @property
    def start(self) -> int:
        """The first record that is not finished."""
        return self._runs.start

    @property
    def end(self) -> int:
        """The first record that nobody was given yet."""
        return self._runs.end

    @property
    def runs(self) -> InFlightRuns:
        return self._runs

    # Giving records

    def next_offset(self) -> int:
        """The first that can be given: one that came back, or a new one."""
        return next((run.first for run in self._runs if run.free), self.end)

    def has_room(self, terms: ShareTerms) -> bool:
        return self.end - self.start < terms.locks_max or self.next_offset() < self.end

    def acquire(
        self, wish: AcquireRequest, spans: Sequence[OffsetSpan], terms: ShareTerms, now_ms: int
    ) -> AcquireResult:
        """Of the offsets that were read, in order and without gaps, what `wish.member` gets now, locked until
        `now_ms + terms.lock_ms`."""
        grant = AcquireResult([], ShareStateChange())
        left = wish.records_max
        for span in spans:
            if left <= 0:
                break
            free = self._free_in(span, left if wish.strict else None, terms)
            if span.empty:
                self._skip(free, grant.skipped)
                continue
            for run in free:
                last_chance = self._last_chance(run, terms)
                if (left <= 0 and wish.strict) or (last_chance and grant.acquired):
                    break
                run, alone = self._throttled(run, terms)
                if wish.strict and run.size > left:
                    (run,) = self._runs.cut_out(run.first, run.first + left - 1)
                run.state = RecordState.ACQUIRED
                run.deliveries += 1
                run.member = wish.member
                run.deadline_ms = now_ms + terms.lock_ms
                left = 0 if alone else left - run.size
                _collect(grant.acquired, run, wish.batch_records_max)
                if alone:
                    break
        self._runs.tidy()
        return grant

    def _free_in(self, span: OffsetSpan, new_max: int | None, terms: ShareTerms) -> list[InFlightRun]:
        """What can be given of a batch, in order; what is new joins the runs while there is room."""
        runs = self._runs
        free = []
        if span.first < runs.end:
            found = runs.over(span.first, min(span.last, runs.end - 1))
            for run in [run for run in found if run.free]:
                free += runs.cut_out(max(run.first, span.first), min(run.last, span.last))
        room = span.empty or runs.end - runs.start < terms.locks_max
        if span.first <= runs.end <= span.last and room:
            last = span.last if new_max is None or span.empty else min(span.last, runs.end + new_max - 1)
            new = InFlightRun(runs.end, last, RecordState.AVAILABLE, 0)
            runs.extend(new)
            free.append(new)
        return free

    def _skip(self, free: list[InFlightRun], change: ShareStateChange) -> None:
        for run in free:
            run.left(RecordState.ARCHIVED)
            change.add(run, RecordState.ARCHIVED)

    def _last_chance(self, run: InFlightRun, terms: ShareTerms) -> bool:
        return terms.deliveries_max >= ALONE_LIMIT_MIN and run.deliveries == terms.deliveries_max - 1

    def _throttled(self, run: InFlightRun, terms: ShareTerms) -> tuple[InFlightRun, bool]:
        """Records that keep coming back are given in ever smaller parts, the last time one by one, so that one bad
        record does not take its neighbours with it.  True: the rest must wait for another time."""
        from_deliveries = max(THROTTLE_FROM_MIN, -(-terms.deliveries_max // 2))
        if run.deliveries < from_deliveries:
            return run, False
        size = max(1, run.size >> (run.deliveries - from_deliveries + 1))
        if self._last_chance(run, terms):
            size = 1
        (run,) = self._runs.cut_out(run.first, run.first + size - 1)
        return run, True

    # Taking acknowledgements

    def acknowledge(
        self, member: str, acknowledgements: Sequence[AcknowledgedRange], terms: ShareTerms, now_ms: int
    ) -> ShareStateChange:
        """All of them or none: raises what is wrong with the first that cannot be, and then nothing has changed."""
        wanted: list[tuple[int, int, AcknowledgeType]] = []
        reached = -1
        for one in acknowledgements:
            if one.first <= reached:
                raise errors.InvalidRecordState(f"offset {one.first} is acknowledged twice")
            reached = one.last
            if one.last < self.start:
                continue  # finished long ago: by its lock's end, or because the log does not have it any more
            self._check_bounds(one)
            for first, last, kind in _uniform(one):
                if last >= self.start:
                    self._check_held(member, max(first, self.start), last)
                    if kind is AcknowledgeType.RENEW and not terms.renewals:
                        raise errors.InvalidRecordState("share.renew.acknowledge.enable of the group is off")
                    wanted.append((max(first, self.start), last, kind))
        change = ShareStateChange()
        for first, last, kind in wanted:
            for run in self._runs.cut_out(first, last):
                if kind is AcknowledgeType.RENEW:
                    run.deadline_ms = now_ms + terms.lock_ms
                    continue
                run.rejected = kind is AcknowledgeType.REJECT
                run.to = _fate(run, kind, terms)
                change.moves.append(run)
                change.add(run, run.to)
        return change

    def _check_bounds(self, one: AcknowledgedRange) -> None:
        if one.first >= self.end:
            raise errors.InvalidRequest(f"offset {one.first} was not given to anybody yet")
        if one.last >= self.end:
            raise errors.InvalidRequest(f"offsets up to {one.last} were not given to anybody yet")

    def _check_held(self, member: str, first: int, last: int) -> None:
        for run in self._runs.over(first, last):
            if run.to is not None or run.state is not RecordState.ACQUIRED:
                raise errors.InvalidRecordState(f"offset {max(run.first, first)} is not acquired (any more)")
            if run.member != member:
                raise errors.InvalidRecordState(
                    f"offset {max(run.first, first)} is acquired by another member"
                )

    def confirmed(self, change: ShareStateChange) -> None:
        """It is persisted."""
        for run in change.moves:
            if run.to is not None:
                change.releases = change.releases or run.to is RecordState.AVAILABLE
                run.left(run.to)
        self._runs.tidy()

    def undone(self, change: ShareStateChange) -> None:
        """It could not be persisted: the records are still with the member, as long as the lock lasts."""
        for run in change.moves:
            run.to = None
            run.rejected = False
        self._runs.tidy()

    # Taking records back

    def released(self, member: str, terms: ShareTerms) -> ShareStateChange:
        """The member's session ended: whatever it has goes back."""
        return self._take_back([run for run in self._held() if run.member == member], terms)

    def expired(self, now_ms: int, terms: ShareTerms) -> ShareStateChange:
        """Locks that have run out."""
        return self._take_back([run for run in self._held() if run.deadline_ms <= now_ms], terms)

    def next_deadline_ms(self) -> int | None:
        return min((run.deadline_ms for run in self._held()), default=None)

    def _held(self) -> Iterable[InFlightRun]:
        return (run for run in self._runs if run.state is RecordState.ACQUIRED and run.to is None)

    def _take_back(self, runs: list[InFlightRun], terms: ShareTerms) -> ShareStateChange:
        change = ShareStateChange()
        for run in runs:
            state = _fate(run, AcknowledgeType.RELEASE, terms)
            run.left(state)
            change.add(run, state)
            change.releases = change.releases or state is RecordState.AVAILABLE
        if runs:
            self._runs.tidy()
        return change

    # Dead letters

    def letters(self) -> list[InFlightRun]:
        """What is given up and must still be copied."""
        return [run for run in self._runs if run.state is RecordState.ARCHIVING and run.to is None]

    def copied(self, first: int, last: int) -> ShareStateChange:
        """The dead letter topic has them."""
        change = ShareStateChange()
        for run in self._runs.over(first, last):
            if run.state is RecordState.ARCHIVING and run.to is None:
                for part in self._runs.cut_out(max(run.first, first), min(run.last, last)):
                    part.to = RecordState.ARCHIVED
                    change.moves.append(part)
                    change.add(part, RecordState.ARCHIVED)
        return change

    # The log and the state

    def log_started(self, offset: int) -> None:
        """The log begins at `offset` now: what was before it is gone."""
        if offset > self.start:
            self._runs.started(offset)
            self._runs.tidy()

    def picture(self) -> list[StateBatch]:
        """Everything worth remembering, as it will be once everything under way is persisted: for when a write failed,
        and nobody knows what of the changes before is on disk."""
        found = []
        for run in self._runs:
            state = run.state if run.to is None else run.to
            if state is not RecordState.ACQUIRED and (run.deliveries or state is not RecordState.AVAILABLE):
                found.append(StateBatch(run.first, run.last, state, run.deliveries))
        return found

    def outlook(self) -> tuple[int, int]:
        """(start, finished ones behind it) as they will be once everything under way is persisted."""
        return self._runs.outlook()


def _fate(run: InFlightRun, kind: AcknowledgeType, terms: ShareTerms) -> RecordState:
    if kind is AcknowledgeType.ACCEPT:
        return RecordState.ACKNOWLEDGED
    if kind is AcknowledgeType.GAP:
        return RecordState.ARCHIVED
    if kind is AcknowledgeType.RELEASE and run.deliveries < terms.deliveries_max:
        return RecordState.AVAILABLE
    return RecordState.ARCHIVING if terms.dead_letters else RecordState.ARCHIVED


def _uniform(one: AcknowledgedRange) -> list[tuple[int, int, AcknowledgeType]]:
    """Neighbours of the same kind together."""
    if len(one.types) == 1:
        return [(one.first, one.last, AcknowledgeType(one.types[0]))]
    parts: list[tuple[int, int, AcknowledgeType]] = []
    for offset, number in enumerate(one.types, one.first):
        kind = AcknowledgeType(number)
        if parts and parts[-1][2] is kind:
            parts[-1] = (parts[-1][0], offset, kind)
        else:
            parts.append((offset, offset, kind))
    return parts


def _collect(given: list[AcquiredRange], run: InFlightRun, batch_records_max: int) -> None:
    if given and given[-1].last + 1 == run.first and given[-1].deliveries == run.deliveries:
        whole = AcquiredRange(given[-1].first, run.last, run.deliveries)
        if batch_records_max <= 0 or whole.last - whole.first < batch_records_max:
            given[-1] = whole
            return
    given.append(AcquiredRange(run.first, run.last, run.deliveries))


def check_acknowledgements(batches: Sequence[AcknowledgedRange], renewals: bool) -> None:
    """What can be said without the partition: InvalidRequest for batches that cannot be."""
    before = -1
    for one in batches:
        if one.first > one.last:
            raise errors.InvalidRequest(f"offsets {one.first} to {one.last} are in the wrong order")
        if one.first < before:
            raise errors.InvalidRequest(f"offset {one.first} is acknowledged out of order")
        if not one.types:
            raise errors.InvalidRequest(f"how offsets {one.first} to {one.last} are acknowledged is not said")
        if len(one.types) > 1 and len(one.types) != one.last - one.first + 1:
            raise errors.InvalidRequest(
                f"{len(one.types)} kinds of acknowledgement for {one.last - one.first + 1} offsets"
            )
        for number in one.types:
            if not 0 <= number <= AcknowledgeType.RENEW or (number == AcknowledgeType.RENEW and not renewals):
                raise errors.InvalidRequest(f"acknowledgement {number} is not known here")
        before = one.last


__all__ = [
    "AcknowledgeType",
    "AcknowledgedRange",
    "AcquireRequest",
    "AcquireResult",
    "AcquiredRange",
    "OffsetSpan",
    "RecordState",
    "SharePartition",
    "ShareStateChange",
    "ShareTerms",
    "StateBatch",
    "check_acknowledgements",
]
