"""The exactly-once sink without Spark: drivers that die at every step, come back late, or come back twice.

Tasks and drivers are played by the test, on a real broker; what they do is what `sink` and `epoch_commit` do."""

from __future__ import annotations

import random
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance.clients import confluent_consume
from tests.conformance.process import wait_until
from tidelog import Admin, errors
from tidelog.pipeline.options.sink import SinkOptions, sink_options
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.sink import decision_log, epoch_commit
from tidelog.pipeline.sink.decision import Epoch, Part, decide
from tidelog.pipeline.sink.decision_log import DecisionLog, decisions_of, forget
from tidelog.pipeline.sink.producers import producer_of

Topic = Callable[..., str]
TASKS = 3


class Crash(Exception):
    """The driver is dead."""


class Query:
    """A streaming query: epochs of known rows, run by drivers that may die at any step and are then started again."""

    def __init__(self, bootstrap: str, topic: str, timeout_ms: int = 60_000) -> None:
        given = {"bootstrap": bootstrap, "topic": topic, "transactionTimeoutMs": str(timeout_ms)}
        self.options = sink_options(given, streaming=True)
        self.id = str(uuid.uuid4())
        self.run = ""
        self.restart()

    def restart(self) -> None:
        """Starts another process, which has nothing in memory from the last one."""
        forget(self.options, f"{self.id}/{self.options.sink_id}", self.run)
        self.run = uuid.uuid4().hex

    def epoch(self, number: int) -> Epoch:
        return Epoch(self.id, self.options.sink_id, self.run, number)

    def rows(self, number: int, task: int) -> list[bytes]:
        return [b"%d/%d/%d" % (number, task, row) for row in range(4 if task else 0)]

    def tasks(self, number: int, attempt: int = 0, rows: Any = None) -> list[Part]:
        return [self.task(number, index, attempt, rows) for index in range(TASKS)]

    def task(self, number: int, index: int, attempt: int = 0, rows: Any = None) -> Part:
        values = (rows or self.rows)(number, index)
        if not values:
            return Part(index, None, 0, 0)
        with producer_of(self.options, f"{self.epoch(number).prefix}{index}/{attempt}") as producer:
            producer.begin_transaction()
            producer.send_batch(self.options.topic, pa.table({"value": values}), partition=0)
            return Part(index, producer.prepare_transaction(), len(values), sum(map(len, values)))

    def commit(self, number: int, parts: Sequence[Part], attempts: bool = False) -> None:
        epoch_commit.commit(self.options, self.epoch(number), parts, attempts=attempts, last=False)

    def whole(self, numbers: range) -> list[bytes]:
        return sorted(row for number in numbers for task in range(TASKS) for row in self.rows(number, task))


@pytest.fixture
def query(bootstrap: str, topic: Topic) -> Query:
    return Query(bootstrap, topic())


def seen(bootstrap: str, options: SinkOptions, count: int) -> list[Any]:
    """The values that readers of committed records find.  A record that is sent last shows that there are no more."""
    from tidelog import Producer

    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(str(options.topic), b"end", partition=0)
    wanted = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumed: list[Any] = []
    for more in range(1, 1000):
        consumed = [
            record.message.value
            for record in confluent_consume(bootstrap, str(options.topic), count + more, 0, **wanted)
        ]
        if b"end" in consumed:
            break
    assert consumed[-1] == b"end"
    return sorted(consumed[:-1])


def aborted(bootstrap: str, parts: Sequence[Part]) -> None:
    """Waits until the broker has aborted the transactions."""
    ids = [part.transaction.transactional_id for part in parts if part.transaction is not None]
    with Admin(bootstrap_servers=bootstrap) as admin:
        wait_until(
            # Fencing an id aborts its open transaction; the next producer begins with nothing.
            lambda: all(
                transaction.state in ("CompleteAbort", "Empty")
                for transaction in admin.describe_transactions(ids).values()
            ),
            60,
            "the time-out of transactions",
        )


def test_epochs_are_committed_one_after_the_other(bootstrap: str, query: Query) -> None:
    for number in range(4):
        query.commit(number, query.tasks(number))
    assert seen(bootstrap, query.options, 32) == query.whole(range(4))


