"""What operators do to a cluster, with our commands and with Kafka's: four brokers in two racks, as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.conformance import apache_kafka
from tests.conformance.batches import batch
from tests.conformance.process import free_port, wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import fetch_fields
from tests.contract.etcd import Etcd
from tests.faults.broker import FaultyBroker
from tests.faults.cluster_traffic import QUIET
from tests.faults.test_dev import TIDELOG

SECONDS_MAX = 180
RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}
SETTINGS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "offsets.topic.num.partitions": "1",
    # A stopped broker leaves its in-sync sets at once; nothing here is about a slow one.
    "auto.leader.rebalance.enable": "false",
}


class Operated:
    def __init__(self, folder: Path) -> None:
        self.etcd = Etcd(folder / "etcd")
        metadata = f"etcd://{','.join(self.etcd.endpoints)}"
        self.brokers: dict[int, FaultyBroker] = {}
        for node, rack in RACKS.items():
            settings = {**SETTINGS, "tidelog.metadata": metadata, "broker.rack": rack}
            self.brokers[node] = FaultyBroker(folder / f"broker-{node}", settings)
            self.brokers[node].node = node

    def start(self) -> None:
        self.etcd.start()
        for broker in self.brokers.values():
            broker.start()
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def run(self, *words: str, fails: bool = False) -> Any:
        """What a command of ours says, as JSON."""
        command = [TIDELOG, *words, "--bootstrap", self.bootstrap, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
        assert (done.returncode != 0) == fails, (done.stdout, done.stderr)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def create(self, topic: str, assignment: list[list[int]], **config: str) -> None:
        named = {name.replace("_", "."): value for name, value in config.items()}
        wanted = NewTopic(topic, len(assignment), replica_assignment=assignment, config=named)
        self.admin.create_topics([wanted])[topic].result(SECONDS_MAX)
        self.await_in_sync(topic)

    def parts(self, topic: str) -> list[Any]:
        """As every broker tells them, once they agree: a change is seen by one before the other."""
        while True:
            told = []
            for broker in self.brokers.values():
                if broker.alive():
                    with Connection(broker.bootstrap) as connection:
                        answer = connection.call("metadata", 12, topics=[{"name": topic}])
                    parts = sorted(answer.topics[0].partitions, key=lambda one: int(one.partition_index))
                    told.append([(one.leader_id, one.replica_nodes, one.isr_nodes) for one in parts])
            if all(one == told[0] for one in told):
                return told[0]
            time.sleep(0.05)

    def leaders(self, topic: str) -> list[int]:
        return [leader for leader, _, _ in self.parts(topic)]

    def replicas(self, topic: str) -> list[list[int]]:
        return [list(replicas) for _, replicas, _ in self.parts(topic)]

    def await_in_sync(self, topic: str) -> None:
        def reached() -> bool:
            parts = self.parts(topic)
            return bool(parts) and all(
                leader > 0 and set(replicas) == set(in_sync) for leader, replicas, in_sync in parts
            )

        wait_until(reached, SECONDS_MAX, f"all replicas of {topic} are in sync")

    def write(self, topic: str, partitions: int, count: int, size: int = 1000) -> None:
        failed: list[Any] = []
        # Small batches: one is the least that is copied at once.
        settings = {"bootstrap.servers": self.bootstrap, "acks": "all", "batch.size": 20_000}
        producer = confluent_kafka.Producer({**settings, **QUIET})
        for number in range(count):
            value = number.to_bytes(4, "big") + os.urandom(size)
            producer.produce(
                topic, value, partition=number % partitions, on_delivery=lambda e, _: e and failed.append(e)
            )
            producer.poll(0)
        assert producer.flush(SECONDS_MAX) == 0 and not failed, failed

    def await_moved(self) -> Any:
        said: Any = None

        def done() -> bool:
            nonlocal said
            said = self.run("partitions", "reassign", "--verify")
            return not said["moving"]

        wait_until(done, SECONDS_MAX, "nothing is being moved", every=0.2)
        return said

    def folders(self, topic: str) -> dict[int, int]:
        """How many partitions of a topic lie on each broker's disk."""
        return {
            node: len([path for path in broker.data.glob(f"{topic}-*") if path.name.count(".") == 0])
            for node, broker in self.brokers.items()
        }

    def end(self) -> None:
        for broker in self.brokers.values():
            broker.discard()
        self.etcd.stop()


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    made = Operated(tmp_path_factory.mktemp("operated"))
    try:
        made.start()
        yield made
    finally:
        made.end()
    for broker in made.brokers.values():
        assert not broker.unexpected(), broker.unexpected()[0]


