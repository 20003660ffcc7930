"""Logins, TLS, permissions and virtual hosts of the AMQP listener."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.amqp.secured import SecuredAmqpBroker, connected, secured_broker
from tests.conformance.amqp.taking import PERSISTENT, channel_closed, drained
from tidelog import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType
from tidelog.aio import Admin


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredAmqpBroker]:
    running = secured_broker(tmp_path_factory.mktemp("rights"))
    running.start()
    asyncio.run(_prepare(running.bootstrap))
    yield running
    running.stop()


async def _prepare(bootstrap: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_acls(
            [
                AclBinding(AclResourceType.TOPIC, pattern, name, user, "*", operation, AclPermission.ALLOW)
                for pattern, name, user, operation in (
                    (AclPatternType.PREFIXED, "ann-", "User:ann", AclOperation.ALL),
                    (AclPatternType.LITERAL, "ann-open", "User:bob", AclOperation.READ),
                    (AclPatternType.LITERAL, "ann-drop", "User:bob", AclOperation.WRITE),
                )
            ]
        )


def test_a_wrong_password_is_refused(broker: SecuredAmqpBroker) -> None:
    for user, password in (("ann", "wrong"), ("nobody", "secret"), ("guest", "guest")):
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connected(broker, user, password)
    assert connected(broker, "ann", "secret").is_open


def test_permissions_are_acls_on_topics(broker: SecuredAmqpBroker) -> None:
    ann = connected(broker, "ann", "secret")
    for queue in ("ann-open", "ann-drop"):
        ann.queue_declare(queue, durable=True)
    ann.exchange_declare("ann-x", "fanout", durable=True)
    ann.queue_bind("ann-open", "ann-x")
    ann.confirm_delivery()
    ann.basic_publish("ann-x", "", b"one", PERSISTENT, mandatory=True)

    def bob() -> BlockingChannel:
        return connected(broker, "bob", "other")

    def refused(permission: str, kind: str, name: str) -> tuple[int, str]:
        return (
            403,
            f"ACCESS_REFUSED - {permission} access to {kind} '{name}' in vhost '/' refused for user 'bob'",
        )

    assert drained(bob(), "ann-open") == [b"one"]
    assert channel_closed(bob().basic_get, "ann-drop") == refused("read", "queue", "ann-drop")
    assert channel_closed(bob().queue_declare, "mine") == refused("configure", "queue", "mine")
    assert channel_closed(bob().queue_delete, "ann-open") == refused("configure", "queue", "ann-open")
    assert channel_closed(bob().exchange_declare, "mine") == refused("configure", "exchange", "mine")
    assert channel_closed(bob().queue_bind, "ann-open", "ann-x") == refused("write", "queue", "ann-open")
    writing = bob()
    writing.basic_publish("", "ann-drop", b"two")
    writing.basic_publish("ann-x", "", b"three")
    closed = channel_closed(writing.queue_declare, "ann-open", passive=True)
    assert closed == refused("write", "exchange", "ann-x")
    assert drained(ann, "ann-drop") == [b"two"]


def test_a_virtual_host_is_a_tenant(broker: SecuredAmqpBroker) -> None:
    with pytest.raises(
        pika.exceptions.ProbableAccessDeniedError, match="NOT_ALLOWED - vhost nowhere not found"
    ):
        connected(broker, "ann", "secret", "nowhere")


def test_amqps_encrypts(broker: SecuredAmqpBroker) -> None:
    channel = connected(broker, "ann", "secret", tls=True)
    channel.queue_declare("ann-tls", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "ann-tls", b"x" * 300_000, PERSISTENT, mandatory=True)
    assert drained(channel, "ann-tls") == [b"x" * 300_000]
