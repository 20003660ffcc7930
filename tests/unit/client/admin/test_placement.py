from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.admin.placement import (
    PlacedPartition,
    PlacementImpossible,
    ReplicaMove,
    balance,
    remove_broker,
    spread,
)

NO_RACKS = dict.fromkeys((1, 2, 3))


def after(places: list[PlacedPartition], moves: list[ReplicaMove]) -> list[tuple[int, ...]]:
    changed = {(move.topic, move.partition): move.after for move in moves}
    return [changed.get((place.topic, place.partition), place.replicas) for place in places]


def test_what_is_even_stays() -> None:
    places = [
        PlacedPartition("t", 0, (1, 2)),
        PlacedPartition("t", 1, (2, 3)),
        PlacedPartition("t", 2, (3, 1)),
    ]
    assert balance(places, NO_RACKS) == []


def test_a_new_broker_gets_its_share_and_no_more_is_moved_than_that() -> None:
    places = [PlacedPartition("t", index, (1 + index % 2, 2 - index % 2), 100) for index in range(6)]
    moves = balance(places, NO_RACKS)
    held = Counter(node for replicas in after(places, moves) for node in replicas)
    assert held == {1: 4, 2: 4, 3: 4}
    assert sum(move.copied_bytes or 0 for move in moves) == 400


def test_leaders_are_balanced_by_order_alone() -> None:
    places = [PlacedPartition("t", index, (1, 2, 3), 100) for index in range(6)]
    moves = balance(places, NO_RACKS)
    assert Counter(replicas[0] for replicas in after(places, moves)) == {1: 2, 2: 2, 3: 2}
    assert sum(move.copied_bytes or 0 for move in moves) == 0


def test_a_broker_that_goes_holds_nothing_afterwards() -> None:
    places = [PlacedPartition("t", index, (1 + index % 3, 1 + (index + 1) % 3)) for index in range(6)]
    moves = remove_broker(places, 2, NO_RACKS)
    assert all(set(replicas) == {1, 3} for replicas in after(places, moves))
    with pytest.raises(PlacementImpossible, match="2 brokers would be left"):
        remove_broker([PlacedPartition("t", 0, (1, 2, 3))], 2, NO_RACKS)


def test_a_broker_that_goes_costs_what_it_held_and_no_more() -> None:
    large = [PlacedPartition("big", index, (1,), 1 << 40) for index in range(3)]
    places = [*large, PlacedPartition("small", 0, (4,), 5)]
    (move,) = remove_broker(places, 4, dict.fromkeys((1, 2, 3, 4)))
    assert (move.topic, move.after, move.copied_bytes) == ("small", (2,), 5)


def test_no_broker_of_that_number_changes_nothing() -> None:
    places = [PlacedPartition("t", 0, (1, 2)), PlacedPartition("t", 1, (1, 2))]
    with pytest.raises(
        PlacementImpossible, match="broker 9 is not running and holds no replica: there are 1, 2, 3"
    ):
        remove_broker(places, 9, NO_RACKS)
    assert remove_broker(places, 3, NO_RACKS) == []
    moved = remove_broker([PlacedPartition("t", 0, (9, 2))], 9, NO_RACKS)
    assert [set(move.after) for move in moved] == [{1, 2}], "one that is down for good can be emptied"


def test_replicas_on_another_broker_that_is_down_stay_there() -> None:
    (move,) = remove_broker([PlacedPartition("t", 0, (3, 7, 1))], 3, NO_RACKS)
    assert set(move.after) == {1, 2, 7}
    assert move.after[0] != 7, "it cannot lead"


def test_the_smallest_go_to_a_new_broker() -> None:
    sizes = (1 << 40, 5, 1 << 40, 5, 5, 1 << 40)
    places = [PlacedPartition("t", index, (1,), size) for index, size in enumerate(sizes)]
    assert sum(move.copied_bytes or 0 for move in balance(places, dict.fromkeys((1, 2)))) == 15


def test_racks_that_forbid_the_straight_way_do_not_forbid_balance() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    # What is left on 2 may go to 1 alone: the other replica is in rack b.  So 1 takes it, and gives what it has to 4.
    replicas = [(1,), (3,), (4, 2), (2, 3), (3, 2)]
    places = [PlacedPartition("t", index, nodes) for index, nodes in enumerate(replicas)]
    held = Counter(node for replicas in after(places, balance(places, racks)) for node in replicas)
    assert held == {1: 2, 2: 2, 3: 2, 4: 2}


def test_onto_these_brokers_only() -> None:
    moves = spread([PlacedPartition("t", 0, (1, 2))], [2, 3], NO_RACKS)
    assert set(moves[0].after) == {2, 3}
    with pytest.raises(PlacementImpossible, match="broker 9 is not running"):
        spread([PlacedPartition("t", 0, (1, 2))], [2, 9], NO_RACKS)


BROKERS = st.dictionaries(st.integers(1, 6), st.none() | st.sampled_from("abc"), min_size=3)


REPLICAS = st.lists(st.lists(st.integers(1, 8), unique=True, min_size=1, max_size=3), max_size=30)


@given(BROKERS, REPLICAS, st.integers(1, 8), st.randoms(use_true_random=False))
def test_only_what_the_leaving_broker_had_moves(
    racks: dict[int, str | None], replicas: list[list[int]], leaving: int, random: Random
) -> None:
    places = [
        PlacedPartition("t", index, tuple(nodes), random.choice((0, 5, 99)))
        for index, nodes in enumerate(replicas)
    ]
    try:
        moves = remove_broker(places, leaving, racks)
    except PlacementImpossible:
        nowhere = any(set(racks) <= {leaving, *nodes} for nodes in replicas if leaving in nodes)
        assert nowhere or leaving not in {*racks, *(node for nodes in replicas for node in nodes)}
        return
    assert [move.partition for move in moves] == [n for n, nodes in enumerate(replicas) if leaving in nodes]
    for move in moves:
        (new,) = set(move.after) - set(move.before)
        assert new in racks and new != leaving
        assert set(move.after) == {new, *move.before} - {leaving} and len(move.after) == len(move.before)
        assert move.copied_bytes == move.size
        if move.before[0] != leaving:
            assert move.after[0] == move.before[0], "who leads goes on leading"
        stay = {racks.get(node) for node in move.before if node != leaving} - {None}
        if racks[new] in stay:
            others = set(racks) - set(move.after) - {leaving}
            assert all(racks[node] in stay for node in others), "a rack of its own where there is one"


@given(BROKERS, REPLICAS)
def test_every_plan_is_even_and_as_safe_as_racks_allow(
    racks: dict[int, str | None], replicas: list[list[int]]
) -> None:
    places = [PlacedPartition("t", index, tuple(nodes), 10) for index, nodes in enumerate(replicas)]
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
    again = [PlacedPartition("t", index, nodes, 10) for index, nodes in enumerate(result)]
    assert balance(again, racks) == [], "a plan that was carried out leaves nothing to do"
