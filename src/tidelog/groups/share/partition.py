"""A share partition: which member has acquired which record, its delivery count, and which records are finished.

Pure: facts in, decisions out; the time is passed in.  The caller persists `ShareStateChange.batches` of a change, then
calls `confirmed` or `undone`.  An acknowledged record is never delivered again; a record that was released, or whose
lock expired, is delivered again until the delivery count limit.  Only `led_partition` and `partitions` call it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelog import errors
from tidelog.groups.share.acknowledge_types import (
    IN_TRANSACTION,
    AcknowledgedRange,
    AcknowledgeType,
    check_acknowledgements,
    uniform_parts,
)
from tidelog.groups.share.in_flight import (
    NOBODY,
    InFlightRun,
    InFlightRuns,
    JoinedAcknowledgement,
    LetterReason,
    RecordState,
    StateBatch,
    UndecidedBatch,
    restored,
)
from tidelog.groups.share.joined_acknowledgements import KnownOutcomes
from tidelog.groups.share.key_order import KeyOrder

THROTTLE_FROM_MIN = 2
DELIVERIES_COUNTED = (1 << 15) - 1  # Kafka counts in 16 bits
BACKOFF_DOUBLINGS_MAX = 30
NO_DEADLINE = 1 << 62
ALONE_LIMIT_MIN = 3  # with a lower delivery count limit, the last delivery is not of single records


class AcquiredRange(NamedTuple):
    first: int
    last: int
    deliveries: int


class OffsetSpan(NamedTuple):
    """The offsets of one batch of the log, or of a part of it; `last` is inclusive.  A span without records for consumers
    is `empty`: markers, aborted transactions, gaps that compaction left.  Records that are `expired` are given up;
    those that are `delayed` go where they wait for their time.  `key` matters in groups that order by key."""

    first: int
    last: int
    empty: bool = False
    expired: bool = False
    delayed: bool = False
    key: bytes | None = None  # of a span of one record


class ShareTerms(NamedTuple):
    """The group's settings."""

    deliveries_max: int
    locks_max: int
    lock_ms: int
    dead_letters: bool  # records that are given up are copied to a dead letter topic first
    renewals: bool
    backoff_ms: int = (
        0  # how long a record rests that was released after its first delivery; twice as long each time
    )
    backoff_ms_max: int = 0
    delays: bool = False  # delayed records go through this group; others pass them over
    by_key: bool = False  # each span has one record; a key's records go to one member at a time, in order


class AcquireRequest(NamedTuple):
    """The fetch of one member.  `strict`: at most `records_max` records; otherwise whole batches are acquired.
    `keeps`: locks last as long as the member's session."""

    member: str
    records_max: int
    batch_records_max: int
    strict: bool
    keeps: bool = False


class ShareStateChange:
    """The new state of runs in `moves` takes effect when it is persisted, that of `joins` when their transaction commits;
    all other changes are in effect already."""

    __slots__ = ("batches", "joins", "moves", "releases")

    def __init__(self) -> None:
        self.batches: list[StateBatch] = []
        self.joins: list[StateBatch] = []
        self.moves: list[InFlightRun] = []
        self.releases = False  # records become available, and fetches may wait for them

    def add(self, run: InFlightRun, state: RecordState) -> None:
        self.batches.append(StateBatch(run.first, run.last, state, run.deliveries))


class AcquireResult(NamedTuple):
    """The ranges that the member acquired, and the change that archives empty offsets."""

    acquired: list[AcquiredRange]
    skipped: ShareStateChange


