"""Tenants on three brokers: limits hold whichever broker is asked, at once, and after a restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.conformance.process import wait_until
from tests.faults.test_dev import Dev, new_dev, run

__all__ = ["new_dev"]

SECONDS_MAX = 90
PASSWORD = "for-brokers-and-tests"
TOPICS = 24


def login(dev: Dev, user: str, number: int | None = None) -> dict[str, Any]:
    """`number`: through this broker only, as far as the first request goes."""
    addresses = dev.addresses if number is None else dev.addresses.split(",")[number]
    return {
        "bootstrap.servers": addresses,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "log_level": 0,
    }


@pytest.fixture
def dev(new_dev: Callable[..., Dev]) -> Dev:
    dev = new_dev(3)
    dev.settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="admin" password="{PASSWORD}";',
        "authorizer.class.name": "tidelog",
        "super.users": "User:admin;User:acme/ann;User:zeta/zoe",
        "offsets.topic.replication.factor": "3",
    }
    dev.add_scram = tuple(
        f"SCRAM-SHA-256=[name={user},password={PASSWORD}]" for user in ("admin", "acme/ann", "zeta/zoe")
    )
    assert dev.start() == f"ready kafka={dev.addresses}", dev.said
    return dev


@pytest.fixture
def tidelog(dev: Dev) -> Callable[..., str]:
    config = dev.folder / "admin.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="admin" password="{PASSWORD}";\n'
    )

    def command(*words: str) -> str:
        done = run(
            *words,
            "--bootstrap",
            dev.addresses,
            "--command-config",
            str(config),
            "--timeout",
            str(SECONDS_MAX),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return command


def outcome(asked: dict[str, Any]) -> list[str]:
    names = []
    for answer in asked.values():
        try:
            answer.result(SECONDS_MAX)
            names.append("created")
        except KafkaException as refusal:
            names.append(refusal.args[0].name())
    return names


def test_limits_hold_on_every_broker(dev: Dev, tidelog: Callable[..., str]) -> None:
    tidelog("tenants", "create", "acme", "partitions_max=10")
    tidelog("tenants", "create", "zeta")
    admins = [AdminClient(login(dev, "acme/ann", number)) for number in range(3)]

    # Clients of all brokers at once
    def create(number: int) -> list[str]:
        topic = NewTopic(f"acme.race-{number}", 1, 3)
        return outcome(admins[number % 3].create_topics([topic], operation_timeout=SECONDS_MAX))

    with ThreadPoolExecutor(6) as executor:
        told = [name for names in executor.map(create, range(TOPICS)) for name in names]
    assert sorted(told) == ["POLICY_VIOLATION"] * (TOPICS - 10) + ["created"] * 10
    for admin in admins:
        wait_until(
            lambda one=admin: len(one.list_topics(timeout=SECONDS_MAX).topics) == 10, SECONDS_MAX, "topics"
        )
    other = AdminClient(login(dev, "zeta/zoe"))
    assert not other.list_topics(timeout=SECONDS_MAX).topics
    assert outcome(other.create_topics([NewTopic("acme.more", 1, 3)])) == ["TOPIC_AUTHORIZATION_FAILED"]

    # Stored bytes are those of all replicas, whoever leads
    tidelog("tenants", "limits", "acme", "stored_bytes_max=60000")
    producer = Producer(login(dev, "acme/ann") | {"acks": "all"})

    def refused_everywhere() -> bool:
        errors: list[Any] = []
        for number in range(TOPICS):
            if f"acme.race-{number}" in made:
                producer.produce(
                    f"acme.race-{number}", b"x" * 1000, on_delivery=lambda error, _: errors.append(error)
                )
        assert producer.flush(SECONDS_MAX) == 0
        return all(error is not None and error.name() == "POLICY_VIOLATION" for error in errors)

    made = set(admins[0].list_topics(timeout=SECONDS_MAX).topics)
    wait_until(refused_everywhere, SECONDS_MAX, "the tenant writes on", every=0.5)
    used = json.loads(tidelog("tenants", "usage", "acme", "--json"))[0]
    assert used["stored_bytes"] >= 60000 and used["partitions"] == 10

    # A broker that comes back knows it all
    assert dev.restart(1).returncode == 0
    listed = json.loads(tidelog("tenants", "list", "--json"))
    assert {one["tenant"]: one["limits"] for one in listed} == {
        "acme": {"partitions_max": 10, "stored_bytes_max": 60000},
        "zeta": {},
    }
    wait_until(refused_everywhere, SECONDS_MAX, "the tenant writes after a restart", every=0.5)
    tidelog("tenants", "limits", "acme", "stored_bytes_max=")
    wait_until(lambda: not refused_everywhere(), SECONDS_MAX, "the tenant is still full", every=0.5)