def test_a_driver_that_dies_before_the_decision_leaves_nothing(bootstrap: str, query: Query) -> None:
    query.commit(0, query.tasks(0))
    query.tasks(1)
    query.restart()
    query.commit(1, query.tasks(1))
    assert seen(bootstrap, query.options, 16) == query.whole(range(2))


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_a_driver_that_dies_after_the_decision_is_finished_by_the_next(
    bootstrap: str, query: Query, ended: int
) -> None:
    parts = query.tasks(0)
    epoch = query.epoch(0)
    decisions_of(query.options, epoch.key, epoch.run).write(decide(epoch, parts))
    with Admin(bootstrap_servers=bootstrap) as admin:
        for part in [part for part in parts if part.transaction is not None][:ended]:
            admin.end_transaction(part.transaction, commit=True)  # type: ignore[arg-type]
    query.restart()
    query.commit(0, query.tasks(0))
    query.commit(1, query.tasks(1))
    assert seen(bootstrap, query.options, 16) == query.whole(range(2))


@pytest.mark.parametrize("ended", [0, 1])
def test_a_driver_that_was_away_longer_than_its_transactions_repairs_them(
    bootstrap: str, topic: Topic, ended: int
) -> None:
    query = Query(bootstrap, topic(), timeout_ms=1_000)
    parts = query.tasks(0)
    epoch = query.epoch(0)
    decisions_of(query.options, epoch.key, epoch.run).write(decide(epoch, parts))
    real = [part for part in parts if part.transaction is not None]
    with Admin(bootstrap_servers=bootstrap) as admin:
        for part in real[:ended]:
            assert part.transaction is not None
            admin.end_transaction(part.transaction, commit=True)
    aborted(bootstrap, real[ended:])
    lasting = Query(bootstrap, str(query.options.topic))
    lasting.id = query.id
    lasting.commit(0, lasting.tasks(0))
    # A driver that dies right after the repair finds it done.
    lasting.restart()
    lasting.commit(0, lasting.tasks(0))
    lasting.commit(1, lasting.tasks(1))
    assert seen(bootstrap, query.options, 16) == query.whole(range(2))


def test_rows_that_are_not_the_same_again_are_not_taken_for_a_repair(bootstrap: str, topic: Topic) -> None:
    query = Query(bootstrap, topic(), timeout_ms=1_000)
    parts = query.tasks(0)
    epoch = query.epoch(0)
    decisions_of(query.options, epoch.key, epoch.run).write(decide(epoch, parts))
    aborted(bootstrap, parts)
    lasting = Query(bootstrap, str(query.options.topic))
    lasting.id = query.id
    with pytest.raises(PipelineError, match="has other rows there"):
        lasting.commit(0, lasting.tasks(0, rows=lambda number, task: [b"other"]))


def test_an_epoch_that_took_too_long_is_not_decided(bootstrap: str, topic: Topic) -> None:
    query = Query(bootstrap, topic(), timeout_ms=1_000)
    parts = query.tasks(0)
    aborted(bootstrap, parts[1:2])
    with pytest.raises(PipelineError, match="transactionTimeoutMs"):
        query.commit(0, parts)
    lasting = Query(bootstrap, str(query.options.topic))
    lasting.id = query.id
    lasting.commit(0, lasting.tasks(0))
    assert seen(bootstrap, query.options, 8) == query.whole(range(1))


def test_a_driver_that_is_thought_dead_cannot_decide_any_more(bootstrap: str, query: Query) -> None:
    query.commit(0, query.tasks(0))
    stale, old_run = query.tasks(1), query.run
    epoch = query.epoch(1)
    old = decisions_of(query.options, epoch.key, old_run)
    query.run = uuid.uuid4().hex  # the old one is still there
    query.commit(1, query.tasks(1))
    with pytest.raises(Exception, match=r"(?i)epoch|fenc"):
        old.write(decide(epoch, stale))
    query.commit(2, query.tasks(2))
    assert seen(bootstrap, query.options, 24) == query.whole(range(3))


def test_commits_of_one_run_come_from_several_processes(bootstrap: str, query: Query) -> None:
    """Spark gives a commit to whichever of its workers is free."""
    workers: list[Any] = [OrderedDict(), OrderedDict()]
    for number, worker in enumerate((0, 1, 0, 0, 1, 1)):
        with_own(workers[worker], lambda number=number: query.commit(number, query.tasks(number)))
    # A worker with an old view of the decisions aborts the failed epoch: the decision stands.
    parts = query.tasks(6)
    epoch = query.epoch(6)
    with_own(
        workers[1], lambda: decisions_of(query.options, epoch.key, epoch.run).write(decide(epoch, parts))
    )
    with_own(workers[0], lambda: epoch_commit.abort_undecided(query.options, epoch, parts))
    query.restart()
    query.commit(6, query.tasks(6))
    assert seen(bootstrap, query.options, 56) == query.whole(range(7))
    for kept in workers:
        with_own(kept, decision_log.close_all)


