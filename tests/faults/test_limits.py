"""Too many connections, too few descriptors, clients that are slow or never read: others are served, memory and
descriptors stay bounded, and it ends when they end."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.conformance.batches import batch
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection, encode_request
from tests.conformance.topics import append, create_topic, fetch_fields, produce, read_all, values
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import SMALL, BrokerFactory

MIB = 1 << 20


@contextmanager
def sockets(broker: FaultyBroker, count: int) -> Iterator[list[socket.socket]]:
    """Connections that may be refused, or still wait to be accepted."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            each = stack.enter_context(socket.socket())
            each.setblocking(False)
            each.connect_ex((broker.host, broker.port))
            made.append(each)
        yield made


def busy_seconds(broker: FaultyBroker, seconds: float) -> float:
    before = broker.cpu_seconds()
    time.sleep(seconds)
    return broker.cpu_seconds() - before


def test_out_of_descriptors_the_broker_refuses_connections_and_goes_on(new_broker: BrokerFactory) -> None:
    broker = new_broker(SMALL, prefix=["prlimit", "--nofile=100:100", "--"])
    broker.start()
    create_topic(broker.bootstrap, "t", 4)
    with Connection(broker.bootstrap) as connection:
        with sockets(broker, 300):
            wait_until(lambda: "refusing a connection" in broker.log_text(), 20, "connections are refused")
            for number in range(200):  # with rolls, which take descriptors
                append(connection, "t", batch([b"x" * 1000]), number % 4)
            create_topic_on(connection, "made meanwhile".replace(" ", "-"))
            assert broker.descriptors() < 100
            assert busy_seconds(broker, 1) < 0.3
        wait_until(lambda: can_connect(broker), 20, "connections are taken again")
        assert sum(len(read_all(connection, "t", index)) for index in range(4)) == 200
    broker.stop()


def create_topic_on(connection: Connection, name: str) -> None:
    wanted = {"name": name, "num_partitions": 2, "replication_factor": 1}
    answer = connection.call("create_topics", 7, topics=[wanted], timeout=5000)
    assert answer.topics[0].error_code == 0
    append(connection, name, batch([b"x"]), 1)


def can_connect(broker: FaultyBroker) -> bool:
    try:
        with Connection(broker.bootstrap) as fresh:
            fresh.call("api_versions", 0)
        return True
    except (OSError, Exception):
        return False


def test_when_even_accepting_fails_the_broker_waits(new_broker: BrokerFactory) -> None:
    """The limit is lowered while it runs, as an administrator could: more is open than allowed."""
    broker = new_broker(SMALL)
    broker.start()
    create_topic(broker.bootstrap, "t", 1)
    with Connection(broker.bootstrap) as connection:
        append(connection, "t", batch([b"x"]))
        limit_descriptors(broker, broker.descriptors())
        with sockets(broker, 20):
            wait_until(lambda: "cannot accept" in broker.log_text(), 20, "accepting fails")
            assert busy_seconds(broker, 1) < 0.3
            assert len(broker.log_text().splitlines()) < 50
            assert values(connection, "t") == [b"x"]
        limit_descriptors(broker, 1000)
        wait_until(lambda: can_connect(broker), 20, "connections are taken again")
        append(connection, "t", batch([b"y"]))
    broker.stop()


def limit_descriptors(broker: FaultyBroker, count: int) -> None:
    import resource

    hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (count, hard))


@pytest.fixture
def broker(new_broker: BrokerFactory) -> FaultyBroker:
    made = new_broker()
    made.start()
    create_topic(made.bootstrap, "t", 1)
    return made


def test_a_thousand_idle_connections_cost_nothing(broker: FaultyBroker) -> None:
    with Connection(broker.bootstrap) as connection:
        append(connection, "t", batch([b"x"]))
        before = broker.resident_bytes()
        with sockets(broker, 1000):
            wait_until(lambda: broker.descriptors() > 1000, 20, "all are accepted")
            assert broker.resident_bytes() - before < 16 * MIB
            assert busy_seconds(broker, 1) < 0.1
            for _ in range(100):
                append(connection, "t", batch([b"x"]))
        wait_until(lambda: broker.descriptors() < 100, 20, "all are forgotten")


def test_a_thousand_half_sent_frames_cost_little(broker: FaultyBroker) -> None:
    """Each announces a hundred megabytes and sends next to nothing."""
    with Connection(broker.bootstrap) as connection:
        append(connection, "t", batch([b"x"]))
        before = broker.resident_bytes()
        with sockets(broker, 1000) as loris:
            wait_until(lambda: broker.descriptors() > 1000, 20, "all are accepted")
            for each in loris:
                each.send(struct.pack(">i", 100 * MIB - 1))
            for each in loris:
                each.send(b"\0\0")
            append(connection, "t", batch([b"x"]))
            assert broker.resident_bytes() - before < 160 * MIB
    assert broker.alive()


