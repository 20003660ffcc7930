"""A partition without a leader: every place says what it waits for, and an operator decides with open eyes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import apache_kafka
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.contract.etcd import Etcd
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import BrokerFactory
from tests.faults.monitored import http_get, of, scrape
from tests.faults.test_dev import TIDELOG
from tidelog import Admin, Consumer, NewTopic, Producer, TopicPartition

SECONDS_MAX = 180
FIRST, MORE = 20, 30


class Pair:
    """Two brokers; a third, that has no replicas, is the controller all along and answers when both are gone."""

    def __init__(self, home: Path, new_broker: BrokerFactory) -> None:
        self.etcd = Etcd(home / "etcd")
        self.etcd.start()
        settings = {
            "tidelog.metadata": f"etcd://{self.etcd.endpoints[0]}",
            "tidelog.broker.lease.ms": "1000",
            "replica.lag.time.max.ms": "2000",
            "auto.leader.rebalance.enable": "false",
        }
        self.brokers: dict[int, FaultyBroker] = {}
        for node in (3, 1, 2):
            self.brokers[node] = broker = new_broker(settings)
            broker.node = node
            broker.start()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values() if broker.alive())

    def run(self, *words: str, code: int = 0, json_too: bool = True) -> Any:
        command = [TIDELOG, *words, "--bootstrap", self.bootstrap, *(["--json"] if json_too else [])]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        if not json_too:
            return done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else done.stderr

    def produce(self, topic: str, count: int) -> None:
        with Producer(bootstrap_servers=self.bootstrap, acks="all") as producer:
            for sent in [producer.send(topic, f"{number}".encode()) for number in range(count)]:
                sent.get(timeout=SECONDS_MAX)

    def read(self, topic: str, count: int) -> list[bytes]:
        values: list[bytes] = []
        with Consumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            while len(values) < count:
                values += [record.value for record in consumer.poll(1_000) if record.value is not None]
        return values

    def status_says(self, awaits: list[int]) -> dict[str, Any]:
        """Once there is one partition without a leader that waits for these brokers."""
        status: dict[str, Any] = {}

        def seen() -> bool:
            nonlocal status
            words = [TIDELOG, "cluster", "status", "--bootstrap", self.bootstrap, "--json"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX)
            status = json.loads(done.stdout) if done.stdout else {}
            return [row["awaits"] for row in status.get("leaderless", ())] == [awaits]

        wait_until(seen, SECONDS_MAX, f"a partition waits for {awaits}", every=0.2)
        return status

    def lost_with_its_disk(self, topic: str) -> None:
        """Broker 2 stops, broker 1 takes more records alone, and comes back without its disk."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            wanted = NewTopic(topic, assignments={0: [1, 2]}, configs={"min.insync.replicas": "1"})
            admin.create_topics([wanted])
        self.produce(topic, FIRST)
        committed = self.brokers[2].data / "replication-offset-checkpoint"
        wait_until(
            lambda: committed.exists() and f"{topic} 0 {FIRST}" in committed.read_text(),
            SECONDS_MAX,
            "the follower has what was written, and has noted that it is committed",
        )
        self.brokers[2].stop()
        self.produce(topic, MORE)
        self.brokers[1].stop()
        self.brokers[2].start()
        self.status_says([1])
        self.waiting_is_told(topic)
        shutil.rmtree(self.brokers[1].data)
        self.brokers[1].start()

    def waiting_is_told(self, topic: str) -> None:
        log = self.brokers[3].log_text()
        assert log.count(f"has no leader and waits for broker 1: {topic}-0") == 1, log[-2000:]
        assert of(scrape(self.brokers[3].http), "mq_partitions_awaiting_replicas", broker="1") == 1
        text = self.run("cluster", "status", code=1, json_too=False)
        assert f"{topic}-0 has no leader, and waits for broker 1: start it" in text

    def described(self, topic: str) -> Any:
        """The topic's partition as a client reads it that is not ours."""
        with Connection(self.brokers[3].bootstrap) as connection:
            answer = connection.call(
                "describe_topic_partitions",
                0,
                topics=[{"name": topic}],
                response_partition_limit=1,
                cursor=None,
            )
        return answer.topics[0].partitions[0]

    def end(self) -> None:
        for broker in self.brokers.values():
            broker.discard()
        self.etcd.stop()


@pytest.fixture
def pair(tmp_path: Path, new_broker: BrokerFactory) -> Iterator[Pair]:
    made = Pair(tmp_path, new_broker)
    yield made
    made.end()