def with_own(kept: OrderedDict[Any, DecisionLog], work: Callable[[], Any]) -> None:
    """Runs `work` as a process that has only these decision logs open."""
    others, decision_log._kept = decision_log._kept, kept
    try:
        work()
    finally:
        decision_log._kept = others


def test_a_decision_that_was_written_and_not_heard_of_is_carried_out(
    bootstrap: str, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.commit(0, query.tasks(0))
    write, lost = DecisionLog.write, [errors.RequestTimedOut("no answer")]

    def deaf(self: DecisionLog, decision: Any) -> None:
        write(self, decision)
        if lost:
            raise lost.pop()

    monkeypatch.setattr(DecisionLog, "write", deaf)
    query.commit(1, query.tasks(1))
    assert not lost
    assert seen(bootstrap, query.options, 16) == query.whole(range(2))


def test_attempts_that_lost_are_aborted_and_do_not_fence_those_that_won(bootstrap: str, query: Query) -> None:
    losers = [query.task(0, 1, attempt=0), query.task(0, 2, attempt=1)]
    winners = [query.task(0, 0), query.task(0, 1, attempt=1), query.task(0, 2, attempt=0)]
    query.commit(0, winners, attempts=True)
    aborted(bootstrap, losers)
    assert seen(bootstrap, query.options, 8) == query.whole(range(1))


def test_what_a_failed_job_has_written_is_aborted_unless_it_was_decided(bootstrap: str, query: Query) -> None:
    parts = query.tasks(0)
    epoch_commit.abort_undecided(query.options, query.epoch(0), parts)
    aborted(bootstrap, parts)
    query.restart()
    query.commit(0, query.tasks(0))
    decided = query.tasks(1)
    epoch = query.epoch(1)
    decisions_of(query.options, epoch.key, epoch.run).write(decide(epoch, decided))
    epoch_commit.abort_undecided(query.options, epoch, decided)
    ids = [part.transaction.transactional_id for part in decided if part.transaction is not None]
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert {transaction.state for transaction in admin.describe_transactions(ids).values()} == {"Ongoing"}
    query.restart()
    query.commit(1, query.tasks(1))
    assert seen(bootstrap, query.options, 16) == query.whole(range(2))


def test_an_old_checkpoint_does_not_write_again(bootstrap: str, query: Query) -> None:
    for number in range(3):
        query.commit(number, query.tasks(number))
    query.restart()
    for number in range(1, 4):
        query.commit(number, query.tasks(number))
    assert seen(bootstrap, query.options, 32) == query.whole(range(4))


def test_two_writes_of_one_batch_need_names(bootstrap: str, query: Query) -> None:
    query.commit(0, query.tasks(0))
    with pytest.raises(PipelineError, match="sinkId"):
        query.commit(0, query.tasks(0, attempt=1))


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.deep), pytest.param(3, marks=pytest.mark.deep)]
)
def test_drivers_that_die_at_random(
    bootstrap: str, topic: Topic, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The driver may die at every call to the broker, before or after the broker has handled the call."""
    chance = random.Random(seed)
    query = Query(bootstrap, topic())
    deaths = 0

    def mortal(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal deaths
            moment = chance.random()
            if moment < 0.15:
                deaths += 1
                raise Crash
            done = work(*args, **named)
            if moment > 0.85:
                deaths += 1
                raise Crash
            return done

        return call

    monkeypatch.setattr(DecisionLog, "write", mortal(DecisionLog.write))
    monkeypatch.setattr(epoch_commit, "_end", mortal(epoch_commit._end))
    monkeypatch.setattr(epoch_commit, "_check_open", mortal(epoch_commit._check_open))
    monkeypatch.setattr(epoch_commit, "abort", mortal(epoch_commit.abort))
    epochs = 12
    for number in range(epochs):
        while True:
            try:
                query.commit(number, query.tasks(number))
                break
            except Crash:
                query.restart()
    assert deaths > 5, "nobody died: choose another seed"
    monkeypatch.undo()
    assert seen(bootstrap, query.options, epochs * 8) == query.whole(range(epochs)), f"seed {seed}"


def test_decisions_are_few(bootstrap: str, query: Query) -> None:
    """The topic is compacted: what is read at a start does not grow with the life of a query."""
    from tidelog import ConfigResource

    query.commit(0, query.tasks(0))
    with Admin(bootstrap_servers=bootstrap) as admin:
        place = ConfigResource("topic", query.options.decision_topic)
        configs = {config.name: config.value for config in admin.describe_configs([place])[place]}
    assert (
        configs["cleanup.policy"] == "compact"
        and configs["segment.bytes"] == decision_log.CONFIGS["segment.bytes"]
    )
