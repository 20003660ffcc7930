"""Requests at random, most of them mutilated, to a running broker over many connections, in pieces of any size: the
process lives, its neighbours are answered, its memory stays bounded, and its log tells of no bug."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from pathlib import Path
from random import Random

import pytest

from tests.conformance.batches import batch
from tests.conformance.raw import Connection
from tests.conformance.topics import append, create_topic, describe, values
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import BrokerFactory
from tests.property.broker.requests import SERVED, Known, bent, bent_frame, frame

MIB = 1 << 20
NEIGHBOUR = "neighbours-own"
TOPICS = {"orders": {}, "keyed": {"cleanup.policy": "compact"}, "synced": {"flush.messages": "1"}}
# The requests at random change settings of the whole broker too.
OWN_SETTINGS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1000000",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.ms": "-1",
}
CONNECTIONS = 8


class Fuzzer:
    """Clients that send anything and read what comes back without looking at it."""

    def __init__(self, broker: FaultyBroker, random: Random, known: Known) -> None:
        self.broker = broker
        self.random = random
        self.known = known
        self.sent = 0

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        clients = [self._connected() for _ in range(CONNECTIONS)]
        while time.monotonic() < until:
            number = self.random.randrange(CONNECTIONS)
            if not self._step(clients[number]):
                self._leave(clients[number])
                clients[number] = self._connected()
        for each in clients:
            self._leave(each)

    def _connected(self) -> socket.socket:
        made = socket.create_connection((self.broker.host, self.broker.port))
        made.setblocking(False)
        return made

    def _leave(self, client: socket.socket) -> None:
        if self.random.random() < 0.3:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.close()

    def _step(self, client: socket.socket) -> bool:
        """One request, in pieces; false when the connection is of no use any more."""
        data = self._request()
        at = 0
        try:
            while at < len(data):
                piece = self.random.choice([len(data), len(data), 1, 3, 4, 5, 100])
                at += client.send(data[at : at + piece])
            self.sent += 1
            if select.select([client], [], [], self.random.choice([0.0, 0.001]))[0]:
                return client.recv(MIB) != b""
        except OSError:
            return False  # closed by the broker, or it has enough of this client for now
        return True

    def _request(self) -> bytes:
        random = self.random
        data = frame(random, *random.choice(SERVED), self.known)
        if random.random() < 0.7:
            data = bent_frame(random, data)
        whole = struct.pack(">i", len(data)) + data
        kind = random.random()
        if kind < 0.03:
            return bent(random, whole)  # its length too
        if kind < 0.05:
            return random.randbytes(random.choice([1, 4, 50, 5000]))
        return whole


@pytest.fixture
def broker(new_broker: BrokerFactory, tmp_path: Path) -> FaultyBroker:
    made = new_broker({"auto.create.topics.enable": "false"}, dirs=[tmp_path / "one", tmp_path / "two"])
    made.start()
    create_topic(made.bootstrap, NEIGHBOUR, 1, OWN_SETTINGS)
    return made


def restored(connection: Connection, broker: FaultyBroker) -> Known:
    """The topics that the requests are about, made again where some of them were deleted."""
    wanted = [
        {
            "name": name,
            "num_partitions": 2,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in config.items()],
        }
        for name, config in TOPICS.items()
    ]
    answer = connection.call("create_topics", 7, topics=wanted, timeout=10_000)
    assert {topic.error_code.name for topic in answer.topics} <= {"none", "topic_already_exists"}
    ids = [describe(connection, name).topic_id for name in TOPICS]
    return Known(list(TOPICS), ids, [str(path) for path in broker.folders])


def fuzz(broker: FaultyBroker, seed: int, seconds: float) -> None:
    random = Random(seed)
    print(f"seed {seed}")
    number = 0
    with Connection(broker.bootstrap) as neighbour:
        append(neighbour, NEIGHBOUR, batch([b"%d" % number]))
        before = broker.resident_bytes()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            fuzzer = Fuzzer(broker, random, restored(neighbour, broker))
            fuzzer.run(min(2.0, seconds))
            assert fuzzer.sent > 50
            number += 1
            assert append(neighbour, NEIGHBOUR, batch([b"%d" % number])) == number
        assert values(neighbour, NEIGHBOUR) == [b"%d" % each for each in range(number + 1)]
        grown = broker.resident_bytes() - before
        assert grown < 150 * MIB, f"{grown >> 20} MiB more"
    assert broker.alive()
    assert not broker.unexpected(), broker.unexpected()[0]
    broker.stop()


def test_a_broker_survives_requests_at_random(broker: FaultyBroker) -> None:
    fuzz(broker, int.from_bytes(os.urandom(4)), 8)


@pytest.mark.deep
@pytest.mark.parametrize("number", range(10))
def test_a_broker_survives_requests_at_random_for_longer(number: int, broker: FaultyBroker) -> None:
    fuzz(broker, int.from_bytes(os.urandom(4)), 60)
