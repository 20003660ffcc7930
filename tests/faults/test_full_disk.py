"""A disk without space: producers are told, readers go on, nothing acknowledged is lost, and it ends without a restart
once there is space again."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.conformance.batches import Record, batch
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import (
    append,
    await_leaders,
    create_topic,
    list_offset,
    produce,
    read_all,
    values,
)
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import SMALL, BrokerFactory
from tests.faults.disks import Namespace
from tests.faults.history import Writer, check

KIB = 8192
FOREVER = "9223372036854775807"


class Stage:
    """A broker whose only data directory is on a small disk, with a topic that takes most of it."""

    def __init__(self, namespace: Namespace, new_broker: BrokerFactory, folder: Path) -> None:
        self.namespace = namespace
        self.disk = folder / "disk"
        namespace.mount(self.disk, KIB)
        self.broker: FaultyBroker = new_broker(SMALL, [self.disk], namespace.prefix)
        self.broker.start()
        create_topic(self.broker.bootstrap, "large", 1)
        with Connection(self.broker.bootstrap) as connection:
            for _ in range(40):
                append(connection, "large", batch([b"x" * 50_000]))

    def fill(self) -> None:
        self.namespace.fill(self.disk)

    def write_until_full(self, connection: Connection, topic: str) -> list[bytes]:
        """The values that were acknowledged; then the disk is full."""
        written: list[bytes] = []
        for number in range(10_000):
            value = b"%d " % number + b"v" * 500
            answer = produce(connection, topic, batch([value]))
            if answer.error_code != 0:
                assert answer.error_code.name == "kafka_storage_error"
                assert "full" in answer.error_message
                return written
            assert answer.base_offset == len(written)
            written.append(value)
        raise AssertionError("the disk was never full")

    def free_space(self, connection: Connection) -> None:
        answer = connection.call("delete_topics", 6, topics=[{"name": "large"}], timeout=5000)
        assert answer.responses[0].error_code == 0, answer
        wait_until(lambda: self.namespace.free_bytes(self.disk) > 1_000_000, 20, "the files are gone")


@pytest.fixture
def stage(namespace: Namespace, new_broker: BrokerFactory, tmp_path: Path) -> Stage:
    return Stage(namespace, new_broker, tmp_path)


@pytest.mark.parametrize("config", [{}, {"flush.messages": "1"}, {"flush.messages": "3"}], ids=str)
def test_readers_go_on_and_deleting_a_topic_helps(config: dict[str, str], stage: Stage) -> None:
    create_topic(stage.broker.bootstrap, "small", 1, config)
    with Connection(stage.broker.bootstrap) as connection:
        stage.fill()
        written = stage.write_until_full(connection, "small")
        housekeeping_ends = time.monotonic() + 2.5  # which wants to write too, once a second
        while time.monotonic() < housekeeping_ends:
            assert produce(connection, "small", batch([b"y" * 9000])).error_code.name == "kafka_storage_error"
            assert values(connection, "small") == written
        assert stage.broker.health()[0] == 200
        stage.free_space(connection)
        assert append(connection, "small", batch([b"after"])) == len(written)
        assert values(connection, "small") == [*written, b"after"]
    stage.broker.kill()
    stage.broker.start()
    with Connection(stage.broker.bootstrap) as connection:
        await_leaders(connection, "small")
        assert values(connection, "small") == [*written, b"after"]


def test_deleting_records_helps(stage: Stage) -> None:
    create_topic(stage.broker.bootstrap, "small", 1)
    with Connection(stage.broker.bootstrap) as connection:
        stage.fill()
        written = stage.write_until_full(connection, "small")
        wanted = [{"name": "large", "partitions": [{"partition_index": 0, "offset": -1}]}]
        answer = connection.call("delete_records", 2, topics=wanted, timeout=5000)
        assert answer.topics[0].partitions[0].error_code == 0
        wait_until(lambda: stage.namespace.free_bytes(stage.disk) > 500_000, 20, "the segments are gone")
        assert append(connection, "small", batch([b"after"])) == len(written)
        assert list_offset(connection, "large", -2).offset == 40


def test_an_idempotent_producer_waits_for_space_and_loses_nothing(stage: Stage) -> None:
    create_topic(stage.broker.bootstrap, "numbers", 3)
    with Writer(stage.broker.bootstrap, "numbers", 3) as writer:
        wait_until(lambda: writer.acknowledged > 300, 30, "acknowledgements")
        stage.fill()
        wait_until(lambda: "is full" in stage.broker.log_text(), 30, "the disk is full")
        with Connection(stage.broker.bootstrap) as connection:
            stage.free_space(connection)
        reached = writer.acknowledged + 300
        wait_until(lambda: writer.acknowledged > reached, 30, "acknowledgements again")
    check(writer, stage.broker.bootstrap)
    stage.broker.stop()
    stage.broker.start()
    check(writer, stage.broker.bootstrap)


def test_a_topic_made_on_a_full_disk_works_once_there_is_space(stage: Stage) -> None:
    create_topic(stage.broker.bootstrap, "small", 1)
    with Connection(stage.broker.bootstrap) as connection:
        stage.fill()
        stage.write_until_full(connection, "small")
        # More than fit into the space that the metadata store keeps for itself.
        wanted = {"name": "new", "num_partitions": 50, "replication_factor": 1}
        answer = connection.call("create_topics", 7, topics=[wanted], timeout=5000)
        assert answer.topics[0].error_code == 0
        found = {produce(connection, "new", batch([b"x"]), index).error_code.name for index in range(50)}
        assert "kafka_storage_error" in found <= {"none", "kafka_storage_error"}
        stage.free_space(connection)
        for index in range(50):
            append(connection, "new", batch([b"x"]), index)


def test_a_roll_that_found_no_space_leaves_nothing_behind(stage: Stage) -> None:
    """The next batch may be small enough for the old segment: then it must be found there after a restart."""
    config = {"preallocate": "true", "segment.bytes": str(1 << 20), "segment.index.bytes": "100000"}
    create_topic(stage.broker.bootstrap, "small", 1, config)
    with Connection(stage.broker.bootstrap) as connection:
        for number in range(9):
            append(connection, "small", batch([b"%d" % number + b"x" * 100_000]))
        stage.fill()
        assert produce(connection, "small", batch([b"y" * 200_000])).error_code.name == "kafka_storage_error"
        assert append(connection, "small", batch([b"small"])) == 9
        before = values(connection, "small")
    stage.broker.stop()
    stage.broker.start()
    with Connection(stage.broker.bootstrap) as connection:
        await_leaders(connection, "small")
        assert list_offset(connection, "small", -1).offset == 10
        assert values(connection, "small") == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_start_on_a_full_disk_serves_readers(number: signal.Signals, stage: Stage) -> None:
    create_topic(stage.broker.bootstrap, "small", 1)
    with Connection(stage.broker.bootstrap) as connection:
        stage.fill()
        written = stage.write_until_full(connection, "small")
    stage.broker.send(number)
    assert stage.broker.wait() == (0 if number == signal.SIGTERM else -number)
    stage.broker.start()
    with Connection(stage.broker.bootstrap) as connection:
        await_leaders(connection, "small")
        assert values(connection, "small") == written
        stage.free_space(connection)
        assert append(connection, "small", batch([b"after"])) == len(written)


def test_compaction_goes_on_when_there_is_space_again(stage: Stage) -> None:
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "4000",
    }
    create_topic(stage.broker.bootstrap, "keyed", 1, config)
    with Connection(stage.broker.bootstrap) as connection:
        for number in range(200):
            append(connection, "keyed", batch([Record(b"%d" % number, b"key %d" % (number % 3))]))
        stage.fill()
        wait_until(lambda: "is not compacted for now" in stage.broker.log_text(), 20, "a round has failed")
        assert len(read_all(connection, "keyed")) == 200
        stage.free_space(connection)
        wait_until(lambda: len(read_all(connection, "keyed")) < 100, 20, "old values are gone")
        newest = {record.key: record.value for _, record in read_all(connection, "keyed")}
        assert newest == {b"key 0": b"198", b"key 1": b"199", b"key 2": b"197"}
