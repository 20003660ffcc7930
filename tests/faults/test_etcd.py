"""Brokers whose metadata is in etcd: alone, several, killed and restarted, and while etcd is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.batches import batch
from tests.conformance.process import free_port, wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, values
from tests.contract.etcd import Etcd, Member
from tests.contract.etcd_access import PASSWORD, USER, certificates, give_users, make_certificates
from tests.contract.world import RealEtcd
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import BrokerFactory
from tidelog.metadata.records import broker_key
from tidelog.types import NodeId

SECONDS_MAX = 180
AWAY_SECONDS = 4


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    running = Etcd(tmp_path_factory.mktemp("etcd"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    running = Etcd(tmp_path_factory.mktemp("etcd"))
    running.start()
    yield running
    running.stop()


def url(etcd: Etcd) -> str:
    """A cluster of its own for every test."""
    return f"etcd://{','.join(etcd.endpoints)}/{uuid4().hex}"


def admin(*brokers: FaultyBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": ",".join(broker.bootstrap for broker in brokers)})


def create(client: AdminClient, name: str, partitions: int = 1) -> None:
    client.create_topics([NewTopic(name, partitions, 1)])[name].result(SECONDS_MAX)


def write(broker: FaultyBroker, topic: str, sent: list[bytes], partition: int = 0) -> None:
    failed: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for value in sent:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: error and failed.append(error)
        )
    assert producer.flush(SECONDS_MAX) == 0 and not failed, failed


def read(broker: FaultyBroker, topic: str, count: int, partition: int = 0) -> list[bytes]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(100, timeout=0.5) if not message.error()]
    consumer.close()
    return found


@pytest.mark.parametrize("end", [FaultyBroker.stop, FaultyBroker.kill])
def test_topics_and_records_are_there_after_a_restart(
    end: Callable[[FaultyBroker], None], shared: Etcd, new_broker: BrokerFactory
) -> None:
    broker = new_broker({"tidelog.metadata": url(shared)})
    broker.start()
    create(admin(broker), "kept", 3)
    sent = [b"%d" % number for number in range(100)]
    write(broker, "kept", sent, partition=2)
    end(broker)
    broker.start()
    assert read(broker, "kept", 100, partition=2) == sent
    write(broker, "kept", [b"more"], partition=2)
    assert read(broker, "kept", 101, partition=2) == [*sent, b"more"]
    assert not (broker.data / "metadata.sqlite").exists()
    broker.stop()


def test_brokers_with_one_etcd_are_a_cluster(shared: Etcd, new_broker: BrokerFactory) -> None:
    where = url(shared)
    brokers = [new_broker({"tidelog.metadata": where}) for _ in range(3)]
    for number, broker in enumerate(brokers, 1):
        broker.node = number
        broker.start()

    def members(of: FaultyBroker) -> set[tuple[int, int]]:
        with Connection(of.bootstrap) as connection:
            answer = connection.call("describe_cluster", 0)
            brokers = connection.call("metadata", 12, topics=[]).brokers
            told = {(one.broker_id, one.port) for one in answer.brokers}
            return told & {(one.node_id, one.port) for one in brokers}

    everybody = {(broker.node, broker.port) for broker in brokers}
    for broker in brokers:
        wait_until(lambda broker=broker: members(broker) == everybody, SECONDS_MAX, "all know each other")
    client = admin(brokers[1])
    create(client, "spread", 6)
    found = client.list_topics("spread", timeout=SECONDS_MAX).topics["spread"].partitions
    assert sorted(found[index].leader for index in range(6)) == [1, 1, 2, 2, 3, 3]
    for index in range(6):
        write(brokers[0], "spread", [b"%d" % index], index)
        assert read(brokers[2], "spread", 1, index) == [b"%d" % index]
    brokers[0].stop()
    wait_until(lambda: members(brokers[1]) == everybody - {(1, brokers[0].port)}, SECONDS_MAX, "1 has left")
    brokers[2].kill()
    wait_until(lambda: members(brokers[1]) == {(2, brokers[1].port)}, SECONDS_MAX, "3 is found dead")
    brokers[0].start()
    brokers[2].start()
    wait_until(lambda: members(brokers[1]) == everybody, SECONDS_MAX, "both are back")
    for index in range(6):
        assert read(brokers[1], "spread", 1, index) == [b"%d" % index]
    for broker in brokers:
        broker.stop()


def test_two_clusters_share_an_etcd_and_nothing_else(shared: Etcd, new_broker: BrokerFactory) -> None:
    one, other = new_broker({"tidelog.metadata": url(shared)}), new_broker({"tidelog.metadata": url(shared)})
    for broker in (one, other):
        broker.start()
    create(admin(one), "mine")
    assert "mine" not in admin(other).list_topics(timeout=SECONDS_MAX).topics
    for broker in (one, other):
        broker.stop()


def test_while_etcd_is_away_records_flow_and_topics_wait(own: Etcd, new_broker: BrokerFactory) -> None:
    broker = new_broker({"tidelog.metadata": url(own)})
    broker.start()
    client = admin(broker)
    create(client, "flowing")
    with Connection(broker.bootstrap) as connection:
        append(connection, "flowing", batch([b"0"]))
        own.stop()
        asked = client.create_topics([NewTopic("waiting", 1, 1)], operation_timeout=20, request_timeout=20)
        deadline, sent = time.monotonic() + AWAY_SECONDS, [b"0"]
        while time.monotonic() < deadline:
            sent.append(b"%d" % len(sent))
            append(connection, "flowing", batch([sent[-1]]))
        assert values(connection, "flowing") == sent
    assert not asked["waiting"].done()
    own.start()
    asked["waiting"].result(SECONDS_MAX)
    write(broker, "waiting", [b"here"])
    create(client, "another")
    broker.stop()


async def leader_and_revision(world: RealEtcd) -> tuple[Member, int]:
    """The leader of etcd, and the revision of the broker's registration."""
    async with world:
        entry = await world.store("test").get(broker_key(NodeId(1)))
        assert entry is not None
        return await world.leader(), entry.revision


