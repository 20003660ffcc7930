from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.placement import Impossible, Move, Place, balance, remove_broker, spread

NO_RACKS = dict.fromkeys((1, 2, 3))


def after(places: list[Place], moves: list[Move]) -> list[tuple[int, ...]]:
    changed = {(move.topic, move.partition): move.after for move in moves}
    return [changed.get((one.topic, one.partition), one.replicas) for one in places]


def test_what_is_even_stays() -> None:
    places = [Place("t", 0, (1, 2)), Place("t", 1, (2, 3)), Place("t", 2, (3, 1))]
    assert balance(places, NO_RACKS) == []


def test_a_new_broker_gets_its_share_and_no_more_is_moved_than_that() -> None:
    places = [Place("t", index, (1 + index % 2, 2 - index % 2), 100) for index in range(6)]
    moves = balance(places, NO_RACKS)
    held = Counter(node for replicas in after(places, moves) for node in replicas)
    assert held == {1: 4, 2: 4, 3: 4}
    assert sum(move.copied_bytes for move in moves) == 400


def test_leaders_are_balanced_by_order_alone() -> None:
    places = [Place("t", index, (1, 2, 3), 100) for index in range(6)]
    moves = balance(places, NO_RACKS)
    assert Counter(replicas[0] for replicas in after(places, moves)) == {1: 2, 2: 2, 3: 2}
    assert sum(move.copied_bytes for move in moves) == 0


def test_a_broker_that_goes_holds_nothing_afterwards() -> None:
    places = [Place("t", index, (1 + index % 3, 1 + (index + 1) % 3)) for index in range(6)]
    moves = remove_broker(places, 2, NO_RACKS)
    assert all(set(replicas) == {1, 3} for replicas in after(places, moves))
    with pytest.raises(Impossible, match="2 brokers would be left"):
        remove_broker([Place("t", 0, (1, 2, 3))], 2, NO_RACKS)


def test_onto_these_brokers_only() -> None:
    moves = spread([Place("t", 0, (1, 2))], [2, 3], NO_RACKS)
    assert set(moves[0].after) == {2, 3}
    with pytest.raises(Impossible, match="broker 9 is not running"):
        spread([Place("t", 0, (1, 2))], [2, 9], NO_RACKS)


BROKERS = st.dictionaries(st.integers(1, 6), st.none() | st.sampled_from("abc"), min_size=3)


@given(BROKERS, st.lists(st.lists(st.integers(1, 8), unique=True, min_size=1, max_size=3), max_size=30))
def test_every_plan_is_even_and_as_safe_as_racks_allow(
    racks: dict[int, str | None], replicas: list[list[int]]
) -> None:
    places = [Place("t", index, tuple(nodes), 10) for index, nodes in enumerate(replicas)]
    moves = balance(places, racks)
    result = after(places, moves)
    for before, now in zip(replicas, result, strict=True):
        assert len(now) == len(set(now)) == len(before)
        assert set(now) <= set(racks)
    if len(set(racks.values())) == 1:
        held = Counter(dict.fromkeys(racks, 0))
        held.update(node for nodes in result for node in nodes)
        if result:
            assert max(held.values()) - min(held.values()) <= 1
    rackful = [node for node in racks if racks[node] is not None]
    if len(rackful) == len(racks):
        for nodes in result:
            used = [racks[node] for node in nodes]
            assert len(set(used)) == min(len(nodes), len(set(racks.values()))), (
                "as many racks as there can be"
            )
    again = [Place("t", index, nodes, 10) for index, nodes in enumerate(result)]
    assert balance(again, racks) == [], "a plan that was carried out leaves nothing to do"