def test_an_operator_elects_what_is_left_after_a_disk_was_lost(pair: Pair) -> None:
    pair.lost_with_its_disk("orders")
    status = pair.status_says([])
    (row,) = status["leaderless"]
    assert row["partition"] == "orders-0" and status["offline"] == ["orders-0"]
    assert [(doubt["broker"], doubt["cause"]) for doubt in row["doubts"]] == [(1, "new-directory")]
    text = pair.run("cluster", "status", code=1, json_too=False)
    assert "orders-0 has no leader, and no replica is known to have all of its records: see" in text
    assert "the replica on broker 1 is in doubt: it came back with a new, empty directory" in text
    controller = pair.brokers[3]
    assert of(scrape(controller.http), "mq_partitions_needing_recovery") == 1
    assert of(scrape(controller.http), "mq_replicas_in_doubt") == 1
    assert "see `tidelog partitions recover`" in controller.log_text()
    page = http_get(f"http://{controller.http}/console/topics/orders")
    assert "An operator has to choose a leader: see `tidelog partitions recover`." in page
    assert "Broker 1: it came back with a new, empty directory." in page

    (found,) = pair.run("partitions", "recover")["partitions"]
    one, two = found["replicas"]
    assert (found["topic"], found["awaits"], found["best"], found["elected"]) == ("orders", [], 2, None)
    assert (one["running"], one["log_end_offset"], one["doubt"]["cause"]) == (True, 0, "new-directory")
    assert (two["running"], two["log_end_offset"], two["doubt"]) == (True, FIRST, None)
    assert one["loses"] == {"offsets": FIRST, "committed": FIRST, "at_least": False, "unknown": []}
    assert two["loses"] == {"offsets": 0, "committed": 0, "at_least": False, "unknown": []}
    # Nothing has happened yet, and nothing happens without a yes.
    assert "--execute elects broker 2" in pair.run("partitions", "recover", "--elect", "best", json_too=False)
    asked = pair.run("partitions", "recover", "--elect", "2", "--execute", code=1, json_too=False)
    assert "Elect this leader?" in asked and "Aborted!" in asked
    assert "cannot be led by broker 3" in pair.run("partitions", "recover", "--elect", "3", code=1)
    assert pair.status_says([])["offline"] == ["orders-0"]

    named = ("--topic", "orders", "--partition", "0", "--elect", "2", "--execute", "--yes")
    (done,) = pair.run("partitions", "recover", *named)["partitions"]
    assert done["elected"] == 2
    assert "led by broker 2" in pair.run("partitions", "recover", *named, code=1)
    assert pair.run("partitions", "recover") == {"partitions": []}
    pair.produce("orders", 5)
    assert pair.read("orders", FIRST + 5) == [b"%d" % n for n in [*range(FIRST), *range(5)]]
    wait_until(lambda: not pair.run("cluster", "status")["under_replicated"], SECONDS_MAX, "both are in sync")
    assert "no partition needs `tidelog partitions recover` any more" in controller.log_text()


def test_a_broker_that_does_not_run_may_have_more_and_that_is_said(pair: Pair) -> None:
    pair.lost_with_its_disk("orders")
    pair.status_says([])
    pair.brokers[2].stop()
    wait_until(
        lambda: not pair.run("partitions", "recover")["partitions"][0]["replicas"][1]["running"],
        SECONDS_MAX,
        "broker 2 is gone",
    )
    (found,) = pair.run("partitions", "recover")["partitions"]
    one, two = found["replicas"]
    assert found["best"] is None and one["loses"]["unknown"] == [2]
    assert (two["running"], two["log_end_offset"], two["loses"]) == (False, None, None)
    assert "has no best choice" in pair.run("partitions", "recover", "--elect", "best", code=1)
    text = pair.run("partitions", "recover", json_too=False)
    assert "nothing known; unknown: what broker 2 has" in text
    chosen = ("--elect", "1", "--execute", "--yes")
    assert "orders-0: broker 1 leads" in pair.run("partitions", "recover", *chosen, json_too=False)


def test_clients_are_told_which_replicas_are_eligible_and_which_were(pair: Pair) -> None:
    with Admin(bootstrap_servers=pair.bootstrap) as admin:
        wanted = NewTopic("orders", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"})
        admin.create_topics([wanted])
    pair.produce("orders", FIRST)
    whole = pair.described("orders")
    assert (set(whole.isr_nodes), whole.eligible_leader_replicas, whole.last_known_elr) == ({1, 2}, (), ())
    pair.brokers[2].stop()
    # Below min.insync.replicas nothing more is committed: the member that left has all there is.
    wait_until(lambda: pair.described("orders").isr_nodes == (1,), SECONDS_MAX, "broker 2 is out of sync")
    assert pair.described("orders").eligible_leader_replicas == (2,)
    assert pair.described("orders").last_known_elr == ()
    shutil.rmtree(pair.brokers[2].data)
    pair.brokers[1].stop()
    pair.brokers[2].start()
    # It comes back without what made it eligible.
    wait_until(lambda: pair.described("orders").last_known_elr == (2,), SECONDS_MAX, "broker 2 is in doubt")
    lost = pair.described("orders")
    assert (lost.leader_id, lost.isr_nodes, lost.eligible_leader_replicas) == (-1, (1,), (2,))
    pair.brokers[1].start()
    wait_until(lambda: set(pair.described("orders").isr_nodes) == {1, 2}, SECONDS_MAX, "both are in sync")
    again = pair.described("orders")
    assert (again.eligible_leader_replicas, again.last_known_elr) == ((), ())
    assert pair.read("orders", FIRST) == [b"%d" % number for number in range(FIRST)]


def test_kafkas_own_tools_read_partitions_with_replicas_in_doubt(pair: Pair) -> None:
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    pair.lost_with_its_disk("orders")
    pair.status_says([])
    with_bootstrap = ("--bootstrap-server", pair.bootstrap)
    described = apache_kafka.java(
        "org.apache.kafka.tools.TopicCommand", *with_bootstrap, "--describe", "--topic", "orders"
    ).stdout
    assert "Leader: none" in described and "LastKnownElr: 1" in described, described
    elected = apache_kafka.java(
        "org.apache.kafka.tools.LeaderElectionCommand",
        *with_bootstrap,
        *("--election-type", "UNCLEAN", "--topic", "orders", "--partition", "0"),
    ).stdout
    assert "Successfully completed leader election (UNCLEAN) for partitions orders-0" in elected
    assert pair.read("orders", FIRST) == [b"%d" % n for n in range(FIRST)]