@pytest.mark.parametrize("lose", [Member.kill, Member.freeze])
def test_a_broker_goes_on_when_the_leader_of_etcd_is_lost(
    lose: Callable[[Member], None], tmp_path: Path, new_broker: BrokerFactory
) -> None:
    etcd = Etcd(tmp_path / "three", size=3)
    etcd.start()
    world = RealEtcd(etcd)
    try:
        broker = new_broker({"tidelog.metadata": f"etcd://{','.join(etcd.endpoints)}{world.root}"})
        broker.start()
        client = admin(broker)
        create(client, "before")
        leader, revision = asyncio.run(leader_and_revision(world))
        lose(leader)
        create(client, "after")
        write(broker, "after", [b"x"])
        assert asyncio.run(leader_and_revision(world))[1] == revision, "it was never taken for dead"
        broker.stop()
    finally:
        etcd.stop()


def test_a_broker_without_its_etcd_says_so_and_ends(new_broker: BrokerFactory) -> None:
    broker = new_broker({"tidelog.metadata": f"etcd://127.0.0.1:{free_port()}"})
    done = broker.run_to_its_end(60)
    assert done.returncode == 1
    assert "etcd at 127.0.0.1" in done.stderr and "check that it runs" in done.stderr


def test_a_broker_stops_although_etcd_is_gone(own: Etcd, new_broker: BrokerFactory) -> None:
    broker = new_broker({"tidelog.metadata": url(own)})
    broker.start()
    own.stop()
    broker.stop()


def test_a_broker_shows_its_certificate_and_its_password(tmp_path: Path, new_broker: BrokerFactory) -> None:
    folder = tmp_path / "certificates"
    make_certificates(folder)
    etcd = Etcd(tmp_path, options=certificates(folder))
    etcd.start()
    world = RealEtcd(
        etcd,
        ca=(folder / "ca.pem").read_bytes(),
        cert=(folder / "client.pem").read_bytes(),
        key=(folder / "client.key").read_bytes(),
    )
    world.run(lambda _: give_users(world.client(), world.root))
    settings = {
        "tidelog.metadata": f"etcd://{etcd.endpoints[0]}{world.root}",
        "tidelog.metadata.tls.ca": str(folder / "ca.pem"),
        "tidelog.metadata.tls.cert": str(folder / "client.pem"),
        "tidelog.metadata.tls.key": str(folder / "client.key"),
        "tidelog.metadata.user": USER,
        "tidelog.metadata.password": PASSWORD,
    }
    try:
        broker = new_broker(settings)
        broker.start()
        create(admin(broker), "secret")
        broker.stop()
        stranger = new_broker({**settings, "tidelog.metadata.password": "wrong"})
        done = stranger.run_to_its_end(60)
        assert done.returncode == 1 and "check tidelog.metadata.user" in done.stderr
        assert "wrong" not in done.stderr
        missing = new_broker({**settings, "tidelog.metadata.tls.ca": str(tmp_path / "none")})
        done = missing.run_to_its_end(60)
        assert done.returncode == 1 and "tidelog.metadata.tls.ca: cannot read" in done.stderr
    finally:
        etcd.stop()
