"""The in-flight records of a share partition, as runs of offsets that have the same state.

Runs are in offset order, without gaps, from the start offset (the first record that is not finished) to the end offset
(the first record that was never delivered).  Neighbouring runs with equal state are merged, so a thousand acknowledged
records cost as much as one.  Pure; `partition` decides what happens to them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum, IntEnum
from typing import NamedTuple

NOBODY = ""


class RecordState(IntEnum):
    """Kafka's record states; the numbers are those in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # never delivered again, but not yet copied to the dead letter topic
    ARCHIVED = 4


class LetterReason(Enum):
    """Why a record is given up."""

    REJECTED = "rejected"
    USED_UP = "delivery count limit reached"
    EXPIRED = "expired"
    TOO_MANY = "queue length limit reached"
    DELAYED = "not due yet"  # no dead letter: it is published anew when it is due


FINISHED = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))


class StateBatch(NamedTuple):
    """The persisted part of a run; `last` is inclusive, as in Kafka's records."""

    first: int
    last: int
    state: int
    deliveries: int


class UndecidedBatch(NamedTuple):
    """What becomes of records when the transaction of a producer commits; `last` is inclusive."""

    producer_id: int
    first: int
    last: int
    state: int
    deliveries: int


class JoinedAcknowledgement:
    """An acknowledgement that counts when its producer's transaction commits.  `written`: the share coordinator has it."""

    __slots__ = ("producer_id", "written")

    def __init__(self, producer_id: int, written: bool = False) -> None:
        self.producer_id = producer_id
        self.written = written


