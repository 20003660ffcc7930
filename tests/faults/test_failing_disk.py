"""One of two disks fails: its partitions answer KAFKA_STORAGE_ERROR, the others go on; repaired, all of it is back."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.batches import batch
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, await_leaders, create_topic, fetch, produce, values
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import SMALL, BrokerFactory
from tests.faults.disks import IS_ROOT, Namespace

TOPIC = "spread"
PARTITIONS = 6
ENOUGH = 60  # batches that make any log roll, and so meet its disk


class Stage:
    """A broker on two disks, each with half of a topic's partitions; `fail` and `repair` are for the second one."""

    def __init__(self, broker: FaultyBroker, fail: Callable[[], None], repair: Callable[[], None]) -> None:
        self.broker = broker
        self.fail = fail
        self.repair = repair
        self.written: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
        broker.start()
        create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        with Connection(broker.bootstrap) as connection:
            for index in range(PARTITIONS):
                assert self.write(connection, index, 5)
            found = described(connection)
        assert [error for error, _ in found.values()] == ["none", "none"]
        self.first, self.second = (sorted(indexes) for _, indexes in found.values())
        assert len(self.first) == len(self.second) == PARTITIONS // 2

    def write(self, connection: Connection, index: int, count: int = ENOUGH) -> bool:
        """False when the broker said that the disk has failed."""
        for _ in range(count):
            value = b"%d " % len(self.written[index]) + b"x" * 300
            answer = produce(connection, TOPIC, batch([value]), index)
            if answer.error_code != 0:
                assert answer.error_code.name == "kafka_storage_error"
                return False
            assert answer.base_offset == len(self.written[index])
            self.written[index].append(value)
        return True

    def check(self, connection: Connection, indexes: list[int]) -> None:
        for index in indexes:
            assert values(connection, TOPIC, index) == self.written[index]


def described(connection: Connection) -> dict[str, tuple[str, list[int]]]:
    """Of every directory: its error, and the topic's partitions in it."""
    answer = connection.call("describe_log_dirs", 4, topics=None)
    return {
        result.log_dir: (
            result.error_code.name,
            [p.partition_index for t in result.topics if t.name == TOPIC for p in t.partitions],
        )
        for result in answer.results
    }


@pytest.fixture
def unplugged(namespace: Namespace, new_broker: BrokerFactory, tmp_path: Path) -> Stage:
    """The second disk vanishes from its place; files that are open stay so.  What was on it comes back from a copy."""
    one, two, saved = tmp_path / "one", tmp_path / "two", tmp_path / "saved"
    namespace.mount(two, 16_000)

    def fail() -> None:
        namespace.run("cp", "-a", str(two), str(saved))
        namespace.unmount(two)

    def repair() -> None:
        namespace.mount(two, 16_000)
        namespace.run("cp", "-a", f"{saved}/.", str(two))

    return Stage(new_broker(SMALL, [one, two], namespace.prefix), fail, repair)


GOING_DOWN = 0x8004587D  # the file system answers EIO from now on, as if its disk had failed
NO_LOG_FLUSH = struct.pack("I", 2)


@pytest.fixture
def broken(namespace: Namespace, new_broker: BrokerFactory, tmp_path: Path) -> Stage:
    """The second disk answers every access with EIO; after a repair it has what was synced, and more perhaps."""
    if not IS_ROOT:
        pytest.skip("mounting a file system of one's own takes root")
    one, two, image = tmp_path / "one", tmp_path / "two", tmp_path / "image"
    two.mkdir()
    mount = ["mount", "-o", "loop", str(image), str(two)]
    try:
        namespace.run("truncate", "-s", "32M", str(image))
        namespace.run("mkfs.ext4", "-q", str(image))
        namespace.run(*mount)
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"no loop device: {problem.stderr}")

    def fail() -> None:
        namespace.run("sync", "--file-system", str(two))
        fd = os.open(namespace.inside(two), os.O_RDONLY)
        fcntl.ioctl(fd, GOING_DOWN, NO_LOG_FLUSH)
        os.close(fd)

    def repair() -> None:
        namespace.run("umount", str(two))
        namespace.run(*mount)

    return Stage(new_broker(SMALL, [one, two], namespace.prefix), fail, repair)


@pytest.mark.parametrize("kind", ["unplugged", "broken"])
def test_the_other_disk_goes_on(kind: str, request: pytest.FixtureRequest) -> None:
    stage: Stage = request.getfixturevalue(kind)
    broker = stage.broker
    with Connection(broker.bootstrap) as connection:
        stage.fail()
        before = {index: len(stage.written[index]) for index in stage.second}
        failed = [index for index in stage.second if not stage.write(connection, index)]
        assert failed == stage.second, "the failed disk takes no more records"
        for index in stage.second:
            assert fetch(connection, TOPIC, 0, index).error_code.name == "kafka_storage_error"
        for index in stage.first:
            assert stage.write(connection, index)
        stage.check(connection, stage.first)
        assert sorted(described(connection).values()) == [("kafka_storage_error", []), ("none", stage.first)]
        assert broker.health() == (200, '{"status":"ready"}')
        create_topic(broker.bootstrap, "new", 2)  # goes to the disk that works
        append(connection, "new", batch([b"x"]), 0)
        append(connection, "new", batch([b"x"]), 1)
    for index, count in before.items():
        # What was acknowledged after the disk had gone was only in files that nobody can reach any more.
        del stage.written[index][count:]
    broker.stop()
    broker.start()  # not repaired yet
    with Connection(broker.bootstrap) as connection:
        wait_until(lambda: len(values(connection, TOPIC, stage.first[0])) > 0, 10, "the first disk is served")
        stage.check(connection, stage.first)
        for index in stage.second:
            assert produce(connection, TOPIC, batch([b"x"]), index).error_code.name == "kafka_storage_error"
    broker.stop()
    stage.repair()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        await_leaders(connection, TOPIC, PARTITIONS)
        stage.check(connection, stage.first + stage.second)
        for index in range(PARTITIONS):
            assert stage.write(connection, index)
        assert sorted(described(connection).values()) == [("none", stage.first), ("none", stage.second)]
        await_leaders(connection, "new", 2)


def test_without_any_disk_the_broker_says_that_it_is_not_ready(
    namespace: Namespace, new_broker: BrokerFactory, tmp_path: Path
) -> None:
    namespace.mount(tmp_path / "disk", 8_000)
    broker = new_broker(SMALL, [tmp_path / "disk"], namespace.prefix)
    broker.start()
    create_topic(broker.bootstrap, TOPIC, 1)
    with Connection(broker.bootstrap) as connection:
        append(connection, TOPIC, batch([b"x"]))
        namespace.unmount(tmp_path / "disk")
        wait_until(
            lambda: produce(connection, TOPIC, batch([b"x" * 2000])).error_code.name == "kafka_storage_error",
            20,
            "the disk is missed",
        )
        status, body = broker.health()
        assert status == 503 and str(tmp_path / "disk") in body
        assert broker.health("live")[0] == 200
    broker.kill()
