"""Two brokers with an authorizer: the leader decides with the rights of the user who asked the other broker over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from shutil import which

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.process import free_port, wait_until
from tests.conformance.test_http_security import PASSWORDS, SecureBroker, ask, basic, settings
from tests.contract.etcd import Etcd
from tidelog import Security
from tidelog.aio import Admin, NewTopic
from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType

pytestmark = [
    pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no HTTP port"),
    pytest.mark.skipif(which("etcd") is None, reason="needs etcd"),
]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SecureBroker]]:
    etcd = Etcd(tmp_path_factory.mktemp("etcd"))
    etcd.start()
    brokers = []
    try:
        for node in (1, 2):
            port, secure = free_port(), free_port()
            given = settings(port, secure) | {
                "node.id": str(node),
                "tidelog.metadata": f"etcd://{etcd.endpoints[0]}/secured",
                # Brokers ask each other without a login here, as somebody who may ask anything.
                "super.users": "User:ann;User:ANONYMOUS",
            }
            broker = SecureBroker(tmp_path_factory.mktemp(f"node{node}"), given)
            broker.port, broker.secure_port = port, secure
            brokers.append(broker)
            broker.start()
        asyncio.run(_prepare(brokers[0].secure))
        yield brokers
    finally:
        for broker in brokers:
            broker.stop()
        etcd.stop()


async def _prepare(bootstrap: str) -> None:
    login = Security(mechanism="PLAIN", username="ann", password=PASSWORDS["ann"])
    async with Admin(bootstrap_servers=bootstrap, security=login) as admin:
        await admin.create_topics([NewTopic(name, 4, 1) for name in ("c-1", "other")])
        await admin.create_acls(
            AclBinding(
                AclResourceType.TOPIC,
                AclPatternType.PREFIXED,
                "c-",
                "User:cat",
                "*",
                AclOperation.ALL,
                AclPermission.ALLOW,
            )
        )


def test_records_reach_every_leader_with_the_rights_of_the_user(two: list[SecureBroker]) -> None:
    for broker in two:
        for partition in range(4):
            body = json.dumps({"records": [{"value": "eA==", "partition": partition}]})
            kind = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
            written = ask(broker, "POST", "/topics/c-1", basic("cat") | kind, body)
            assert written.status == 200 and written.body["offsets"][0].get("offset") is not None, written
            assert ask(broker, "POST", "/topics/other", basic("cat") | kind, body).status == 403


def test_the_leader_of_the_registry_decides_for_the_user(two: list[SecureBroker]) -> None:
    schema = json.dumps({"schema": '"string"'})
    for broker in two:
        made = ask(broker, "POST", "/subjects/c-1-value/versions", basic("cat"), schema)
        assert made.status == 200, made
        assert ask(broker, "POST", "/subjects/other-value/versions", basic("cat"), schema).status == 403
        assert ask(broker, "POST", "/subjects/other-value/versions", basic("ann"), schema).status == 200
        assert ask(broker, "GET", "/subjects", basic("cat")).body == ["c-1-value"]
        assert ask(broker, "GET", "/subjects").status == 401


def test_the_console_knows_the_figures_of_the_other_broker(two: list[SecureBroker]) -> None:
    def both_known() -> bool:
        pages = [ask(broker, "GET", "/console/brokers", basic("ann")) for broker in two]
        return all(page.status == 200 and page.text.count("MiB") >= 2 for page in pages)

    wait_until(both_known, 60, "the memory of both brokers is shown")
    assert "refused the HTTP login" not in _log(two)
    assert ask(two[0], "GET", "/console/peer/process", basic("cat")).status == 403


def _log(brokers: list[SecureBroker]) -> str:
    return "".join((broker.home / "broker.log").read_text() for broker in brokers)