def test_a_client_that_never_reads_stalls_nobody(broker: FaultyBroker) -> None:
    with Connection(broker.bootstrap) as connection:
        for _ in range(8):
            append(connection, "t", batch([b"x" * MIB * 9]) if False else batch([b"x" * 900_000]))
        before = broker.resident_bytes()
        with ExitStack() as stack:
            deaf = [stack.enter_context(deaf_client(broker)) for _ in range(20)]
            for each in deaf:
                send_until_full(
                    each, encode_request("fetch", 12, 1, **fetch_fields("t", 0, max_bytes=MIB * 50))
                )
            for each in deaf[:5]:
                send_until_full(each, encode_request("metadata", 12, 1, topics=None))
            for _ in range(50):
                append(connection, "t", batch([b"y"]))
            assert broker.resident_bytes() - before < 50 * MIB
            assert busy_seconds(broker, 1) < 0.3
    with Connection(broker.bootstrap) as connection:
        assert append(connection, "t", batch([b"z"])) == 58


@contextmanager
def deaf_client(broker: FaultyBroker) -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect((broker.host, broker.port))
        made.setblocking(False)
        yield made


def send_until_full(client: socket.socket, request: bytes, bytes_max: int = 20 * MIB) -> None:
    """Until the broker stops reading, which it must."""
    sent, quiet = 0, 0
    while quiet < 20:
        try:
            sent += client.send(request * 100)
            quiet = 0
            assert sent < bytes_max, "the broker reads on and on"
        except BlockingIOError:
            quiet += 1
            time.sleep(0.005)


def test_large_answers_that_nobody_takes_stay_bounded(new_broker: BrokerFactory) -> None:
    """A metadata answer of a megabyte, asked for without end by clients that read nothing."""
    broker = new_broker()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        topics: list[dict[str, Any]] = [
            {"name": f"topic-{n}-" + "x" * 200, "num_partitions": 10, "replication_factor": 1}
            for n in range(200)
        ]
        answer = connection.call("create_topics", 7, topics=topics, timeout=20_000)
        assert {t.error_code.name for t in answer.topics} == {"none"}
        request = encode_request("metadata", 12, 1, topics=None)
        connection.send_bytes(request)
        size = len(connection.receive_frame())
        before = broker.resident_bytes()
        with ExitStack() as stack:
            for _ in range(10):
                send_until_full(stack.enter_context(deaf_client(broker)), request)
            grown = broker.resident_bytes() - before
            assert grown < 10 * (80 * size) + 30 * MIB
            assert grown < 200 * MIB, f"{grown >> 20} MiB for ten clients that do not read"
        assert describe_all(connection)


def describe_all(connection: Connection) -> bool:
    return len(connection.call("metadata", 12, topics=None).topics) == 200


def test_thousands_of_partitions_with_few_descriptors(new_broker: BrokerFactory) -> None:
    broker = new_broker({"tidelog.open.files.max": "64"})
    broker.start()
    count = 2000
    with Connection(broker.bootstrap) as connection:
        wanted = {"name": "many", "num_partitions": count, "replication_factor": 1}
        answer = connection.call("create_topics", 7, topics=[wanted], timeout=60_000)
        assert answer.topics[0].error_code == 0
        most = 0
        for start in range(0, count, 100):
            parts = [{"index": i, "records": batch([b"%d" % i])} for i in range(start, start + 100)]
            data = [{"name": "many", "partition_data": parts}]
            answered = connection.call("produce", 11, acks=-1, timeout=10_000, topic_data=data)
            assert {p.error_code.name for p in answered.responses[0].partition_responses} == {"none"}
            most = max(most, broker.descriptors())
        for index in range(0, count, 97):
            assert values(connection, "many", index) == [b"%d" % index]
            assert produce(connection, "many", batch([b"again"]), index).base_offset == 1
            most = max(most, broker.descriptors())
        assert most < 64 + 40
    broker.stop()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert values(connection, "many", 97 * 3) == [b"291", b"again"]
        assert broker.descriptors() < 64 + 40


ENDLESS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "fetch": (
        "fetch",
        12,
        {"session_epoch": -1, "topics": [{"topic": "t", "partitions": [{"partition": 0}] * 70_000}]},
    ),
    "forgotten": (
        "fetch",
        12,
        {"session_epoch": 0, "forgotten_topics_data": [{"topic": "t", "partitions": [0] * 70_000}]},
    ),
    "produce": (
        "produce",
        11,
        {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b""}] * 70_000}]},
    ),
    "offsets": (
        "list_offsets",
        7,
        {"topics": [{"name": "t" * 30_000, "partitions": []}] * 150},
    ),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_a_request_about_more_than_there_can_be_is_refused(case: str, broker: FaultyBroker) -> None:
    """Working through it would hold up everybody else."""
    api, version, fields = ENDLESS[case]
    request = encode_request(api, version, 1, **fields)
    with Connection(broker.bootstrap) as neighbour, Connection(broker.bootstrap) as greedy:
        before = broker.cpu_seconds()
        try:
            greedy.send_bytes(request)
        except ConnectionError:
            pass
        assert greedy.closed_by_broker()
        append(neighbour, "t", batch([b"x"]))
        assert broker.cpu_seconds() - before < 0.5
