"""The native table of followers against dictionaries and sets, and the partitions that are told apart by it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.replica_state import ReferenceReplicaState
from tests.reference.unchanged_partitions import split_unchanged as split_by_reference
from tests.unit.storage.making import fill, make_volume
from tidelog._speed.log.replica_state import NativeReplicaState
from tidelog._speed.wire.unchanged_partitions import split_unchanged
from tidelog.config import TopicConfig
from tidelog.replication.partition import HostedPartition
from tidelog.storage.log import Log
from tidelog.types import Epoch, NodeId, Offset, TopicPartition

NODES = range(1, 5)

nodes = st.sampled_from(NODES)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("appended"), st.integers(0, 9)),
        st.tuples(st.just("follower_fetched"), nodes, st.integers(-9, 3)),
        st.tuples(st.just("count"), st.frozensets(nodes), st.booleans()),
        st.tuples(st.just("is_lagging"), nodes, st.integers(0, 20)),
        st.tuples(st.just("time"), st.integers(0, 20)),
        st.tuples(st.sampled_from(["forget_followers", "stop_leading"])),
        st.tuples(st.just("cut"), st.integers(0, 9)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(steps=steps)
def test_the_native_state_is_the_references(steps: list[tuple[Any, ...]]) -> None:
    native, reference = NativeReplicaState(), ReferenceReplicaState(1, 0, 5)
    native.node, native.committed, native.end = 1, 0, 5
    now_ms = 100
    for what, *values in steps:
        if what == "appended":
            arguments: tuple[Any, ...] = (reference.end + values[0],)
        elif what == "follower_fetched":
            node, step = values
            arguments = (
                node,
                min(max(reference.ends.get(node, reference.end) + step, 0), reference.end),
                now_ms,
            )
        elif what == "is_lagging":
            arguments = values[0], now_ms, values[1]
        elif what == "time":
            now_ms += values[0]
            continue
        elif what == "cut":
            native.end = reference.end = max(reference.end - values[0], reference.committed)
            continue
        else:
            arguments = tuple(values)
        assert getattr(native, what)(*arguments) == getattr(reference, what)(*arguments)
        assert facts(native, now_ms) == facts(reference, now_ms)


def facts(state: Any, now_ms: int) -> list[Any]:
    of_followers = [(state.follower_end(node), state.behind_ms(node, now_ms)) for node in NODES]
    return [state.committed, state.end, state.enough_members, state.is_alone, of_followers]


def test_followers_that_nobody_counts_are_bounded() -> None:
    state = NativeReplicaState()
    state.node, state.end = 1, 10
    state.count(frozenset((1, 2)), True)
    state.follower_fetched(2, 7, 0)
    for node in range(100, 10_000):
        state.follower_fetched(node, 10, node)
    assert state.follower_end(2) == state.committed == 7
    assert sum(state.follower_end(node) is not None for node in range(100, 10_000)) < 100


@pytest.mark.parametrize("seed", range(40))
def test_unchanged_partitions_are_the_references(seed: int) -> None:
    random = Random(seed)
    twins = [[partition(index) for index in range(8)] for _ in range(2)]
    for index in range(8):
        epoch = Epoch(random.randrange(2))
        in_sync = frozenset(map(NodeId, random.choice([(1, 2), (1, 2), (1, 2, 3), (1,)])))
        leader = NodeId(random.choice([1, 1, 1, 2]))
        fetched = random.choice([None, 0, 3, 3, 3])
        for twin in twins:
            twin[index].led(leader, epoch, in_sync, 3)
            if fetched is not None:
                twin[index].state.follower_fetched(NodeId(2), Offset(fetched), 5)
    wanted = {
        ("t", index): (random.randrange(2), random.choice([0, 3, 3, 3]), -1, 0, 100)
        for index in random.sample(range(10), 9)
    }
    told = {key: (random.choice([0, 3, 3]), 0) for key in wanted if random.random() < 0.9}
    results = []
    for split, twin in zip((split_unchanged, split_by_reference), twins, strict=True):
        held: dict[Any, Any] = {("t", each.index): each for each in twin}
        unchanged: list[Any] = []
        changed = split(held, wanted, told, 2, 1, 99, unchanged)
        indexes = [each.index for each in unchanged]
        for each in twin:
            each.state.appended(Offset(4))
        results.append((changed, indexes, [each.state.behind_ms(NodeId(2), 200) for each in twin]))
    assert results[0] == results[1]


def partition(index: int) -> HostedPartition:
    """With three records."""
    name = TopicPartition("t", index)
    log = Log.open(make_volume(), f"/data/t-{index}", name, TopicConfig())
    fill(log, 3)
    return HostedPartition(name, bytes(16), NodeId(1), log)