class SharePartition:
    def __init__(
        self, start: int, batches: Iterable[StateBatch] = (), undecided: Iterable[UndecidedBatch] = ()
    ) -> None:
        self._runs = restored(start, batches, undecided)
        self._order = KeyOrder()
        # After a restart the keys of undecided records are not known: a group that orders by key waits for them.
        self._keyless = any(run.joined is not None for run in self._runs)

    @property
    def start(self) -> int:
        """The offset of the first record that is not finished."""
        return self._runs.start

    @property
    def end(self) -> int:
        """The offset of the first record that was never delivered."""
        return self._runs.end

    @property
    def runs(self) -> InFlightRuns:
        return self._runs

    # Acquiring records

    def next_offset(self, member: str = NOBODY) -> int:
        """The first offset that can be acquired, by `member`: a released record, or a new one."""
        for run in self._runs:
            if run.free:
                if member == NOBODY:
                    return run.first
                for offset in range(run.first, run.last + 1):
                    if not self._order.is_blocked(offset, member):
                        return offset
        return self.end

    def has_room(self, terms: ShareTerms, member: str = NOBODY) -> bool:
        if terms.by_key and self._keyless:
            return False
        return self.end - self.start < terms.locks_max or self.next_offset(member) < self.end

    def acquire(
        self, request: AcquireRequest, spans: Sequence[OffsetSpan], terms: ShareTerms, now_ms: int
    ) -> AcquireResult:
        """Acquires records in `spans`, which are in order and without gaps, for `request.member`, and locks them until
        `now_ms + terms.lock_ms`."""
        result = AcquireResult([], ShareStateChange())
        left = request.records_max
        for span in spans:
            if left <= 0:
                break
            if span.empty or span.expired or span.delayed:
                self._pass(span, terms, result.skipped)
                continue
            free = self._free_in(span, left if request.strict else None, terms)
            if terms.by_key:
                self._order.read(span.first, span.key)
                if self._order.is_blocked(span.first, request.member):
                    continue
            for run in free:
                last_chance = _last_chance(run, terms)
                if (left <= 0 and request.strict) or (last_chance and result.acquired):
                    break
                run, alone = self._throttled(run, terms)
                if request.strict and run.size > left:
                    (run,) = self._runs.cut_out(run.first, run.first + left - 1)
                run.state = RecordState.ACQUIRED
                run.deliveries = min(run.deliveries + 1, DELIVERIES_COUNTED)
                run.member = request.member
                if terms.by_key:
                    self._order.acquired(run.first, run.member)
                run.deadline_ms = NO_DEADLINE if request.keeps else now_ms + terms.lock_ms
                left = 0 if alone else left - run.size
                _collect(result.acquired, run, request.batch_records_max)
                if alone:
                    break
        self._runs.tidy()
        return result

    def _free_in(self, span: OffsetSpan, new_max: int | None, terms: ShareTerms) -> list[InFlightRun]:
        """The runs of a batch that can be acquired, in order; new offsets are added while there is room."""
        runs = self._runs
        free = []
        if span.first < runs.end:
            overlapping = runs.over(span.first, min(span.last, runs.end - 1))
            for run in [run for run in overlapping if run.free]:
                free += runs.cut_out(max(run.first, span.first), min(run.last, span.last))
        at_once = (
            span.empty or (span.expired and not terms.dead_letters) or (span.delayed and not terms.delays)
        )
        can_grow = at_once or runs.end - runs.start < terms.locks_max
        if span.first <= runs.end <= span.last and can_grow:
            last = span.last if new_max is None or span.empty else min(span.last, runs.end + new_max - 1)
            new = InFlightRun(runs.end, last, RecordState.AVAILABLE, 0)
            runs.extend(new)
            free.append(new)
        return free

    # Records that nobody holds, and that nobody shall get any more

    def expire(self, spans: Sequence[OffsetSpan], terms: ShareTerms) -> ShareStateChange:
        """`spans` are expired, delayed or empty, and begin with the first offset that can be acquired."""
        change = ShareStateChange()
        for span in spans:
            self._pass(span, terms, change)
        self._runs.tidy()
        return change

    def _pass(self, span: OffsetSpan, terms: ShareTerms, change: ShareStateChange) -> None:
        free = self._free_in(span, None, terms)
        if span.empty or (span.delayed and not terms.delays):
            _skip(free, change)
        else:
            _give_up(free, LetterReason.DELAYED if span.delayed else LetterReason.EXPIRED, terms, change)

    def drop(self, count: int, end: int, reason: LetterReason, terms: ShareTerms) -> ShareStateChange:
        """Gives up the first `count` records below `end` that can be acquired, as many as there is room for."""
        change = ShareStateChange()
        for run in [run for run in self._runs if run.free]:
            if count <= 0:
                break
            parts = self._runs.cut_out(run.first, min(run.last, run.first + count - 1))
            _give_up(parts, reason, terms, change)
            count -= sum(part.size for part in parts)
        first = self.end
        last = min(first + count, end) - 1
        if terms.dead_letters:
            last = min(last, self.start + terms.locks_max - 1)
        if count > 0 and last >= first:
            new = InFlightRun(first, last, RecordState.AVAILABLE, 0)
            self._runs.extend(new)
            _give_up([new], reason, terms, change)
        self._runs.tidy()
        return change

    def _throttled(self, run: InFlightRun, terms: ShareTerms) -> tuple[InFlightRun, bool]:
        """Records that are released again and again are delivered in ever smaller parts, at last one by one, so that a
        bad record does not use up its neighbours' deliveries.  True: the rest of the run must wait."""
        from_deliveries = max(THROTTLE_FROM_MIN, -(-terms.deliveries_max // 2))
        if run.deliveries < from_deliveries:
            return run, False
        size = max(1, run.size >> (run.deliveries - from_deliveries + 1))
        if _last_chance(run, terms):
            size = 1
        (run,) = self._runs.cut_out(run.first, run.first + size - 1)
        return run, True

    # Acknowledging

    def acknowledge(
        self,
        member: str,
        acknowledgements: Sequence[AcknowledgedRange],
        terms: ShareTerms,
        now_ms: int,
        joined: JoinedAcknowledgement | None = None,
    ) -> ShareStateChange:
        """All ranges or none: raises the error of the first invalid range, and then nothing has changed.  `joined`: the
        transaction that some of them belong to."""
        wanted: list[tuple[int, int, AcknowledgeType]] = []
        reached = -1
        for acknowledged in acknowledgements:
            if acknowledged.first <= reached:
                raise errors.InvalidRecordState(f"offset {acknowledged.first} is acknowledged twice")
            reached = acknowledged.last
            if acknowledged.first < self.start and not IN_TRANSACTION.keys().isdisjoint(acknowledged.types):
                raise errors.InvalidRecordState(
                    f"offset {acknowledged.first} is finished: its lock expired, or the log has deleted it"
                )
            if acknowledged.last < self.start:
                continue  # finished already: its lock expired, or the log has deleted it
            self._check_bounds(acknowledged)
            for first, last, kind in uniform_parts(acknowledged):
                if last >= self.start:
                    self._check_held(member, max(first, self.start), last)
                    if kind is AcknowledgeType.RENEW and not terms.renewals:
                        raise errors.InvalidRecordState(
                            "share.renew.acknowledge.enable of the group is false"
                        )
                    wanted.append((max(first, self.start), last, kind))
        change = ShareStateChange()
        for first, last, kind in wanted:
            for run in self._runs.cut_out(first, last):
                if kind is AcknowledgeType.RENEW:
                    run.deadline_ms = max(run.deadline_ms, now_ms + terms.lock_ms)
                    continue
                if kind in IN_TRANSACTION:
                    assert joined is not None  # `check_acknowledgements` has seen it
                    run.joined = joined
                    run.reason = _reason(run, IN_TRANSACTION[kind], terms)
                    run.to = _fate(run, IN_TRANSACTION[kind], terms)
                    change.joins.append(StateBatch(run.first, run.last, run.to, run.deliveries))
                    continue
                run.reason = _reason(run, kind, terms)
                run.to = _fate(run, kind, terms)
                run.wakes_ms = _wakes_ms(run, terms, now_ms) if run.to is RecordState.AVAILABLE else 0
                change.moves.append(run)
                change.add(run, run.to)
        for move in [move for move in change.moves if move.to is RecordState.AVAILABLE]:
            self._call_back(move, change)
        return change

    def _call_back(self, released: InFlightRun, change: ShareStateChange) -> None:
        """In a group that orders by key: later records of the same key come again after those that were released.  They
        were not the ones that failed, so this delivery of theirs is not counted."""
        for offset in self._order.after(released.first, released.last):
            for run in self._runs.cut_out(offset, offset):
                if run.state is RecordState.ACQUIRED and run.to is None:
                    run.deliveries -= 1
                    run.to = RecordState.AVAILABLE
                    change.moves.append(run)
                    change.add(run, run.to)

    def _check_bounds(self, acknowledged: AcknowledgedRange) -> None:
        if acknowledged.first >= self.end:
            raise errors.InvalidRequest(f"offset {acknowledged.first} was not delivered to any member yet")
        if acknowledged.last >= self.end:
            raise errors.InvalidRequest(
                f"offsets up to {acknowledged.last} were not delivered to any member yet"
            )

    def _check_held(self, member: str, first: int, last: int) -> None:
        for run in self._runs.over(first, last):
            if run.to is not None or run.state is not RecordState.ACQUIRED:
                raise errors.InvalidRecordState(
                    f"offset {max(run.first, first)} is not acquired, or its lock has expired"
                )
            if run.member != member:
                raise errors.InvalidRecordState(
                    f"offset {max(run.first, first)} is acquired by another member"
                )

    def confirmed(self, change: ShareStateChange) -> None:
        """The change is persisted."""
        for run in change.moves:
            if run.to is not None:
                change.releases = change.releases or run.to is RecordState.AVAILABLE
                run.left(run.to)
                _leave(self._order, run)
        self._tidy()

    def undone(self, change: ShareStateChange) -> None:
        """The change could not be persisted: the member keeps the records until their lock expires."""
        for run in change.moves:
            run.to = None
            run.reason = None
            run.wakes_ms = 0
        self._runs.tidy()

    def decided(self, outcomes: KnownOutcomes, terms: ShareTerms, now_ms: int) -> ShareStateChange | None:
        """Records of committed transactions are finished, those of aborted ones are delivered again.  None if nothing is
        decided."""
        settled = [(run, outcome) for run in self._runs if (outcome := outcomes.of(run)) is not None]
        aborted = [run for run, committed in settled if not committed]
        for run, committed in settled:
            if committed:
                assert run.to is not None
                run.left(run.to)
                _leave(self._order, run)
            else:
                run.to = run.joined = None
                run.wakes_ms = _wakes_ms(run, terms, now_ms)
        change = self._take_back(aborted, terms)
        self._keyless = self._keyless and any(run.joined is not None for run in self._runs)
        self._tidy()
        return change if settled else None

    # Releasing records

    def released(self, member: str, terms: ShareTerms) -> ShareStateChange:
        """The member's share session ended: its acquired records are released."""
        return self._take_back([run for run in _held(self._runs) if run.member == member], terms)

    def expired(self, now_ms: int, terms: ShareTerms) -> ShareStateChange:
        """Releases records whose lock has expired."""
        overdue = [run for run in _held(self._runs) if run.deadline_ms <= now_ms]
        for run in overdue:
            run.wakes_ms = _wakes_ms(run, terms, now_ms)
        return self._take_back(overdue, terms)

    def woken(self, now_ms: int) -> bool:
        """Whether records can be acquired that rested until now."""
        rested = [run for run in self._runs if 0 < run.wakes_ms <= now_ms and run.to is None]
        for run in rested:
            run.wakes_ms = 0
            self._order.left(run.first, run.last)
        if rested:
            self._tidy()
        return bool(rested)

    def next_deadline_ms(self) -> int | None:
        """None if no lock ends by itself."""
        next_ms = min(
            (run.wakes_ms or run.deadline_ms for run in self._runs if run.wakes_ms or _is_held(run)),
            default=NO_DEADLINE,
        )
        return None if next_ms == NO_DEADLINE else next_ms

    def _take_back(self, runs: list[InFlightRun], terms: ShareTerms) -> ShareStateChange:
        change = ShareStateChange()
        for run in runs:
            state = _fate(run, AcknowledgeType.RELEASE, terms)
            run.reason = _reason(run, AcknowledgeType.RELEASE, terms)
            if state is RecordState.AVAILABLE:
                self._call_back(run, change)
            run.left(state)
            _leave(self._order, run)
            change.add(run, state)
            change.releases = change.releases or state is RecordState.AVAILABLE
        if runs:
            self._tidy()
        return change

    def _tidy(self) -> None:
        self._runs.tidy()
        self._order.started(self._runs.start)

    # Dead letters

    def letters(self) -> list[InFlightRun]:
        """The runs that are given up, and must still be copied to the dead letter topic."""
        return [run for run in self._runs if run.state is RecordState.ARCHIVING and run.to is None]

    def copied(self, first: int, last: int) -> ShareStateChange:
        """The records are in the dead letter topic."""
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
        """The log starts at `offset` now: earlier records are deleted."""
        if offset > self.start:
            self._runs.started(offset)
            self._tidy()

    def picture(self) -> list[StateBatch]:
        """The whole state, as it will be when all changes under way are persisted: written after a failed write, which
        leaves open what of the earlier changes is persisted."""
        batches = []
        for run in self._runs:
            state = run.next_state
            if state is not RecordState.ACQUIRED and (run.deliveries or state is not RecordState.AVAILABLE):
                batches.append(StateBatch(run.first, run.last, state, run.deliveries))
        return batches

    def outlook(self) -> tuple[int, int]:
        """(start offset, number of finished records behind it), as they will be when all changes are persisted."""
        return self._runs.outlook()


def _held(runs: InFlightRuns) -> list[InFlightRun]:
    return [run for run in runs if _is_held(run)]


def _leave(order: KeyOrder, run: InFlightRun) -> None:
    """A key whose record rests has to wait with it."""
    order.left(run.first, run.last)
    for offset in range(run.first, run.last + 1) if run.wakes_ms else ():
        order.acquired(offset, NOBODY)


def _is_held(run: InFlightRun) -> bool:
    return run.state is RecordState.ACQUIRED and run.to is None


def _wakes_ms(run: InFlightRun, terms: ShareTerms, now_ms: int) -> int:
    if not terms.backoff_ms:
        return 0
    doublings = min(run.deliveries - 1, BACKOFF_DOUBLINGS_MAX)
    return now_ms + min(terms.backoff_ms << doublings, max(terms.backoff_ms_max, terms.backoff_ms))


def _skip(free: list[InFlightRun], change: ShareStateChange) -> None:
    for run in free:
        run.left(RecordState.ARCHIVED)
        change.add(run, RecordState.ARCHIVED)


def _give_up(
    free: list[InFlightRun], reason: LetterReason, terms: ShareTerms, change: ShareStateChange
) -> None:
    copied = terms.dead_letters or reason is LetterReason.DELAYED
    state = RecordState.ARCHIVING if copied else RecordState.ARCHIVED
    for run in free:
        run.left(state)
        run.reason = reason
        change.add(run, state)


def _last_chance(run: InFlightRun, terms: ShareTerms) -> bool:
    return terms.deliveries_max >= ALONE_LIMIT_MIN and run.deliveries == terms.deliveries_max - 1


def _fate(run: InFlightRun, kind: AcknowledgeType, terms: ShareTerms) -> RecordState:
    if kind is AcknowledgeType.ACCEPT:
        return RecordState.ACKNOWLEDGED
    if kind is AcknowledgeType.GAP:
        return RecordState.ARCHIVED
    if kind is AcknowledgeType.RELEASE and run.deliveries < terms.deliveries_max:
        return RecordState.AVAILABLE
    return RecordState.ARCHIVING if terms.dead_letters else RecordState.ARCHIVED


def _reason(run: InFlightRun, kind: AcknowledgeType, terms: ShareTerms) -> LetterReason | None:
    if kind is AcknowledgeType.REJECT:
        return LetterReason.REJECTED
    used_up = kind is AcknowledgeType.RELEASE and run.deliveries >= terms.deliveries_max
    return LetterReason.USED_UP if used_up else None


def _collect(given: list[AcquiredRange], run: InFlightRun, batch_records_max: int) -> None:
    if given and given[-1].last + 1 == run.first and given[-1].deliveries == run.deliveries:
        whole = AcquiredRange(given[-1].first, run.last, run.deliveries)
        if batch_records_max <= 0 or whole.last - whole.first < batch_records_max:
            given[-1] = whole
            return
    given.append(AcquiredRange(run.first, run.last, run.deliveries))


__all__ = [
    "IN_TRANSACTION",
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