def test_who_asks_the_wrong_broker_is_told_which_one_is_right(operated: Operated) -> None:
    operated.create("told", [[2, 1]])
    data = [{"name": "told", "partition_data": [{"index": 0, "records": batch([b"x"])}]}]
    # A follower takes no records; one that has nothing of the topic has none either.
    for asked, fetches in ((1, False), (4, True)):
        with Connection(operated.brokers[asked].bootstrap) as connection:
            said = connection.call("produce", 12, acks=-1, timeout=10_000, topic_data=data)
            parts = said.responses[0].partition_responses
            if fetches:
                wanted = fetch_fields("told", 0)
                wanted["topics"][0]["topic_id"] = (
                    connection.call("metadata", 12, topics=[{"name": "told"}]).topics[0].topic_id
                )
                said = connection.call("fetch", 17, **wanted)
                parts += said.responses[0].partitions
        for part in parts:
            assert part.error_code.name == "not_leader_or_follower"
            assert part.current_leader.leader_id == 2
        [node] = said.node_endpoints
        assert (node.node_id, f"{node.host}:{node.port}", node.rack) == (
            2,
            operated.brokers[2].bootstrap,
            "a",
        )


def test_replicas_of_new_topics_are_in_different_racks(operated: Operated) -> None:
    operated.admin.create_topics([NewTopic("spread", 8, 2)])["spread"].result(SECONDS_MAX)
    placed = operated.replicas("spread")
    assert all({RACKS[node] for node in replicas} == {"a", "b"} for replicas in placed)
    leaders = [replicas[0] for replicas in placed]
    assert {leaders.count(node) for node in RACKS} == {2}
    operated.admin.create_partitions([NewPartitions("spread", 12)])["spread"].result(SECONDS_MAX)
    placed = operated.replicas("spread")
    assert len(placed) == 12
    assert all({RACKS[node] for node in replicas} == {"a", "b"} for replicas in placed)


def test_a_consumer_reads_from_the_replica_in_its_rack(operated: Operated) -> None:
    operated.create("near", [[1, 3]])
    operated.write("near", 1, 50)
    told: list[dict[str, Any]] = []
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": operated.bootstrap,
            "group.id": "unused",
            "client.rack": "b",
            "statistics.interval.ms": 100,
            "stats_cb": lambda text: told.append(json.loads(text)),
            **QUIET,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("near", 0, 0)])
    seen: list[bytes] = []

    def read() -> bool:
        seen.extend(one.value() for one in consumer.consume(100, 0.2) if one.error() is None)
        return len(seen) >= 50

    wait_until(read, SECONDS_MAX, "everything is read")

    def from_the_follower() -> bool:
        consumer.poll(0.1)
        return bool(told) and told[-1]["topics"]["near"]["partitions"]["0"]["broker"] == 3

    wait_until(from_the_follower, SECONDS_MAX, "it reads from broker 3")
    consumer.close()


