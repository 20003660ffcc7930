"""Logins, TLS, permissions and virtual hosts of the AMQP listener."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.amqp.servers import AmqpBroker
from tests.conformance.amqp.taking import PERSISTENT, channel_closed, drained
from tests.conformance.certificates import make_certificates
from tests.conformance.process import free_port
from tidelog import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType
from tidelog.aio import Admin

USERS = 'user_ann="secret" user_bob="other"'
JAAS = f"org.apache.kafka.common.security.plain.PlainLoginModule required {USERS};"


class SecuredAmqpBroker(AmqpBroker):
    """The Kafka listener is a super user's; AMQP and AMQPS want a login."""

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        super().__init__(home, settings)
        self.tls_port = free_port()

    def command(self) -> list[str]:
        command = super().command()
        at = next(place for place, word in enumerate(command) if word.startswith("listeners="))
        command[at] += f",AMQPS://{self.host}:{self.tls_port}"
        return command


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredAmqpBroker]:
    home = tmp_path_factory.mktemp("rights")
    make_certificates(home)
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listener.name.amqp.plain.sasl.jaas.config": JAAS,
        "listener.name.amqps.plain.sasl.jaas.config": JAAS,
        "ssl.keystore.location": str(home / "broker.pem"),
        "connection.failed.authentication.delay.ms": "0",
    }
    running = SecuredAmqpBroker(home, settings)
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


def connected(
    broker: SecuredAmqpBroker, user: str, password: str, vhost: str = "/", tls: bool = False
) -> BlockingChannel:
    options = None
    if tls:
        context = ssl.create_default_context(cafile=str(broker.home / "ca.pem"))
        options = pika.SSLOptions(context, broker.host)
    parameters = pika.ConnectionParameters(
        broker.host,
        broker.tls_port if tls else broker.amqp_port,
        vhost,
        pika.PlainCredentials(user, password),
        ssl_options=options,
    )
    return pika.BlockingConnection(parameters).channel()


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
