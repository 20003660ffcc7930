"""Transactional ids under any course of requests, against a small model; their records, cut anywhere, give the state of
that moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidelog import errors
from tidelog.transactions.state_machine import KINDS, TransactionStateMachine, entry
from tidelog.transactions.transaction import (
    DECIDED,
    EPOCH_MAX,
    NO_EPOCH,
    ProducerIdAndEpoch,
    Transaction,
    TransactionStatus,
    completed,
    ended,
    fenced,
    initialized,
    with_partitions,
)
from tidelog.types import TopicPartition

PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
TIMEOUT_MS = 1_000
VERSIONS = st.sampled_from([0, 2])


@dataclass
class Model:
    """What somebody who knows only the rules expects: who is the producer, and what of its transaction is where."""

    owner: ProducerIdAndEpoch
    held: set[TopicPartition] = field(default_factory=set)
    open: bool = False
    deciding: bool | None = None
    outcomes: list[bool] = field(default_factory=list)


class Courses(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.machine = TransactionStateMachine()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.history: list[Transaction] = []
        self.model: Model | None = None
        self.instances: list[ProducerIdAndEpoch] = []
        self.now_ms = 1_000
        self.next_id = 100

    def _fresh(self) -> int:
        self.next_id += 1
        return self.next_id

    def _write(self, after: Transaction) -> None:
        stored = KINDS.encode(entry(after))
        self.log.append(stored)
        read = KINDS.decode(*stored)
        assert read is not None
        self.machine.replay(read, -1)
        self.machine.appended(after)
        self.history.append(after)

    @property
    def known(self) -> Transaction | None:
        return self.machine.get("t")

    @rule(near_the_end=st.booleans())
    def initialize(self, near_the_end: bool) -> None:
        known, model = self.known, self.model
        if known is not None and known.state is TransactionStatus.ONGOING:
            self._write(fenced(known, self._fresh(), self.now_ms))
            assert model is not None
            model.deciding, model.open = False, False
            return
        try:
            after = initialized(known, "t", TIMEOUT_MS, None, self._fresh(), self.now_ms)
        except errors.ConcurrentTransactions:
            assert model is not None and model.deciding is not None
            return
        assert model is None or model.deciding is None
        if near_the_end and after.epoch < EPOCH_MAX - 3:
            after = replace(after, epoch=EPOCH_MAX - 3)  # as if it had been there for long
        self._write(after)
        owner = ProducerIdAndEpoch(after.producer_id, after.epoch)
        assert owner not in self.instances, "an instance that anybody else ever was"
        self.instances.append(owner)
        self.model = Model(owner, outcomes=model.outcomes if model else [])

    @rule(which=st.integers(0, 50), names=st.sets(st.sampled_from(PARTITIONS), min_size=1), version=VERSIONS)
    def add(self, which: int, names: set[TopicPartition], version: int) -> None:
        if self.model is None:
            return
        instance, model = self._instance(which), self.model
        known = self.known
        try:
            after = with_partitions(known, instance, frozenset(names), version, self.now_ms)
        except errors.TidelogError as problem:
            assert instance != model.owner or model.deciding is not None, problem
            return
        assert instance == model.owner and model.deciding is None
        if after is not known:
            self._write(after)
        model.held |= names
        model.open = True

    @rule(which=st.integers(0, 50), commit=st.booleans(), version=VERSIONS)
    def end(self, which: int, commit: bool, version: int) -> None:
        if self.model is None:
            return
        instance, model, known = self._instance(which), self.model, self.known
        assert known is not None
        try:
            after = ended(known, instance, commit, version, self._fresh(), self.now_ms)
        except errors.TidelogError:
            assert not (instance == model.owner and model.open)
            return
        if after is known:
            # A request that came again: it must have ended so, and nothing may have begun since.
            assert not model.open and model.deciding is None and model.outcomes[-1] == commit
            return
        assert instance == model.owner and model.deciding is None
        assert model.open or (not commit and version == 2)
        self._write(after)
        model.deciding, model.open = commit, False

    @rule()
    def complete(self) -> None:
        known, model = self.known, self.model
        if known is None or known.state not in DECIDED:
            return
        assert model is not None and model.deciding is not None
        assert known.partitions == model.held and known.commits == model.deciding
        self._write(completed(known, self.now_ms))
        model.outcomes.append(model.deciding)
        after = self.known
        assert after is not None
        fresh = ProducerIdAndEpoch(after.producer_id, after.epoch)
        if fresh != model.owner:
            assert fresh not in self.instances
            self.instances.append(fresh)
        model.owner, model.held, model.deciding = fresh, set(), None

    @rule(ms=st.sampled_from([1, 600]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        known, model = self.known, self.model
        if known is not None and known.timed_out(self.now_ms):
            assert model is not None and model.open
            self._write(fenced(known, self._fresh(), self.now_ms))
            model.deciding, model.open = False, False

    @rule()
    def fail_over(self) -> None:
        """Another broker takes over with what the records say."""
        self.machine = self._replayed(len(self.log))

    def _instance(self, which: int) -> ProducerIdAndEpoch:
        """Mostly who it should be; now and then somebody from the past, or from nowhere."""
        assert self.model is not None
        others = [
            *self.instances,
            ProducerIdAndEpoch(99, 0),
            ProducerIdAndEpoch(self.model.owner.producer_id, 30_000),
        ]
        return others[which] if which < len(others) else self.model.owner

    def _replayed(self, count: int) -> TransactionStateMachine:
        machine = TransactionStateMachine()
        for key, value in self.log[:count]:
            read = KINDS.decode(key, value)
            assert read is not None
            machine.replay(read, -1)
        return machine

    @invariant()
    def a_log_cut_anywhere_gives_the_state_of_that_moment(self) -> None:
        for count in range(max(len(self.log) - 2, 0), len(self.log) + 1):
            expected = replace(self.history[count - 1], last_epoch=NO_EPOCH) if count else None
            assert self._replayed(count).get("t") == expected

    @invariant()
    def the_state_says_what_the_model_says(self) -> None:
        known, model = self.known, self.model
        if known is None or model is None:
            assert known is None and model is None
            return
        assert (known.state is TransactionStatus.ONGOING) == model.open
        assert (known.state in DECIDED) == (model.deciding is not None)
        assert known.partitions == model.held
        if known.state not in DECIDED:
            assert ProducerIdAndEpoch(known.producer_id, known.epoch) == model.owner


Courses.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestCourses = Courses.TestCase