def test_a_move_is_throttled_shown_and_unthrottled_when_it_is_done(operated: Operated) -> None:
    operated.create("moved", [[1, 3], [3, 1]])
    operated.write("moved", 2, 300, 10_000)
    plan = operated.run("partitions", "reassign", "--topic", "moved", "--brokers", "2,4")
    assert operated.replicas("moved") == [[1, 3], [3, 1]], "a plan alone moves nothing"
    assert all(set(move["to"]) == {2, 4} for move in plan["moves"]) and plan["bytes"] > 3_000_000
    words = ("--execute", "--throttle", "20K")
    operated.run("partitions", "reassign", "--topic", "moved", "--brokers", "2,4", *words)
    settings = operated.run("brokers", "describe", "2")["settings"]
    assert settings["follower.replication.throttled.rate"] == "20480"
    said = operated.run("partitions", "reassign", "--verify")
    # Three million bytes at twenty thousand a second are not there yet, however slow this machine is.
    assert len(said["moving"]) == 2 and said["unthrottled"]["brokers"] == []
    assert all(one["copied"] < one["bytes"] for one in said["moving"])
    status = operated.run("cluster", "status")
    assert len(status["moving"]) == 2 and status["under_replicated"] == [], "a move takes nothing away"
    # What is in sync is not slowed: writes are acknowledged while the move creeps on.
    operated.write("moved", 2, 20)
    # The same plan again moves nothing new, and changes the rate of what is under way.
    words = ("--execute", "--throttle", "1G")
    again = operated.run("partitions", "reassign", "--topic", "moved", "--brokers", "2,4", *words)
    assert again["moves"] == []
    operated.await_moved()
    assert all(set(replicas) == {2, 4} for replicas in operated.replicas("moved"))
    operated.run("partitions", "reassign", "--verify")
    for node in RACKS:
        assert not [
            name for name in operated.run("brokers", "describe", str(node))["settings"] if "throttled" in name
        ]
    held = operated.run("configs", "describe", "topic", "moved")
    assert "0:1" not in json.dumps(held)
    wait_until(lambda: operated.folders("moved") == {1: 0, 2: 2, 3: 0, 4: 2}, SECONDS_MAX, "old replicas go")


@pytest.mark.parametrize(("side", "node"), [("leader", 1), ("follower", 2)])
def test_either_side_alone_can_hold_a_copy_back(operated: Operated, side: str, node: int) -> None:
    slow, free = f"slow-{side}", f"free-{side}"
    for topic in (slow, free):
        operated.create(topic, [[1]])
        operated.write(topic, 1, 100, 10_000)
    broker = ConfigResource(ConfigResource.Type.BROKER, str(node))
    listed = ConfigResource(ConfigResource.Type.TOPIC, slow)
    for resource, name, value in (
        (broker, f"{side}.replication.throttled.rate", "1000"),
        (listed, f"{side}.replication.throttled.replicas", "*"),
    ):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
        operated.admin.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)
    moves = [{"topic": topic, "partition": 0, "to": [1, 2]} for topic in (slow, free)]
    plan = operated.etcd.members[0].home.parent / "plan.json"
    plan.write_text(json.dumps({"moves": moves}))
    operated.run("partitions", "reassign", "--plan", str(plan), "--execute")
    under_way: list[Any] = []

    def free_is_there() -> bool:
        under_way[:] = operated.run("partitions", "reassign", "--verify")["moving"]
        return free not in [one["topic"] for one in under_way]

    # The one that is not listed gets there; the other has a thousand seconds to go.
    wait_until(free_is_there, SECONDS_MAX, "the move without a throttle ends")
    assert [(one["topic"], one["copied"] < one["bytes"]) for one in under_way] == [(slow, True)]
    assert len(operated.run("partitions", "reassign", "--cancel")["cancelled"]) == 1


def test_a_move_can_be_called_off(operated: Operated) -> None:
    operated.create("kept", [[1, 3]])
    operated.write("kept", 1, 100, 10_000)
    words = ("--topic", "kept", "--brokers", "2,4", "--execute", "--throttle", "1K")
    operated.run("partitions", "reassign", *words)
    said = operated.run("partitions", "reassign", "--cancel")
    assert [one["topic"] for one in said["cancelled"]] == ["kept"]
    assert said["unthrottled"]["topics"] == ["kept"]
    assert operated.replicas("kept") == [[1, 3]]
    assert operated.run("partitions", "reassign", "--verify")["moving"] == []


def test_limits_of_a_broker_that_is_down_are_told_and_taken_back_later(operated: Operated) -> None:
    operated.create("limited", [[1, 3]])
    operated.write("limited", 1, 100, 10_000)
    words = ("--topic", "limited", "--brokers", "2,4", "--execute", "--throttle", "1K")
    operated.run("partitions", "reassign", *words)
    operated.brokers[4].kill()
    wait_until(lambda: len(operated.run("brokers", "list")) == 3, SECONDS_MAX, "broker 4 is gone")
    said = operated.run("partitions", "reassign", "--cancel")
    assert [one["topic"] for one in said["cancelled"]] == ["limited"]
    assert said["unthrottled"] == {"brokers": [1, 2, 3], "topics": ["limited"], "left": [4]}
    operated.brokers[4].start()
    wait_until(lambda: len(operated.run("brokers", "list")) == 4, SECONDS_MAX, "it is there again")
    assert "follower.replication.throttled.rate" in operated.run("brokers", "describe", "4")["settings"]
    said = operated.run("partitions", "reassign", "--verify")
    assert said["unthrottled"] == {"brokers": [4], "topics": [], "left": []}


