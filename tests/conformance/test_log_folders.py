"""Several log folders: partitions spread over them, and move between them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.batches import batch
from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, create_topic, list_offset, values

TOPIC, PARTITIONS = "spread", 6


@pytest.fixture
def broker(own_broker: Any) -> BrokerProcess:
    started: BrokerProcess = own_broker(folders=3)
    create_topic(started.bootstrap, TOPIC, PARTITIONS)
    return started


def placed(connection: Connection) -> dict[int, str]:
    """partition -> the folder it is in; partitions on the move are in two."""
    wanted = [{"topic": TOPIC, "partitions": list(range(PARTITIONS))}]
    answer = connection.call("describe_log_dirs", 4, topics=wanted)
    assert all(result.error_code == 0 for result in answer.results)
    return {
        part.partition_index: os.path.realpath(result.log_dir)
        for result in answer.results
        for topic in result.topics
        for part in topic.partitions
        if not part.is_future_key
    }


def move(connection: Connection, partition: int, folder: Path) -> str:
    dirs = [{"path": str(folder), "topics": [{"name": TOPIC, "partitions": [partition]}]}]
    answer = connection.call("alter_replica_log_dirs", 2, dirs=dirs)
    return str(answer.results[0].partitions[0].error_code.name)


def test_partitions_are_spread_over_the_folders(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        found = placed(connection)
        expected = {os.path.realpath(folder) for folder in broker.folders}
        assert set(found.values()) == expected
        assert all(list(found.values()).count(folder) == 2 for folder in expected)
        for partition, folder in found.items():
            assert (Path(folder) / f"{TOPIC}-{partition}").is_dir()


def test_a_partition_moves_with_its_records(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        for index in range(20):
            append(connection, TOPIC, batch([b"%d" % index]), 0)
        here = placed(connection)[0]
        there = next(folder for folder in broker.folders if os.path.realpath(folder) != here)
        assert move(connection, 0, there) == "none"
        wait_until(lambda: placed(connection)[0] == os.path.realpath(there), 30, "the partition has moved")
        assert append(connection, TOPIC, batch([b"20"]), 0) == 20
        assert values(connection, TOPIC, 0) == [b"%d" % index for index in range(21)]
        wait_until(lambda: not (Path(here) / f"{TOPIC}-0").exists(), 30, "the old copy is gone")


def test_writing_goes_on_while_a_partition_moves(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        sent = 0
        for _ in range(3):
            here = placed(connection)[1]
            there = next(folder for folder in broker.folders if os.path.realpath(folder) != here)
            move(connection, 1, there)
            while placed(connection)[1] == here:
                append(connection, TOPIC, batch([b"%d" % sent]), 1)
                sent += 1
                assert sent < 20_000
        assert list_offset(connection, TOPIC, -1, 1).offset == sent
        assert values(connection, TOPIC, 1) == [b"%d" % index for index in range(sent)]


def test_folders_are_found_again_after_a_restart(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        for partition in range(PARTITIONS):
            append(connection, TOPIC, batch([b"%d" % partition]), partition)
        before = placed(connection)
    broker.stop()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        for partition in range(PARTITIONS):
            wait_until(
                lambda p=partition: list_offset(connection, TOPIC, -1, p).error_code == 0, 20, "a leader"
            )
            assert values(connection, TOPIC, partition) == [b"%d" % partition]
        assert placed(connection) == before
