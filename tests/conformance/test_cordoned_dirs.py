"""Cordoned log directories (KIP-1066): they keep what they have and get nothing new."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.raw import Connection

BROKER_CONFIG = 4
SET, DELETE = 0, 1
# Apache Kafka 4.3 has this behind its newest metadata version, which is not final.
UNSTABLE = {"unstable.feature.versions.enable": "true"} if ON_KAFKA else {}


@pytest.fixture
def broker(own_broker: Any) -> BrokerProcess:
    started: BrokerProcess = own_broker(UNSTABLE, folders=2)
    return started


def cordon(connection: Connection, value: str | None) -> tuple[str, str | None]:
    change = {
        "name": "cordoned.log.dirs",
        "config_operation": DELETE if value is None else SET,
        "value": value,
    }
    resource = {"resource_type": BROKER_CONFIG, "resource_name": "1", "configs": [change]}
    (result,) = connection.call("incremental_alter_configs", 1, resources=[resource]).responses
    return result.error_code.name, result.error_message


def cordoned(connection: Connection) -> dict[str, bool]:
    answer = connection.call("describe_log_dirs", 5, topics=None)
    return {os.path.realpath(result.log_dir): result.is_cordoned for result in answer.results}


def create(connection: Connection, name: str, partitions: int, brokers: list[int] | None = None) -> Any:
    assigned = [{"partition_index": index, "broker_ids": brokers} for index in range(partitions)]
    count = -1 if brokers else partitions
    topic = {
        "name": name,
        "num_partitions": count,
        "replication_factor": -1 if brokers else 1,
        "assignments": assigned if brokers else [],
        "configs": [],
    }
    return connection.call("create_topics", 7, topics=[topic], timeout=20_000).topics[0]


def placed(connection: Connection, topic: str, count: int) -> Counter[str]:
    """folder -> partitions of the topic in it, when all are there."""
    folders: Counter[str] = Counter()

    def are_all_there() -> bool:
        wanted = [{"topic": topic, "partitions": list(range(count))}]
        answer = connection.call("describe_log_dirs", 4, topics=wanted)
        folders.clear()
        for result in answer.results:
            for row in result.topics:
                folders[os.path.realpath(result.log_dir)] += len(row.partitions)
        return sum(folders.values()) == count

    wait_until(are_all_there, 30, "every partition has a log")
    return folders


def move(connection: Connection, topic: str, folder: Path) -> str:
    dirs = [{"path": str(folder), "topics": [{"name": topic, "partitions": [0]}]}]
    answer = connection.call("alter_replica_log_dirs", 2, dirs=dirs)
    return str(answer.results[0].partitions[0].error_code.name)


def test_a_cordoned_directory_gets_no_new_partitions(broker: BrokerProcess) -> None:
    first, second = broker.folders
    real = os.path.realpath
    with Connection(broker.bootstrap) as connection:
        assert cordoned(connection) == {real(first): False, real(second): False}
        assert cordon(connection, str(first)) == ("none", None)
        wait_until(lambda: cordoned(connection)[real(first)], 30, "the cordon is there")
        assert create(connection, "new", 4).error_code.name == "none"
        assert placed(connection, "new", 4) == {real(second): 4}
        assert move(connection, "new", first) == "invalid_replica_assignment"
        assert cordon(connection, None) == ("none", None)
        wait_until(lambda: not cordoned(connection)[real(first)], 30, "the cordon is gone")
        assert move(connection, "new", first) == "none"


def test_a_broker_whose_directories_are_all_cordoned_gets_what_names_it_and_nothing_else(
    broker: BrokerProcess,
) -> None:
    with Connection(broker.bootstrap) as connection:
        assert cordon(connection, "*") == ("none", None)
        wait_until(lambda: all(cordoned(connection).values()), 30, "the cordons are there")
        refused = create(connection, "new", 1)
        assert (refused.error_code.name, refused.error_message) == (
            "invalid_replication_factor",
            "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
            "directories cordoned.",
        )
        assert create(connection, "named", 2, brokers=[1]).error_code.name == "none"
        assert sum(placed(connection, "named", 2).values()) == 2


def test_impossible_cordons_are_refused(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        for value, words in (
            ("/nowhere", "present in log.dirs or log.dir. Missing entries : /nowhere"),
            (f"*,{broker.folders[0]}", "set to *, it must not contain other values"),
        ):
            error, message = cordon(connection, value)
            assert error == "invalid_request" and message is not None and message.endswith(words)


@pytest.mark.skipif(
    ON_KAFKA, reason="Apache Kafka 4.3.1 does not show cordons of the start until they change"
)
def test_cordons_of_the_start_count(own_broker: Any, tmp_path: Path) -> None:
    started: BrokerProcess = own_broker({"cordoned.log.dirs": "*"}, folders=2)
    with Connection(started.bootstrap) as connection:
        assert all(cordoned(connection).values())
        assert create(connection, "new", 1).error_code.name == "invalid_replication_factor"
        assert cordon(connection, str(started.folders[0])) == ("none", None)
        wait_until(lambda: create(connection, "new", 1).error_code.name == "none", 30, "it takes partitions")
        assert placed(connection, "new", 1) == {os.path.realpath(started.folders[1]): 1}