def test_a_broker_that_cannot_be_reached_hides_only_its_own(operated: Operated, tmp_path: Path) -> None:
    operated.create("seen", [[1, 3]])
    operated.write("seen", 1, 100, 10_000)
    operated.run("configs", "set", "broker", "1", "leader.replication.throttled.rate=1000")
    operated.run("configs", "set", "topic", "seen", "leader.replication.throttled.replicas=*")
    lost = FaultyBroker(tmp_path / "lost", dict(operated.brokers[1].settings))
    lost.settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{free_port()}"
    lost.node = 5
    plan = tmp_path / "plan.json"
    # Kafka's own form of a plan.
    row = {"topic": "seen", "partition": 0, "replicas": [1, 3, 5], "log_dirs": ["any", "any", "any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    soon = ("--timeout", "3")
    try:
        lost.start()
        wait_until(lambda: len(operated.run("brokers", "list")) == 5, SECONDS_MAX, "it is there")
        begun = operated.run("partitions", "reassign", "--plan", str(plan), "--execute", *soon)
        assert [move["to"] for move in begun["moves"]] == [[1, 3, 5]] and begun["bytes"] > 1_000_000
        status = operated.run("cluster", "status", *soon)
        assert (status["silent"], status["moving"]) == ([5], ["seen-0"])
        told = {one["id"]: one["bytes"] for one in status["brokers"]}
        assert told.pop(5) is None and None not in told.values()
        fled = operated.run("brokers", "drain", "3", *soon)
        assert all(5 not in set(move["to"]) - set(move["from"]) for move in fled["moves"]), (
            "nobody flees there"
        )
        called_off = operated.run("partitions", "reassign", "--cancel", *soon)
        (row,) = called_off["cancelled"]
        assert row["copied"] is None and row["bytes"] > 1_000_000
        assert called_off["unthrottled"] == {"brokers": [1], "topics": ["seen"], "left": [5]}
    finally:
        lost.discard()
    assert operated.replicas("seen") == [[1, 3]]
    wait_until(lambda: len(operated.run("brokers", "list")) == 4, SECONDS_MAX, "it is gone")


@pytest.mark.kafka
def test_kafkas_own_tool_moves_with_a_throttle(operated: Operated, tmp_path: Path) -> None:
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    operated.create("theirs", [[1, 3]])
    operated.write("theirs", 1, 100, 10_000)
    plan = tmp_path / "plan.json"
    moves = [{"topic": "theirs", "partition": 0, "replicas": [2, 4]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    words = ("--bootstrap-server", operated.bootstrap, "--reassignment-json-file", str(plan))
    begun = apache_kafka.java(tool, *words, "--execute", "--throttle", "50000")
    assert "The inter-broker throttle limit was set to 50000 B/s" in begun.stdout, begun
    assert "Successfully started partition reassignment" in begun.stdout
    resource = ConfigResource(ConfigResource.Type.TOPIC, "theirs")
    held = operated.admin.describe_configs([resource])[resource].result(SECONDS_MAX)
    assert held["follower.replication.throttled.replicas"].value == "0:2,0:4"
    # With more of it, it ends.
    raised = apache_kafka.java(tool, *words, "--execute", "--additional", "--throttle", "100000000")
    assert raised.returncode == 0, raised
    operated_done = wait_for_theirs(tool, words)
    assert "Clearing broker-level throttles on brokers 1,2,3,4" in operated_done
    assert operated.replicas("theirs") == [[2, 4]]
    held = operated.admin.describe_configs([resource])[resource].result(SECONDS_MAX)
    assert held["follower.replication.throttled.replicas"].value == ""


def wait_for_theirs(tool: str, words: tuple[str, ...]) -> str:
    said = ""

    def done() -> bool:
        nonlocal said
        said = apache_kafka.java(tool, *words, "--verify").stdout
        return "Reassignment of partition theirs-0 is completed." in said

    wait_until(done, SECONDS_MAX, "the move is done", every=0.5)
    return said


def test_leaders_are_elected_and_status_tells_what_is_wrong(operated: Operated) -> None:
    operated.create("led", [[4, 1, 2]], min_insync_replicas="3")
    operated.brokers[4].kill()
    wait_until(lambda: operated.leaders("led") == [1], SECONDS_MAX, "broker 1 leads")
    status = operated.run("cluster", "status", fails=True)
    assert "led-0" in status["below_min_in_sync"] and "led-0" in status["under_replicated"]
    assert status["offline"] == []
    assert {one["id"] for one in status["brokers"]} == {1, 2, 3}
    assert {"leaders", "bytes"} <= set(status["brokers"][0])
    operated.brokers[4].start()
    operated.await_in_sync("led")
    assert operated.leaders("led") == [1]
    outcome = operated.run("partitions", "elect", "led:0")
    assert outcome == {"elected": [{"topic": "led", "partition": 0}], "failed": []}
    wait_until(lambda: operated.leaders("led") == [4], SECONDS_MAX, "broker 4 leads again")
    status = operated.run("cluster", "status")
    assert status["under_replicated"] == status["below_min_in_sync"] == []
    assert status["controller"] in RACKS


def test_a_topic_deleted_while_a_broker_is_down_is_parked_on_its_disk(operated: Operated) -> None:
    operated.create("doomed", [[3, 1], [1, 3]])
    operated.write("doomed", 2, 10)
    operated.brokers[3].kill()
    wait_until(lambda: operated.leaders("doomed") == [1, 1], SECONDS_MAX, "broker 1 leads both")
    operated.admin.delete_topics(["doomed"])["doomed"].result(SECONDS_MAX)
    # One of the same name is another topic: nothing of the old one may show in it.
    operated.create("doomed", [[1, 2]])
    operated.write("doomed", 1, 3)
    operated.brokers[3].start()
    expected = {1: 1, 2: 1, 3: 0, 4: 0}
    wait_until(lambda: operated.folders("doomed") == expected, SECONDS_MAX, "only the new one is left")
    assert len(list(operated.brokers[3].data.glob("doomed-*-stray"))) == 2
    words = ("--topic", "doomed", "--brokers", "1,3", "--execute", "--wait")
    operated.run("partitions", "reassign", *words)
    operated.await_in_sync("doomed")
    logs = [operated.brokers[node].data / "doomed-0" / f"{0:020}.log" for node in (1, 3)]
    assert logs[0].read_bytes() == logs[1].read_bytes() != b""


def test_a_broker_is_drained_and_leaves(operated: Operated) -> None:
    operated.create("stays", [[4, 1], [2, 4]])
    operated.write("stays", 2, 20)
    refused = unregister(operated, 4)
    assert refused[0] == 42 and "is running" in refused[1]
    plan = operated.run("brokers", "drain", "4")
    assert plan["moves"] and all(4 in move["from"] and 4 not in move["to"] for move in plan["moves"])
    nobody = operated.run("brokers", "drain", "9", "--execute", "--wait", fails=True)
    assert (
        "broker 9 is not running" in nobody
        and operated.run("partitions", "reassign", "--verify")["moving"] == []
    )
    operated.run("brokers", "drain", "4", "--execute", "--wait", "--throttle", "100M")
    load = {one["id"]: one for one in operated.run("brokers", "load")}
    assert (load[4]["leaders"], load[4]["replicas"]) == (0, 0)
    assert all(4 not in replicas for replicas in operated.replicas("stays"))
    operated.brokers[4].stop()
    assert {one["id"] for one in operated.run("brokers", "list")} == {1, 2, 3}
    again = operated.run("partitions", "reassign", "--remove-broker", "4", fails=True)
    assert "broker 4 is not running and holds no replica: there are 1, 2, 3" in again
    # It may come back, and is given its share.
    operated.brokers[4].start()
    wait_until(lambda: len(operated.run("brokers", "list")) == 4, SECONDS_MAX, "it is there again")
    operated.run("partitions", "reassign", "--balance", "--execute", "--wait")
    counts = [one["replicas"] for one in operated.run("brokers", "load")]
    assert max(counts) - min(counts) <= 1
    operated.await_in_sync("stays")


def unregister(operated: Operated, node: int) -> tuple[int, str]:
    with Connection(operated.brokers[1].bootstrap) as connection:
        answer = connection.call("unregister_broker", 0, broker_id=node)
    return answer.error_code, answer.error_message or ""
