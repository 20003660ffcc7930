"""Brokers that log in to each other with Kerberos replicate."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.kdc import REALM, Kdc
from tests.conformance.process import wait_until
from tests.faults.test_dev import Dev, new_dev
from tidelog import Admin, NewTopic, Producer, Security
from tidelog.errors import UnknownTopicOrPartition

__all__ = ["new_dev"]

pytestmark = pytest.mark.xdist_group("kerberos")

SECONDS_MAX = 90


@pytest.fixture
def kdc(tmp_path: Path) -> Iterator[Kdc]:
    """Its configuration is this process's, and so that of the brokers."""
    kdc = Kdc(tmp_path / "kdc")
    kdc.start()
    before = dict(os.environ)
    os.environ.update(kdc.environment)
    try:
        yield kdc
    finally:
        os.environ.clear()
        os.environ.update(before)
        kdc.stop()


def test_brokers_replicate_with_tickets(kdc: Kdc, new_dev: Callable[..., Dev]) -> None:
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    keytab = kdc.keytab("kafka/127.0.0.1")
    dev = new_dev(2)
    dev.settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f'{module} keyTab="{keytab}" principal="kafka/127.0.0.1@{REALM}";',
        "authorizer.class.name": "tidelog",
        "super.users": "User:kafka;User:alice",
    }
    assert dev.start() == f"ready kafka={dev.addresses}", dev.said
    alice = Security(
        mechanism="GSSAPI", kerberos_principal=f"alice@{REALM}", kerberos_keytab=kdc.keytab("alice")
    )
    with (
        Admin(bootstrap_servers=dev.addresses, security=alice) as admin,
        Producer(bootstrap_servers=dev.addresses, security=alice, acks="all") as producer,
    ):
        admin.create_topics([NewTopic("kept", 1, 2, configs={"min.insync.replicas": "2"})])

        def in_sync() -> bool:
            try:
                return len(admin.describe_topics(["kept"])["kept"].partitions[0].in_sync) == 2
            except UnknownTopicOrPartition:
                return False  # the broker that is asked has not heard of it yet

        wait_until(in_sync, SECONDS_MAX, "both replicas are in sync")
        assert producer.send("kept", b"on both").get(SECONDS_MAX).offset == 0
    code, said = dev.end()
    assert code == 0, said
