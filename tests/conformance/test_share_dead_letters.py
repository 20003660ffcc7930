"""Dead letters: Tidelog's own setting of share groups, so these tests do not run on Apache Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.batches import Record, batch
from tests.conformance.clients import confluent_consume
from tests.conformance.conftest import ON_KAFKA, BrokerFactory
from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.raw import Connection
from tests.conformance.share_client import (
    ACCEPT,
    REJECT,
    RELEASE,
    SHARE_SETTINGS,
    ShareMember,
    acknowledge_codes,
    acquired,
    set_group,
)
from tests.conformance.topics import append, create_topic
from tidelog.wire.messages import describe_share_group_offsets as offsets

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no dead letters yet")

PREFIX = "tidelog.dead.letter."
Queue = tuple[str, str, str]


@pytest.fixture
def queue(share_broker: BrokerProcess, name: Callable[[], str]) -> Iterator[Queue]:
    """A topic, a group that reads it from its beginning, and where its dead letters go."""
    topic, group, letters = name(), name(), name()
    prepare(share_broker.bootstrap, topic, group, letters)
    yield topic, group, letters


def prepare(bootstrap: str, topic: str, group: str, letters: str) -> None:
    create_topic(bootstrap, topic)
    set_group(
        bootstrap,
        group,
        share_auto_offset_reset="earliest",
        share_delivery_count_limit="2",
        share_dead_letter_topic=letters,
    )


def write(bootstrap: str, topic: str, count: int) -> None:
    records = [Record(b"v%d" % i, b"k%d" % i, (("colour", b"red"),)) for i in range(count)]
    with Connection(bootstrap) as connection:
        append(connection, topic, batch(records))


def lag(member: ShareMember) -> int:
    (group,) = member.ask(
        offsets.DescribeShareGroupOffsetsRequest(
            [offsets.DescribeShareGroupOffsetsRequestGroup(member.group, None)]
        )
    ).groups
    return sum(one.lag for topic in group.topics for one in topic.partitions)


def take(member: ShareMember, part: tuple[uuid.UUID, int], begin: bool = False) -> list[tuple[int, int, int]]:
    deadline = time.monotonic() + 20
    found: list[tuple[int, int, int]] = []
    while not found:
        assert time.monotonic() < deadline
        found = acquired(member.fetch([part] if begin else []))
        begin = False
    return found


def test_rejected_records_and_those_whose_deliveries_are_used_up_are_copied(
    share_broker: BrokerProcess, queue: Queue
) -> None:
    topic, group, letters = queue
    with ShareMember(share_broker.bootstrap, group) as member:
        (part,) = member.join(topic)
        write(share_broker.bootstrap, topic, 3)
        assert take(member, part, begin=True) == [(0, 2, 1)]
        assert acknowledge_codes(member.acknowledge({part: [(0, 2, [REJECT, RELEASE, ACCEPT])]})) == [0]
        assert take(member, part) == [(1, 1, 2)]
        assert acknowledge_codes(member.acknowledge({part: [(1, 1, [RELEASE])]})) == [0]
        found = confluent_consume(share_broker.bootstrap, letters, 2)
        wait_until(lambda: lag(member) == 0, 10, "nothing is left")
        assert acquired(member.fetch(max_wait_ms=200)) == []
    assert [(one.message.key, one.message.value) for one in found] == [(b"k0", b"v0"), (b"k1", b"v1")]
    first, second = (dict(one.message.headers) for one in found)
    assert first["colour"] == second["colour"] == b"red"
    assert {name.removeprefix(PREFIX): value for name, value in first.items() if name != "timestamp"} | {
        "timestamp": b""
    } == {
        "colour": b"red",
        "topic": topic.encode(),
        "partition": b"0",
        "offset": b"0",
        "timestamp": b"",
        "group": group.encode(),
        "delivery-count": b"1",
        "reason": b"rejected",
    }
    assert (second[PREFIX + "offset"], second[PREFIX + "delivery-count"]) == (b"1", b"2")
    assert second[PREFIX + "reason"] == b"delivery count limit reached"


def test_a_dead_letter_is_kept_until_its_topic_can_be_written(
    own_broker: BrokerFactory, name: Callable[[], str]
) -> None:
    broker = own_broker({**SHARE_SETTINGS, "auto.create.topics.enable": "false"})
    topic, group, letters = name(), name(), name()
    prepare(broker.bootstrap, topic, group, letters)
    with ShareMember(broker.bootstrap, group) as member:
        (part,) = member.join(topic)
        write(broker.bootstrap, topic, 2)
        take(member, part, begin=True)
        assert acknowledge_codes(member.acknowledge({part: [(0, 1, [REJECT, ACCEPT])]})) == [0]
        wait_until(
            lambda: f"dead letter topic '{letters}' does not exist" in broker.log_tail(), 10, "it says so"
        )
        assert acquired(member.fetch(max_wait_ms=200)) == []
        assert lag(member) == 1
    broker.kill()
    broker.start()
    create_topic(broker.bootstrap, letters)
    with ShareMember(broker.bootstrap, group) as member:
        (part,) = member.join(topic)
        assert acquired(member.fetch([part], max_wait_ms=500)) == []
        found = confluent_consume(broker.bootstrap, letters, 1)
        assert (found[0].message.key, found[0].message.value) == (b"k0", b"v0")
        wait_until(lambda: lag(member) == 0, 10, "nothing is left")
