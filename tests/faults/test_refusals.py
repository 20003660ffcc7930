"""Starts that cannot be: one clear line, a non-zero exit code, at once, and the data as they were."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.conformance.batches import batch
from tests.conformance.process import free_port
from tests.conformance.raw import Connection
from tests.conformance.topics import append, create_topic, values
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import BrokerFactory

CPU_SECONDS_MAX = 1.5  # a busy machine makes the clock say more


def refused(broker: FaultyBroker, *words: str) -> None:
    before = os.times()
    ended = broker.run_to_its_end()
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    assert ended.returncode not in (0, None) and ended.returncode > 0
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith(("tidelog: ", "Error: "))
    for word in words:
        assert word in lines[0]
    assert used < CPU_SECONDS_MAX


@pytest.fixture
def running(new_broker: BrokerFactory) -> FaultyBroker:
    broker = new_broker()
    broker.start()
    create_topic(broker.bootstrap, "kept", 1)
    with Connection(broker.bootstrap) as connection:
        append(connection, "kept", batch([b"x"]))
    return broker


def test_two_brokers_on_one_directory(running: FaultyBroker, new_broker: BrokerFactory) -> None:
    refused(new_broker(dirs=[running.data]), str(running.data), "another broker")
    with Connection(running.bootstrap) as connection:
        assert append(connection, "kept", batch([b"y"])) == 1


def test_two_brokers_that_share_one_of_their_directories(
    running: FaultyBroker, new_broker: BrokerFactory, tmp_path: Path
) -> None:
    refused(new_broker(dirs=[tmp_path / "own", running.data]), str(running.data), "another broker")
    with Connection(running.bootstrap) as connection:
        assert append(connection, "kept", batch([b"y"])) == 1


def test_another_id_than_the_directory_has(running: FaultyBroker, new_broker: BrokerFactory) -> None:
    running.stop()
    other = new_broker(dirs=[running.data])
    other.node = 7
    refused(other, "broker 1", "broker 7", "--id 1")
    came_back_clean(running)


def test_a_directory_of_another_cluster(running: FaultyBroker, new_broker: BrokerFactory) -> None:
    other = new_broker()
    other.start()
    other.stop()
    running.stop()
    refused(new_broker(dirs=[other.data, running.data]), str(running.data), "cluster")
    came_back_clean(running)


def test_a_port_that_is_taken(running: FaultyBroker) -> None:
    running.stop()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", running.port))
        taken.listen()
        refused(running, str(running.port))
    came_back_clean(running)


def test_an_http_port_that_is_taken(running: FaultyBroker) -> None:
    running.stop()
    port = free_port()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        running.http = f"127.0.0.1:{port}"
        refused(running, str(port))
    running.http = "127.0.0.1:0"
    came_back_clean(running)


def test_an_address_that_is_not_of_this_machine(running: FaultyBroker) -> None:
    running.stop()
    running.host = "192.0.2.1"
    refused(running, "192.0.2.1")
    running.host = "127.0.0.1"
    came_back_clean(running)


def test_a_data_directory_that_cannot_be_made(new_broker: BrokerFactory, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(new_broker(dirs=[tmp_path / "file" / "data"]), str(tmp_path / "file"))


def came_back_clean(broker: FaultyBroker) -> None:
    """The refused start has not made the next one recover anything."""
    assert (broker.data / ".clean-shutdown").exists()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert values(connection, "kept") == [b"x"]
    broker.stop()


def test_garbage_where_the_identity_should_be(running: FaultyBroker) -> None:
    running.stop()
    (running.data / "meta.properties").write_bytes(os.urandom(200))
    refused(running, "meta.properties")


def test_garbage_where_the_metadata_should_be(running: FaultyBroker) -> None:
    running.stop()
    (running.data / "metadata.sqlite").write_bytes(os.urandom(8192))
    refused(running, "metadata.sqlite")


def test_metadata_that_are_gone_do_not_take_the_records_with_them(running: FaultyBroker) -> None:
    running.stop()
    for path in running.data.glob("metadata.sqlite*"):
        path.unlink()
    refused(running, "cluster")
    assert (running.data / "kept-0" / "00000000000000000000.log").stat().st_size > 0
