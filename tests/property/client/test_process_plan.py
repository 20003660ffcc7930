"""Processing many records at a time, with crashes: whatever the order in which work ends, nothing is committed
above something unfinished, and each key's records begin in order, one at a time."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog._speed.client.consumed import Record
from tidelog.client.consumer.processing.plan import Order, ProcessingPlan
from tidelog.types import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition: int, offset: int, key: bytes | None = None) -> Record:
    return Record("t", partition, offset, 0, "create", key, b"")


keys = st.none() | st.sampled_from([b"a", b"b", b"c"])
logs = st.tuples(st.lists(keys, max_size=30), st.lists(keys, max_size=30))


def lane(one: Record, order: Order) -> Hashable:
    if order == "key":
        return (one.partition, one.key if one.key is not None else one.offset)
    return one.partition if order == "partition" else (one.partition, one.offset)


class Run:
    """From one start to the crash: takes in records after `starts`, up to `workers` running."""

    def __init__(self, log: list[list[Record]], starts: dict[TopicPartition, int], order: Order) -> None:
        self.plan = ProcessingPlan(order)
        self.order = order
        self.left = [log[p][starts.get(TopicPartition("t", p), 0) :] for p in range(2)]
        self.running: list[Record] = []
        self.began: dict[Hashable, list[int]] = {}
        self.done: set[tuple[int, int]] = set()

    def step(self, random: Random, workers: int) -> None:
        what = random.randrange(3)
        if what == 0:
            for partition in range(2):
                count = random.randrange(4)
                self.plan.add(self.left[partition][:count])
                self.left[partition] = self.left[partition][count:]
        elif what == 1 and len(self.running) < workers:
            one = self.plan.next()
            if one is not None:
                assert lane(one, self.order) not in [lane(other, self.order) for other in self.running]
                self.began.setdefault(lane(one, self.order), []).append(one.offset)
                self.running.append(one)
        elif self.running:
            one = self.running.pop(random.randrange(len(self.running)))
            self.plan.finished(one)
            self.done.add((one.partition, one.offset))
        assert self.plan.running == len(self.running)


@given(logs, st.sampled_from(["key", "partition", "none"]), st.integers(1, 5), st.integers(0, 2**32))
def test_everything_is_done_in_order_and_nothing_is_committed_too_early(
    contents: tuple[list[bytes | None], list[bytes | None]], order: Order, workers: int, seed: int
) -> None:
    random = Random(seed)
    log = [[record(p, offset, key) for offset, key in enumerate(contents[p])] for p in range(2)]
    committed: dict[TopicPartition, int] = {}
    processed: set[tuple[int, int]] = set()
    for crash in range(4):
        run = Run(log, committed, order)
        steps = random.randrange(60) if crash < 3 else 10_000
        for _ in range(steps):
            run.step(random, workers)
            if random.random() < 0.2:
                committed.update(run.plan.done_to())
                for where, end in committed.items():
                    # Below what is committed everything was processed, in this run or before.
                    assert {(where.partition, at) for at in range(end)} <= processed | run.done
            if not run.plan.unfinished and not any(run.left):
                break
        for offsets in run.began.values():
            assert offsets == sorted(set(offsets))
        processed |= run.done
    assert processed == {(p, at) for p in range(2) for at in range(len(log[p]))}


@given(logs, st.integers(0, 2**32), st.integers(0, 40))
def test_partitions_that_go_away_leave_nothing_behind(
    contents: tuple[list[bytes | None], list[bytes | None]], seed: int, steps: int
) -> None:
    random = Random(seed)
    log = [[record(p, offset, key) for offset, key in enumerate(contents[p])] for p in range(2)]
    run = Run(log, {}, "key")
    for _ in range(steps):
        run.step(random, 3)
    before = run.plan.done_to()
    run.plan.withhold([ZERO])
    assert run.plan.done_to() == before
    while run.plan.is_running([ZERO]):
        (one, *_) = [one for one in run.running if one.partition == 0]
        run.running.remove(one)
        run.plan.finished(one)
    run.plan.drop([ZERO])
    assert ZERO not in run.plan.done_to()
    run.left[0] = []
    while run.plan.unfinished or any(run.left):
        run.step(random, 3)
    assert run.plan.done_to() == ({ONE: len(log[1])} if log[1] else {})


def test_a_result_that_comes_after_its_partition_went_counts_for_nothing() -> None:
    plan = ProcessingPlan("key")
    plan.add([record(0, 0, b"a"), record(0, 1, b"a")])
    one = plan.next()
    assert one is not None
    plan.drop([ZERO])
    plan.finished(one)
    assert plan.done_to() == {} and plan.unfinished == 0
    again = [record(0, 0, b"a")]
    plan.add(again)
    plan.finished(one)
    assert plan.next() is again[0] and plan.done_to() == {ZERO: 0}


def test_a_wrong_order_is_refused() -> None:
    wrong: Any = "keys"
    with pytest.raises(ValueError, match="order cannot be 'keys'"):
        ProcessingPlan(wrong)