class InFlightRun:
    """`to` is the next state while a change is being persisted, or while the transaction in `joined` is not decided: no
    other request may change the run until then."""

    __slots__ = (
        "deadline_ms",
        "deliveries",
        "first",
        "joined",
        "last",
        "member",
        "reason",
        "state",
        "to",
        "wakes_ms",
    )

    def __init__(self, first: int, last: int, state: RecordState, deliveries: int) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries  # including the present one
        self.member = NOBODY  # the member that has acquired the run
        self.deadline_ms = 0  # the end of the acquisition lock
        self.reason: LetterReason | None = None  # not persisted
        self.to: RecordState | None = None
        self.joined: JoinedAcknowledgement | None = None
        self.wakes_ms = 0  # a released run that rests: when it can be acquired again; not persisted

    def __repr__(self) -> str:
        return f"InFlightRun({self.first}-{self.last} {self.state.name} x{self.deliveries} {self.member})"

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    @property
    def next_state(self) -> RecordState:
        """As it will be when all changes under way are persisted, and no transaction is decided."""
        return self.state if self.to is None or self.joined is not None else self.to

    @property
    def free(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.to is None and not self.wakes_ms

    def left(self, state: RecordState) -> None:
        """No member holds the run any more."""
        self.state = state
        self.member = NOBODY
        self.to = None
        self.joined = None
        if state is not RecordState.AVAILABLE:
            self.wakes_ms = 0

    def like(self, other: InFlightRun) -> bool:
        if self.state is not other.state or self.to is not None or other.to is not None:
            return False
        if self.finished:
            return True
        return (
            self.deliveries == other.deliveries
            and self.member == other.member
            and self.reason is other.reason
            and self.wakes_ms == other.wakes_ms
            and (self.state is not RecordState.ACQUIRED or self.deadline_ms == other.deadline_ms)
        )


class RecordCounts(NamedTuple):
    """Offsets that were delivered before and can be acquired again, and those that are acquired."""

    available: int
    acquired: int


class InFlightRuns:
    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self._runs: list[InFlightRun] = []

    def __iter__(self) -> Iterator[InFlightRun]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def extend(self, run: InFlightRun) -> None:
        assert run.first == self.end and run.last >= run.first
        self._runs.append(run)
        self.end = run.last + 1

    def over(self, first: int, last: int) -> list[InFlightRun]:
        """The runs that overlap `first` to `last`, uncut."""
        runs = self._runs
        at = max(bisect_right(runs, first, key=_first) - 1, 0)
        overlapping = []
        while at < len(runs) and runs[at].first <= last:
            if runs[at].last >= first:
                overlapping.append(runs[at])
            at += 1
        return overlapping

    def cut_out(self, first: int, last: int) -> list[InFlightRun]:
        """The runs from `first` to `last`; runs that reach further are cut in two."""
        self._cut(first)
        self._cut(last + 1)
        return self.over(first, last)

    def _cut(self, offset: int) -> None:
        at = bisect_right(self._runs, offset, key=_first) - 1
        if at < 0:
            return
        run = self._runs[at]
        if run.first < offset <= run.last:
            rest = InFlightRun(offset, run.last, run.state, run.deliveries)
            rest.member, rest.deadline_ms = run.member, run.deadline_ms
            rest.reason, rest.to, rest.wakes_ms = run.reason, run.to, run.wakes_ms
            rest.joined = run.joined
            run.last = offset - 1
            self._runs.insert(at + 1, rest)

    def started(self, offset: int) -> None:
        """The log starts at `offset` now: runs below it are dropped."""
        if offset <= self.start:
            return
        self._runs = [run for run in self._runs if run.last >= offset]
        if self._runs:
            # Shorten the run itself: a change under way may refer to this object.
            self._runs[0].first = max(self._runs[0].first, offset)
        self.start = offset
        self.end = max(self.end, offset)

    def tidy(self) -> None:
        """Drops finished runs at the front, and merges neighbours with equal state."""
        kept: list[InFlightRun] = []
        for run in self._runs:
            if not kept and run.finished and run.to is None:
                self.start = run.last + 1
            elif kept and kept[-1].like(run):
                kept[-1].last = run.last
                kept[-1].deliveries = max(kept[-1].deliveries, run.deliveries)
            else:
                kept.append(run)
        self._runs = kept

    def counts(self) -> RecordCounts:
        available = acquired = 0
        for run in self._runs:
            if run.state is RecordState.AVAILABLE and run.to is None:
                available += run.size
            elif run.state is RecordState.ACQUIRED and (run.to is None or run.joined is not None):
                acquired += run.size
        return RecordCounts(available, acquired)

    def outlook(self) -> tuple[int, int]:
        """(start offset, number of finished records behind it), as they will be when all changes under way are
        persisted."""
        start, behind, leading = self.start, 0, True
        for run in self._runs:
            done = run.next_state in FINISHED
            if leading and done:
                start = run.last + 1
            elif done:
                behind += run.size
            else:
                leading = False
        return start, behind


def restored(
    start: int, batches: Iterable[StateBatch], undecided: Iterable[UndecidedBatch] = ()
) -> InFlightRuns:
    """The runs of a persisted state.  Offsets without a batch count as never delivered."""
    runs = InFlightRuns(start)
    for batch in batches:
        first = max(batch.first, runs.end)
        if batch.last < first:
            continue
        if first > runs.end:
            runs.extend(InFlightRun(runs.end, first - 1, RecordState.AVAILABLE, 0))
        state = RecordState(batch.state)
        run = InFlightRun(
            first,
            batch.last,
            RecordState.AVAILABLE if state is RecordState.ACQUIRED else state,
            batch.deliveries,
        )
        runs.extend(run)
    for pending in undecided:
        _restore_undecided(runs, pending)
    runs.tidy()
    return runs


def _restore_undecided(runs: InFlightRuns, batch: UndecidedBatch) -> None:
    first = max(batch.first, runs.start)
    if batch.last < first:
        return
    if batch.last >= runs.end:
        runs.extend(InFlightRun(runs.end, batch.last, RecordState.AVAILABLE, 0))
    for run in runs.cut_out(first, batch.last):
        run.state = RecordState.ACQUIRED
        run.to = RecordState(batch.state)
        run.deliveries = batch.deliveries
        run.joined = JoinedAcknowledgement(batch.producer_id, written=True)


def _first(run: InFlightRun) -> int:
    return run.first
