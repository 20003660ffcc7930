"""Every test runs on Tidelog and on RabbitMQ.  Where both disagree with a test, the test is wrong."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.amqp.servers import AmqpBroker, RabbitMq

Server = AmqpBroker | RabbitMq


@pytest.fixture(scope="session", params=[AmqpBroker, RabbitMq], ids=["tidelog", "rabbitmq"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running: Server = request.param(tmp_path_factory.mktemp("amqp"), {})
    running.start()
    yield running
    assert running.alive(), f"the server died during the tests: {running.log_tail()}"
    running.discard()


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., pika.BlockingConnection]]:
    opened: list[pika.BlockingConnection] = []

    def connected(**options: object) -> pika.BlockingConnection:
        parameters = pika.ConnectionParameters(server.host, server.amqp_port, **options)
        opened.append(pika.BlockingConnection(parameters))
        return opened[-1]

    yield connected
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def connection(connect: Callable[..., pika.BlockingConnection]) -> pika.BlockingConnection:
    return connect()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


@pytest.fixture
def name() -> Callable[[], str]:
    prefix, numbers = f"t-{uuid.uuid4().hex[:12]}", itertools.count()
    return lambda: f"{prefix}-{next(numbers)}"


@pytest.fixture
def queue(channel: BlockingChannel, name: Callable[[], str]) -> Iterator[str]:
    """A durable queue."""
    declared = name()
    channel.queue_declare(declared, durable=True)
    yield declared
    fresh = channel.connection.channel() if channel.connection.is_open else None
    if fresh is not None:
        fresh.queue_delete(declared)
