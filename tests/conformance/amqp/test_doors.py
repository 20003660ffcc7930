"""Every method of an open channel, from a user who has no right: refused, or on the list of methods that touch only what
the channel itself has.  A method without a row fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.amqp.raw import Raw
from tests.conformance.amqp.secured import SecuredAmqpBroker, connected, secured_broker
from tidelog import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType
from tidelog.aio import Admin
from tidelog.gateways.amqp.methods.table import HANDLERS

REFUSED = 403

# Methods about deliveries, consumers, confirms and transactions of the channel: publishing, consuming and getting, which
# these follow, are refused already.
OWN = {
    "channel.flow",
    "basic.qos",
    "basic.cancel",
    "basic.ack",
    "basic.nack",
    "basic.reject",
    "basic.recover",
    "basic.recover-async",
    "confirm.select",
    "tx.select",
    "tx.commit",
    "tx.rollback",
}
QUEUE, EXCHANGE = {"queue": "ann-q"}, {"exchange": "ann-x"}
ROWS: dict[str, dict[str, Any]] = {
    "exchange.declare": {"exchange": "new", "type": "direct"},
    "exchange.delete": EXCHANGE,
    "exchange.bind": {"destination": "ann-x", "source": "ann-y"},
    "exchange.unbind": {"destination": "ann-x", "source": "ann-y"},
    "queue.declare": {"queue": "new"},
    "queue.bind": {**QUEUE, **EXCHANGE},
    "queue.unbind": {**QUEUE, **EXCHANGE},
    "queue.purge": QUEUE,
    "queue.delete": QUEUE,
    "basic.consume": QUEUE,
    "basic.get": QUEUE,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredAmqpBroker]:
    running = secured_broker(tmp_path_factory.mktemp("doors"))
    running.start()
    asyncio.run(_prepare(running.bootstrap))
    ann = connected(running, "ann", "secret")
    ann.queue_declare("ann-q", durable=True)
    for name in ("ann-x", "ann-y"):
        ann.exchange_declare(name, "direct", durable=True)
    yield running
    running.stop()


async def _prepare(bootstrap: str) -> None:
    topics, everything, allow = AclResourceType.TOPIC, AclOperation.ALL, AclPermission.ALLOW
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_acls(
            [AclBinding(topics, AclPatternType.PREFIXED, "ann-", "User:ann", "*", everything, allow)]
        )


def opened(broker: SecuredAmqpBroker) -> Raw:
    client = Raw(broker).open(login=b"\0bob\0other")
    client.expect("connection.open-ok")
    client.method(1, "channel.open")
    client.expect("channel.open-ok")
    return client


def test_every_method_has_a_row() -> None:
    assert set(ROWS) | OWN == set(HANDLERS)
    assert not set(ROWS) & OWN


@pytest.mark.parametrize("name", ROWS)
def test_a_method_without_the_right_is_refused(broker: SecuredAmqpBroker, name: str) -> None:
    client = opened(broker)
    client.method(1, name, **ROWS[name])
    assert client.expect("channel.close").fields["reply_code"] == REFUSED


@pytest.mark.parametrize("target", [{"exchange": "ann-x"}, {"exchange": "", "routing_key": "ann-q"}])
def test_publishing_without_the_right_is_refused(broker: SecuredAmqpBroker, target: dict[str, str]) -> None:
    client = opened(broker)
    client.method(1, "basic.publish", **target)
    assert client.expect("channel.close").fields["reply_code"] == REFUSED
