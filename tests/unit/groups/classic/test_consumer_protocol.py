from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.classic.consumer_protocol import assigned, owned, topics_of
from tidelog.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tidelog.wire.messages.consumer_protocol_assignment import TopicPartition as Assigned
from tidelog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.wire.messages.consumer_protocol_subscription import TopicPartition as Owned


def version(number: int) -> bytes:
    return number.to_bytes(2, "big")


def test_every_version_tells_its_topics_and_what_is_owned() -> None:
    for number in range(4):
        has = [Owned("a", [0, 2])] if number >= 1 else []
        subscription = ConsumerProtocolSubscription(["a", "b"], b"data", has)
        data = version(number) + subscription.encode(number)
        assert topics_of(data) == ["a", "b"]
        assert owned(data) == ({("a", 0), ("a", 2)} if number >= 1 else set())


def test_a_version_of_the_future_is_read_as_the_last_one_known() -> None:
    subscription = ConsumerProtocolSubscription(["a"], None, [Owned("a", [1])])
    assert owned(version(9) + subscription.encode(3) + b"more") == {("a", 1)}
    given = ConsumerProtocolAssignment([Assigned("a", [1, 2])])
    assert assigned(version(9) + given.encode(1) + b"more") == {("a", 1), ("a", 2)}


@given(st.binary(max_size=40))
def test_what_cannot_be_read_says_nothing(data: bytes) -> None:
    topics_of(data)
    owned(data)
    assigned(data)
    assert owned(b"\x00") == assigned(b"") == assigned(b"\x00\x00\xff") == set()
    assert topics_of(b"") is None
