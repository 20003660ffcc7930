"""A share partition, with everything it persists, against a record-by-record model; restarts in between."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.share import group_state
from tidelog.groups.share.in_flight import JoinedAcknowledgement
from tidelog.groups.share.joined_acknowledgements import KnownOutcomes, joined
from tidelog.groups.share.partition import (
    IN_TRANSACTION,
    AcknowledgedRange,
    AcknowledgeType,
    AcquireRequest,
    OffsetSpan,
    RecordState,
    SharePartition,
    ShareStateChange,
    ShareTerms,
)

KEY = group_state.ShareKey("g", UUID(int=7), 0)
LOCK_MS = 100
DELIVERIES_MAX = 3
LOCKS_MAX = 40
UPDATES_MAX = 5
MEMBERS = ("ann", "ben", "cid")
FINISHED = ("acknowledged", "archived")
PLAIN = [kind for kind in AcknowledgeType if kind not in IN_TRANSACTION]
PRODUCERS = (11, 12)
NO_PRODUCER = -1
NAMES = {
    RecordState.AVAILABLE: "available",
    RecordState.ACKNOWLEDGED: "acknowledged",
    RecordState.ARCHIVING: "letter",
    RecordState.ARCHIVED: "archived",
}


@dataclass
class Known:
    """One record, as the model sees it."""

    deliveries: int = 0
    holder: str = ""
    deadline_ms: int = 0
    state: str = "available"  # or held, moving, joined, letter, acknowledged, archived
    persisted: tuple[int, int] = (0, 0)  # deliveries, state
    producer: int = (
        NO_PRODUCER  # whose open transaction a joined record waits for; none: the transaction has ended
    )
    committed: str = (
        ""  # what becomes of a joined record: a state when its transaction commits, empty when it aborts
    )


class ShareModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.terms = ShareTerms(DELIVERIES_MAX, LOCKS_MAX, LOCK_MS, dead_letters=False, renewals=True)
        self.spans: list[OffsetSpan] = []
        self.log_end = 0
        self.log_start = 0
        self.known: dict[int, Known] = {}
        self.machine = group_state.ShareStateMachine()
        self.log: list[
            tuple[CoordinatorRecord | bool, int]
        ] = []  # a record or the end of a transaction; the producer
        self.counts_are_late = False
        self._append(group_state.initialize(self.machine, KEY, 1, 0, 0))
        self.partition = SharePartition(0)
        self.failed_before = False
        self.queue: list[tuple[ShareStateChange, dict[int, str]]] = []
        self.copies: set[int] = set()  # which of the changes are about dead letters

    def _append(self, entries: list[CoordinatorRecord]) -> None:
        for entry in entries:
            self.log.append((entry, NO_PRODUCER))
            self.machine.replay(entry, NO_PRODUCER)

    def _submit(self, change: ShareStateChange, settle: dict[int, str]) -> None:
        """`settle` is what becomes of records that wait for it to be written."""
        for offset in settle:
            self.known[offset].state = "moving"
        self.queue.append((change, settle))

    def _model(self, offset: int) -> Known:
        return self.known.setdefault(offset, Known())

    # What happens

    @rule(size=st.integers(1, 6), empty=st.sampled_from((False, False, False, True)))
    def records_are_appended(self, size: int, empty: bool) -> None:
        self.spans.append(OffsetSpan(self.log_end, self.log_end + size - 1, empty))
        self.log_end += size

    @rule(
        member=st.sampled_from(MEMBERS),
        most=st.integers(1, 12),
        strict=st.booleans(),
        batch=st.integers(0, 5),
    )
    def a_member_fetches(self, member: str, most: int, strict: bool, batch: int) -> None:
        start = max(self.partition.next_offset(), self.log_start)
        spans = [span for span in self.spans if span.last >= start]
        room = self.partition.has_room(self.terms)
        if not spans or not room:
            return
        spans[0] = spans[0]._replace(first=max(spans[0].first, start))
        before = {offset: self._model(offset).deliveries for span in spans for offset in range(*_range(span))}
        grant = self.partition.acquire(
            AcquireRequest(member, most, batch, strict), spans, self.terms, self.now_ms
        )
        given = 0
        for acquired in grant.acquired:
            assert acquired.first <= acquired.last
            for offset in range(acquired.first, acquired.last + 1):
                record = self._model(offset)
                assert record.state == "available", f"{offset} is {record.state}, and was given to {member}"
                assert acquired.deliveries == before[offset] + 1
                assert not any(span.empty and span.first <= offset <= span.last for span in self.spans)
                record.state, record.holder = "held", member
                record.deliveries, record.deadline_ms = acquired.deliveries, self.now_ms + LOCK_MS
                given += 1
        if strict:
            assert given <= most
        for skip in grant.skipped.batches:
            for offset in range(skip.first, skip.last + 1):
                assert self._model(offset).state == "available"
                self._model(offset).state = "archived"
        if not spans[0].empty:
            assert given, "there was a record to give, and nobody got it"
        self._submit(grant.skipped, {})

    @rule(
        member=st.sampled_from(MEMBERS),
        near=st.integers(-2, 6),
        at_own=st.sampled_from((True, True, True, False)),
        kinds=st.one_of(
            st.lists(st.sampled_from(PLAIN), min_size=1, max_size=6),
            st.builds(lambda kind, count: [kind] * count, st.sampled_from(PLAIN), st.integers(1, 6)),
        ),
    )
    def a_member_acknowledges(
        self, member: str, near: int, at_own: bool, kinds: list[AcknowledgeType]
    ) -> None:
        held = [
            offset
            for offset, record in self.known.items()
            if record.state == "held" and record.holder == member
        ]
        if at_own and held:
            first = sorted(held)[near % len(held)]
            kinds = kinds[: next(n for n in range(1, 99) if first + n not in held)]
        else:
            first = self.partition.start + near
        if first < 0:
            return
        last = first + len(kinds) - 1
        start = self.partition.start
        ours = [(o, k) for o, k in enumerate(kinds, first) if o >= start]
        allowed = all(
            o in self.known and self.known[o].state == "held" and self.known[o].holder == member
            for o, _ in ours
        )
        before = repr(list(self.partition.runs))
        try:
            change = self.partition.acknowledge(
                member, [AcknowledgedRange(first, last, kinds)], self.terms, self.now_ms
            )
        except (errors.InvalidRecordState, errors.InvalidRequest):
            assert not allowed
            assert repr(list(self.partition.runs)) == before
            return
        assert allowed
        for offset, kind in ours:
            if kind is AcknowledgeType.RENEW:
                self.known[offset].deadline_ms = self.now_ms + LOCK_MS
        self._submit(
            change,
            {offset: self._fate(offset, kind) for offset, kind in ours if kind is not AcknowledgeType.RENEW},
        )

    @rule(
        near=st.integers(0, 6),
        count=st.integers(1, 6),
        kind=st.sampled_from(list(IN_TRANSACTION)),
        producer=st.sampled_from(PRODUCERS),
        ok=st.sampled_from((True, True, False)),
    )
    def an_acknowledgement_joins_a_transaction(
        self, near: int, count: int, kind: AcknowledgeType, producer: int, ok: bool
    ) -> None:
        held = {offset: record.holder for offset, record in self.known.items() if record.state == "held"}
        if not held:
            return
        first = sorted(held)[near % len(held)]
        member, last = held[first], first
        while held.get(last + 1) == member and last - first + 1 < count:
            last += 1
        acknowledgement = JoinedAcknowledgement(producer)
        ranges = [AcknowledgedRange(first, last, [kind])]
        change = self.partition.acknowledge(member, ranges, self.terms, self.now_ms, acknowledgement)
        assert not change.batches
        if ok:
            update = group_state.StateWrite(1, 0, group_state.UNCHANGED, 0, change.joins)
            for entry in group_state.join(self.machine, KEY, update):
                self.log.append((entry, producer))
                self.machine.replay(entry, producer)
        acknowledgement.written = True
        for offset in range(first, last + 1):
            record = self.known[offset]
            record.state, record.producer = "joined", producer if ok else NO_PRODUCER
            record.committed = self._fate(offset, IN_TRANSACTION[kind]) if ok else ""

    @rule(producer=st.sampled_from(PRODUCERS), commits=st.booleans())
    def a_transaction_ends(self, producer: int, commits: bool) -> None:
        self.log.append((commits, producer))
        self.machine.ended(producer, commits)
        for record in self.known.values():
            if record.state != "joined" or record.producer != producer:
                continue
            record.producer = NO_PRODUCER
            if commits:
                number = next(number for number, name in NAMES.items() if name == record.committed)
                record.persisted = max(record.persisted, (record.deliveries, int(number)))
                self.counts_are_late = True
            else:
                record.committed = ""

    @rule()
    def outcomes_are_asked_for(self) -> None:
        asked = joined(self.partition.runs)
        state = self.machine.state(KEY)
        assert state is not None
        outcomes = KnownOutcomes(asked, state.start, state.batches, state.undecided)
        change = self.partition.decided(outcomes, self.terms, self.now_ms)
        decided = [
            offset
            for offset, record in self.known.items()
            if record.state == "joined" and record.producer == NO_PRODUCER
        ]
        assert (change is not None) == bool(decided)
        for offset in decided:
            record = self.known[offset]
            record.state = record.committed or self._fate(offset, AcknowledgeType.RELEASE)
        if change is not None:
            self._submit(change, {})

    @rule(ok=st.sampled_from((True, True, False)))
    def what_has_gathered_is_written(self, ok: bool) -> None:
        under_way, self.queue = self.queue, []
        copies, self.copies = self.copies, set()
        batches = [batch for change, _ in under_way for batch in change.batches]
        if self.failed_before:
            batches = self.partition.picture()
        self.failed_before = not ok and (self.failed_before or bool(batches))
        if ok and batches:
            what = group_state.StateWrite(1, 0, *self.partition.outlook(), batches)
            self._append(group_state.write(self.machine, KEY, what, UPDATES_MAX, self.now_ms))
            self.counts_are_late = any(record.state == "joined" for record in self.known.values())
            for batch in batches:
                for offset in range(batch.first, batch.last + 1):
                    if offset in self.known:
                        record = self.known[offset]
                        record.persisted = max(record.persisted, (batch.deliveries, batch.state))
        for change, settle in under_way:
            self.partition.confirmed(change) if ok else self.partition.undone(change)
            for offset, state in settle.items():
                if offset in self.known:
                    before = "letter" if id(change) in copies else "held"
                    self.known[offset].state = state if ok else before

    def _fate(self, offset: int, kind: AcknowledgeType) -> str:
        if kind is AcknowledgeType.ACCEPT:
            return "acknowledged"
        if kind is AcknowledgeType.GAP:
            return "archived"
        if kind is AcknowledgeType.REJECT or self.known[offset].deliveries >= DELIVERIES_MAX:
            return "letter" if self.terms.dead_letters else "archived"
        return "available"

    @rule(by_ms=st.sampled_from((1, 50, LOCK_MS, 150)))
    def time_passes(self, by_ms: int) -> None:
        self.now_ms += by_ms
        deadline = self.partition.next_deadline_ms()
        held = [record.deadline_ms for record in self.known.values() if record.state == "held"]
        assert deadline == min(held, default=None)
        change = self.partition.expired(self.now_ms, self.terms)
        for offset, record in self.known.items():
            if record.state == "held" and record.deadline_ms <= self.now_ms:
                record.state = self._fate(offset, AcknowledgeType.RELEASE)
        self._submit(change, {})

    @rule(member=st.sampled_from(MEMBERS))
    def a_session_ends(self, member: str) -> None:
        change = self.partition.released(member, self.terms)
        for offset, record in self.known.items():
            if record.state == "held" and record.holder == member:
                record.state = self._fate(offset, AcknowledgeType.RELEASE)
        self._submit(change, {})

    @rule(yes=st.booleans())
    def dead_letters_are_switched(self, yes: bool) -> None:
        self.terms = self.terms._replace(dead_letters=yes)

    @precondition(lambda self: self.partition.letters())
    @rule()
    def dead_letters_are_copied(self) -> None:
        run = self.partition.letters()[0]
        change = self.partition.copied(run.first, run.last)
        for offset in range(run.first, run.last + 1):
            assert self.known[offset].state == "letter"
        self.copies.add(id(change))
        self._submit(change, dict.fromkeys(range(run.first, run.last + 1), "archived"))

    @rule(count=st.integers(0, 8))
    def the_log_loses_its_oldest(self, count: int) -> None:
        self.log_start = min(self.log_start + count, self.log_end)
        self.spans = [
            span._replace(first=max(span.first, self.log_start))
            for span in self.spans
            if span.last >= self.log_start
        ]
        self.partition.log_started(self.log_start)
        for offset in [offset for offset in self.known if offset < self.log_start]:
            del self.known[offset]

    @rule()
    def the_broker_is_killed(self) -> None:
        """The state is what its records add up to; who held what is forgotten, and so are these deliveries."""
        machine = group_state.ShareStateMachine()
        for entry, producer in self.log:
            if isinstance(entry, bool):
                machine.ended(producer, entry)
            else:
                machine.replay(entry, producer)
        assert machine.states == self.machine.states
        state = machine.state(KEY)
        assert state is not None and state == self.machine.state(KEY)
        self.partition = SharePartition(state.start, state.batches, state.undecided)
        self.partition.log_started(self.log_start)
        self.queue.clear()
        self.failed_before = False
        for record in self.known.values():
            if record.state == "joined" and record.producer != NO_PRODUCER:
                continue  # the transaction decides, whoever asks
            record.deliveries, number = record.persisted
            record.state = NAMES[RecordState(number)]

    # What holds

    @invariant()
    def finished_records_stay_finished(self) -> None:
        partition = self.partition
        assert self.log_start <= partition.start <= partition.end
        state = {"available": "AVAILABLE", "held": "ACQUIRED", "letter": "ARCHIVING"}
        at = partition.start
        for run in partition.runs:
            assert run.first == at and run.last >= run.first
            at = run.last + 1
            for offset in range(run.first, run.last + 1):
                record = self._model(offset)
                assert (run.to is not None) == (record.state in ("moving", "joined")), offset
                assert (run.joined is not None) == (record.state == "joined"), offset
                if run.to is None:
                    assert run.state.name == state.get(record.state, record.state.upper()), offset
                assert run.finished or run.deliveries == record.deliveries, offset
        assert at == partition.end
        for offset, record in self.known.items():
            if offset < partition.start:
                assert record.state in FINISHED, f"{offset} is {record.state} and was passed over"
            if offset >= partition.end:
                assert record.state == "available"

    @invariant()
    def what_is_kept_is_bounded(self) -> None:
        assert self.partition.end - self.partition.start <= LOCKS_MAX + 12
        assert self.partition.runs.end >= self.partition.next_offset()

    @invariant()
    def what_is_persisted_says_how_much_is_finished(self) -> None:
        state = self.machine.states[KEY]
        finished = sum(
            b.last - b.first + 1
            for b in state.batches
            if b.state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
        )
        assert (
            state.finished in (finished, group_state.UNCHANGED)
            or self.log_start > state.start
            or self.counts_are_late
        )


def _range(span: OffsetSpan) -> tuple[int, int]:
    return span.first, span.last + 1


TestShareModel = ShareModel.TestCase
TestShareModel.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
