"""The schema registry on three brokers: any of them answers, and whoever is killed, no id is given twice."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.error
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.process import wait_until
from tests.conformance.registry import Answer, Http, record
from tests.faults.test_dev import Dev

SCHEMAS = 30
WRITERS = 6
SECONDS_MAX = 180


class Cluster:
    def __init__(self, dev: Dev) -> None:
        self.dev = dev
        self.nodes = [Http(f"127.0.0.1:{dev.port + 1000 + at}") for at in range(3)]

    def leader(self) -> int:
        """The broker that leads `_schemas-0`."""
        admin = AdminClient({"bootstrap.servers": self.dev.addresses})
        return int(admin.list_topics("_schemas", timeout=30).topics["_schemas"].partitions[0].leader)

    def kill(self, number: int) -> None:
        (pid,) = [one["pid"] for one in self.dev.state()["brokers"] if one["id"] == number]
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    dev = Dev(tmp_path / "cluster", 3)
    try:
        assert dev.start().startswith("ready"), dev.said
        yield Cluster(dev)
    finally:
        dev.discard()


def schema(number: int) -> dict[str, object]:
    return record(f"shop.Thing{number}", ("id", "long"), ("note", "string", ""))


def patiently(node: Http, method: str, path: str, body: object = None) -> Answer | None:
    """None when the broker is not there, or cannot say."""
    try:
        answer = node.ask(method, path, body)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None
    return None if answer.status >= 500 else answer


class Writers:
    """Each registers all the schemas in an order of its own, through whichever broker, until each is done."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.given: dict[int, set[int]] = defaultdict(set)
        self.problems: list[object] = []
        self.done = 0
        self.threads = [threading.Thread(target=self._write, args=(at,)) for at in range(WRITERS)]

    def _write(self, at: int) -> None:
        random = Random(at)
        left = list(range(SCHEMAS))
        random.shuffle(left)
        deadline = time.monotonic() + SECONDS_MAX
        while left and time.monotonic() < deadline:
            number = left[-1]
            node = random.choice(self.cluster.nodes)
            body = {"schema": _text(number)}
            answer = patiently(node, "POST", f"/subjects/s{number}-{at % 2}/versions", body)
            if answer is None:
                time.sleep(0.1)
            elif answer.status == 200:
                self.given[number].add(answer.body["id"])
                self.done += 1
                left.pop()
            else:
                self.problems.append(answer)
                return
        if left:
            self.problems.append(f"{len(left)} schemas left")


def _text(number: int) -> str:
    return json.dumps(schema(number))


def check(cluster: Cluster, given: dict[int, set[int]]) -> None:
    """One id for each schema, one schema for each id, and every broker says so."""
    assert sorted(given) == list(range(SCHEMAS))
    assert all(len(ids) == 1 for ids in given.values()), given
    assert len({next(iter(ids)) for ids in given.values()}) == SCHEMAS
    for number, ids in given.items():
        for node in cluster.nodes:
            answer = node.get(f"/schemas/ids/{next(iter(ids))}")
            assert answer.status == 200 and f'"Thing{number}"' in answer.body["schema"]
    for node in cluster.nodes:
        assert len(node.get("/subjects").body) == 2 * SCHEMAS


def test_ids_are_given_once_while_leaders_die(cluster: Cluster) -> None:
    assert cluster.nodes[0].get("/subjects").body == []
    writers = Writers(cluster)
    for thread in writers.threads:
        thread.start()
    wait_until(lambda: writers.done >= SCHEMAS, SECONDS_MAX, "a first part is registered")
    killed = cluster.leader()
    cluster.kill(killed)
    wait_until(lambda: cluster.leader() not in (killed, -1), SECONDS_MAX, "another broker leads")
    for thread in writers.threads:
        thread.join(SECONDS_MAX)
    assert not writers.problems, writers.problems
    assert cluster.dev.restart(killed).returncode == 0
    wait_until(
        lambda: patiently(cluster.nodes[killed - 1], "GET", "/subjects") is not None,
        SECONDS_MAX,
        "the broker that was killed answers again",
    )
    check(cluster, writers.given)
    # Deleted for good, and yet never given to another schema.
    most = max(next(iter(ids)) for ids in writers.given.values())
    last = next(number for number, ids in writers.given.items() if ids == {most})
    for end in ("0", "1"):
        for how in ("", "?permanent=true"):
            assert cluster.nodes[0].ask("DELETE", f"/subjects/s{last}-{end}{how}").status == 200
    assert cluster.nodes[1].register("fresh", schema(SCHEMAS + 1)).body["id"] == most + 1


def test_every_leader_of_partitions_knows_the_schemas(cluster: Cluster) -> None:
    bootstrap = cluster.dev.addresses
    topic = NewTopic("strict", 3, 1, config={"confluent.value.schema.validation": "true"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([topic]).values():
        made.result(30)
    number = cluster.nodes[2].register("strict-value", schema(0)).body["id"]
    outcomes: dict[tuple[int, bool], str | None] = {}
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for partition in range(3):
        for known in (True, False):
            value = b"\0" + (number if known else 999_999).to_bytes(4, "big") + b"\2"
            producer.produce(
                "strict",
                value,
                partition=partition,
                on_delivery=lambda error, _, key=(partition, known): outcomes.__setitem__(
                    key, None if error is None else error.name()
                ),
            )
            assert producer.flush(60) == 0
    assert outcomes == {
        (partition, known): None if known else "INVALID_RECORD"
        for partition in range(3)
        for known in (True, False)
    }
