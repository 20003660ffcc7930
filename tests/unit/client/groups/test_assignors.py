from __future__ import annotations

import pytest

from tidelog.client.groups.assignor_data import (
    pack_cooperative,
    pack_sticky,
    unpack_cooperative,
    unpack_sticky,
)
from tidelog.client.groups.assignors import ASSIGNORS, Assignment, Subscriber, assignors_of, is_cooperative
from tidelog.client.groups.consumer_protocol import (
    pack_assignment,
    pack_subscription,
    unpack_assignment,
    unpack_subscription,
)
from tidelog.types import TopicPartition


def tp(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


def given(assignment: Assignment) -> dict[str, str]:
    return {member: " ".join(map(str, have)) for member, have in assignment.items()}


def test_range_gives_each_member_a_run_of_every_topic() -> None:
    members = [Subscriber("b", ("t", "u")), Subscriber("a", ("t", "u"))]
    assert given(ASSIGNORS["range"]().assign({"t": 3, "u": 3}, members)) == {
        "a": "t-0 t-1 u-0 u-1",
        "b": "t-2 u-2",
    }


def test_range_puts_static_members_in_an_order_that_a_restart_does_not_change() -> None:
    members = [Subscriber("zz", ("t",), instance_id="1"), Subscriber("aa", ("t",), instance_id="2")]
    assert given(ASSIGNORS["range"]().assign({"t": 2}, members)) == {"zz": "t-0", "aa": "t-1"}


def test_round_robin_deals_out_all_topics_in_turn_to_those_who_want_them() -> None:
    members = [Subscriber("a", ("t", "u")), Subscriber("b", ("t",)), Subscriber("c", ("nothing",))]
    assert given(ASSIGNORS["roundrobin"]().assign({"t": 3, "u": 2}, members)) == {
        "a": "t-0 t-2 u-0 u-1",
        "b": "t-1",
        "c": "",
    }


def test_sticky_moves_only_what_it_must() -> None:
    owned = (tp("t-0"), tp("t-1"), tp("t-2"), tp("t-3"))
    members = [Subscriber("a", ("t",), user_data=pack_sticky(owned, 4)), Subscriber("b", ("t",))]
    assigned = given(ASSIGNORS["sticky"]().assign({"t": 4}, members))
    assert set(assigned["a"].split()) < {"t-0", "t-1", "t-2", "t-3"}
    assert len(assigned["a"].split()) == len(assigned["b"].split()) == 2


def test_of_two_claims_the_later_generation_counts() -> None:
    members = [
        Subscriber("a", ("t",), user_data=pack_sticky((tp("t-0"),), 3)),
        Subscriber("b", ("t",), user_data=pack_sticky((tp("t-0"), tp("t-1")), 4)),
    ]
    assert given(ASSIGNORS["sticky"]().assign({"t": 3}, members)) == {"a": "t-2", "b": "t-0 t-1"}


def test_cooperative_sticky_takes_away_first_and_gives_in_the_next_round() -> None:
    owned = tuple(tp(f"t-{at}") for at in range(4))
    assignor = ASSIGNORS["cooperative-sticky"]()
    first = assignor.assign({"t": 4}, [Subscriber("a", ("t",), owned, 1), Subscriber("b", ("t",))])
    assert len(first["a"]) == 2 and first["b"] == []
    second = assignor.assign(
        {"t": 4}, [Subscriber("a", ("t",), tuple(first["a"]), 2), Subscriber("b", ("t",), (), 2)]
    )
    assert second["a"] == first["a"]
    assert sorted(second["a"] + second["b"]) == list(owned)


def test_the_user_data_are_kafkas() -> None:
    # As Apache Kafka 4.3.1's assignors write them.
    data = pack_sticky((tp("orders-0"), tp("orders-2")), 7)
    assert data.hex() == "000000010006" + b"orders".hex() + "000000020000000000000002" + "00000007"
    assert unpack_sticky(data) == ([tp("orders-0"), tp("orders-2")], 7)
    assert unpack_sticky(data[:-4]) == ([tp("orders-0"), tp("orders-2")], -1)
    assert pack_cooperative(7).hex() == "00000007"
    assert unpack_cooperative(pack_cooperative(7)) == 7


@pytest.mark.parametrize("data", [None, b"", b"\0", b"\x7f\xff\xff\xff", b"\0\0\0\1\0\5ab", b"\xff" * 9])
def test_user_data_that_cannot_be_read_count_as_none(data: bytes | None) -> None:
    assert unpack_sticky(data) == ([], -1)


def test_subscriptions_and_assignments_survive_the_way() -> None:
    owned = (tp("t-1"), tp("t-3"), tp("u-0"))
    packed = pack_subscription(("t", "u"), b"data", owned, 5, "east")
    assert unpack_subscription("m", "i", packed) == Subscriber(
        "m", ("t", "u"), owned, 5, b"data", instance_id="i", rack="east"
    )
    assert unpack_assignment(pack_assignment(owned)) == list(owned)
    assert unpack_assignment(b"") == []


def test_a_newer_subscription_with_more_at_its_end_is_read() -> None:
    packed = bytearray(pack_subscription(("t",), None, (), 5, None))
    packed[:2] = b"\0\x09"
    assert unpack_subscription("m", None, bytes(packed) + b"more").topics == ("t",)


def test_strategies_by_name_or_of_ones_own() -> None:
    class Mine:
        name = "mine"
        cooperative = True

        def user_data(self, owned: object, generation: int) -> bytes | None:
            return None

        def assign(self, partitions: object, members: object) -> Assignment:
            return {}

    mine = Mine()
    assert [assignor.name for assignor in assignors_of(["sticky", mine])] == ["sticky", "mine"]
    assert assignors_of(mine) == (mine,)
    assert [assignor.name for assignor in assignors_of("range")] == ["range"]
    with pytest.raises(ValueError, match="cannot be 'stiky': use range, roundrobin"):
        assignors_of("stiky")
    with pytest.raises(ValueError, match="empty"):
        assignors_of([])


def test_a_member_is_cooperative_only_when_all_its_assignors_are() -> None:
    assert is_cooperative(assignors_of("cooperative-sticky"))
    assert not is_cooperative(assignors_of(["cooperative-sticky", "range"]))
