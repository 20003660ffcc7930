"""Three brokers that reach each other with TLS, SCRAM and ACLs: replication, failover and groups work as without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.conformance.process import wait_until
from tests.faults.test_dev import TIDELOG, Dev, alive, new_dev

__all__ = ["new_dev"]

SECONDS_MAX = 180
RECORDS = 300
PASSWORD = "for-brokers-and-tests"


def secured(dev: Dev, home: Path) -> dict[str, str]:
    """Every broker's settings; `dev.start` gives each its own port on the one listener, which wants TLS and a log-in."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="admin" password="{PASSWORD}";',
        "ssl.keystore.location": str(home / "certs" / "broker.pem"),
        "ssl.truststore.location": str(home / "certs" / "ca.pem"),
        "authorizer.class.name": "tidelog",
        "super.users": "User:admin",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "group.initial.rebalance.delay.ms": "0",
    }


@pytest.fixture
def dev(new_dev: Callable[..., Dev], tmp_path: Path) -> Dev:
    made = subprocess.run([TIDELOG, "certs", str(tmp_path / "certs")], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    dev = new_dev(3)
    dev.settings = secured(dev, tmp_path)
    dev.add_scram = (f"SCRAM-SHA-256=[name=admin,password={PASSWORD}]",)
    return dev


def options(dev: Dev, home: Path) -> dict[str, Any]:
    return {
        "bootstrap.servers": dev.addresses,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "admin",
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(home / "certs" / "ca.pem"),
        "log_level": 0,
    }


def log_of(dev: Dev, number: int) -> str:
    return (dev.folder / f"broker-{number}.log").read_text(errors="replace")


def audit_events(login: dict[str, Any]) -> list[dict[str, Any]]:
    consumer = Consumer({**login, "group.id": "auditors", "enable.partition.eof": True})
    consumer.assign([TopicPartition("_audit", 0, OFFSET_BEGINNING)])
    events: list[dict[str, Any]] = []
    try:
        while (record := consumer.poll(SECONDS_MAX)) is not None and record.error() is None:
            events.append(json.loads(record.value()))
    finally:
        consumer.close()
    return events


def brokers_in(events: list[dict[str, Any]]) -> set[int]:
    return {event["broker"] for event in events}


def test_a_leader_is_killed_and_nothing_is_lost(dev: Dev, tmp_path: Path) -> None:
    assert dev.start() == f"ready kafka={dev.addresses}", dev.said
    login = options(dev, tmp_path)
    admin = AdminClient(login)
    topic = NewTopic("kept", 3, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["kept"].result(SECONDS_MAX)

    def partitions() -> Any:
        return admin.list_topics("kept", timeout=SECONDS_MAX).topics["kept"].partitions

    def in_sync() -> bool:
        return all(len(one.isrs) == 3 and one.leader > 0 for one in partitions().values())

    wait_until(in_sync, SECONDS_MAX, "all replicas are in sync")
    acknowledged: list[bytes] = []

    def delivered(error: Any, record: Any) -> None:
        if error is None:
            acknowledged.append(record.value())

    producer = Producer({**login, "enable.idempotence": True})
    transactional = Producer({**login, "transactional.id": "sums"})
    transactional.init_transactions(SECONDS_MAX)
    victim = partitions()[0].leader
    for number in range(RECORDS):
        producer.produce("kept", b"%d" % number, partition=number % 3, on_delivery=delivered)
        producer.poll(0)
        if number == RECORDS // 2:
            producer.flush(SECONDS_MAX)
            pid = dev.state()["brokers"][victim - 1]["pid"]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: not alive(pid), 10, "the leader is gone")
    assert producer.flush(SECONDS_MAX) == 0 and len(acknowledged) == RECORDS
    transactional.begin_transaction()
    transactional.produce("kept", b"committed")
    transactional.commit_transaction(SECONDS_MAX)

    consumer = Consumer(
        {
            **login,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["kept"])
    found: list[bytes] = []

    def read_all() -> bool:
        for record in consumer.consume(100, 1):
            if record.error() is None:
                found.append(record.value())
        return len(set(found)) == RECORDS + 1

    wait_until(read_all, SECONDS_MAX, "everything acknowledged is read")
    consumer.commit(asynchronous=False)
    consumer.close()
    assert sorted(found) == sorted([*acknowledged, b"committed"])

    answer = dev.restart(victim)
    assert answer.returncode == 0, answer.stderr
    wait_until(in_sync, SECONDS_MAX, "the killed broker has caught up")
    wait_until(
        lambda: brokers_in(audit_events(login)) == {1, 2, 3},
        SECONDS_MAX,
        "every broker has written audit events",
    )
    assert [event for event in audit_events(login) if event["operation"] == "CreateTopics"]
    for number in (1, 2, 3):
        log = log_of(dev, number)
        assert PASSWORD not in log and "Traceback" not in log, log[-3000:]
        assert "may not do CLUSTER_ACTION" not in log and "has no authentication" not in log
    code, said = dev.end()
    assert code == 0, said


def test_brokers_that_may_not_act_as_brokers_say_so(dev: Dev, tmp_path: Path) -> None:
    dev.settings = {**dev.settings, "super.users": "User:somebody-else"}
    assert dev.start() == f"ready kafka={dev.addresses}", dev.said
    for number in (1, 2, 3):
        assert "as User:admin, which may not do CLUSTER_ACTION" in log_of(dev, number)
