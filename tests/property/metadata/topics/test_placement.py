"""Where replicas go: spread over brokers and racks, whatever their number."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.metadata.image.image import BrokerImage
from tidelog.metadata.records import Endpoint
from tidelog.metadata.topics.placement import place, replicas_max
from tidelog.types import NodeId


def broker(node: int, rack: str | None) -> BrokerImage:
    return BrokerImage(NodeId(node), 1, (Endpoint("PLAINTEXT", "h", 1),), rack, False)


@st.composite
def wishes(draw: st.DrawFn, racks: st.SearchStrategy[str | None]) -> tuple[list[BrokerImage], int, int, int]:
    nodes = draw(st.lists(st.integers(0, 100), min_size=1, max_size=9, unique=True))
    brokers = [broker(node, draw(racks)) for node in nodes]
    replication = draw(st.integers(1, len(brokers)))
    return brokers, draw(st.integers(1, 40)), replication, draw(st.integers(0, 1000))


def spread(counts: Counter[NodeId], brokers: list[BrokerImage]) -> int:
    held = [counts[broker.node_id] for broker in brokers]
    return max(held) - min(held)


@settings(deadline=None)
@given(wishes(st.none()))
def test_without_racks_leaders_and_replicas_are_even(wish: tuple[list[BrokerImage], int, int, int]) -> None:
    brokers, count, replication, start = wish
    placed = place(brokers, count, replication, start)
    assert len(placed) == count
    assert all(len(set(replicas)) == len(replicas) == replication for replicas in placed)
    assert spread(Counter(replicas[0] for replicas in placed), brokers) <= 1
    assert spread(Counter(node for replicas in placed for node in replicas), brokers) <= 2


@settings(deadline=None)
@given(wishes(st.sampled_from(["a", "b", "c"])))
def test_a_partition_is_in_as_many_racks_as_there_can_be(
    wish: tuple[list[BrokerImage], int, int, int],
) -> None:
    brokers, count, replication, start = wish
    rack_of = {broker.node_id: broker.rack for broker in brokers}
    for replicas in place(brokers, count, replication, start):
        assert len(set(replicas)) == replication
        racks = {rack_of[node] for node in replicas}
        assert len(racks) == min(replication, len(set(rack_of.values())))


@settings(deadline=None)
@given(
    racks=st.integers(1, 4),
    per_rack=st.integers(1, 3),
    count=st.integers(1, 40),
    replication=st.integers(1, 4),
    start=st.integers(0, 1000),
)
def test_equal_racks_share_evenly(
    racks: int, per_rack: int, count: int, replication: int, start: int
) -> None:
    brokers = [broker(number, f"rack-{number % racks}") for number in range(racks * per_rack)]
    placed = place(brokers, count, min(replication, len(brokers)), start)
    assert spread(Counter(replicas[0] for replicas in placed), brokers) <= 1
    assert spread(Counter(node for replicas in placed for node in replicas), brokers) <= 2


@settings(deadline=None)
@given(wishes(st.none()), st.lists(st.sampled_from(["x", "y", "z", None]), min_size=9, max_size=9))
def test_no_machine_has_two_replicas_and_each_machine_can_have_one(
    wish: tuple[list[BrokerImage], int, int, int], machines: list[str | None]
) -> None:
    given_brokers, count, _, start = wish
    brokers = [one._replace(machine=name) for one, name in zip(given_brokers, machines, strict=False)]
    place_of = {one.node_id: one.place for one in brokers}
    replication = replicas_max(brokers)
    for replicas in place(brokers, count, replication, start):
        assert len({place_of[node] for node in replicas}) == replication == len(replicas)


@settings(deadline=None)
@given(wishes(st.none() | st.sampled_from(["a", "b"])))
def test_the_same_wish_gives_the_same_placement(wish: tuple[list[BrokerImage], int, int, int]) -> None:
    brokers, count, replication, start = wish
    assert place(brokers, count, replication, start) == place(brokers[::-1], count, replication, start)
