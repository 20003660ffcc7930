"""A broker whose AMQP listeners want a log-in, with ACLs; its Kafka listener is a super user's."""

from __future__ import annotations

import ssl
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.amqp.servers import AmqpBroker
from tests.conformance.certificates import make_certificates
from tests.conformance.process import free_port

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


def secured_broker(home: Path, more: dict[str, str] | None = None) -> SecuredAmqpBroker:
    make_certificates(home)
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listener.name.amqp.plain.sasl.jaas.config": JAAS,
        "listener.name.amqps.plain.sasl.jaas.config": JAAS,
        "ssl.keystore.location": str(home / "broker.pem"),
        "connection.failed.authentication.delay.ms": "0",
    }
    return SecuredAmqpBroker(home, settings | (more or {}))


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
