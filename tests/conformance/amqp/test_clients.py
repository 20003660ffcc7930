"""aio-pika, kombu and Celery, and answers without a queue; on Tidelog and on RabbitMQ."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aio_pika
import kombu
import pika
import pytest
from celery import Celery

from tests.conformance.amqp.conftest import Server
from tests.conformance.amqp.taking import Taker, channel_closed

SECONDS_MAX = 60.0
REPLY_TO = "amq.rabbitmq.reply-to"
WORKER = Path(__file__).parent / "celery_tasks.py"

Connect = Callable[..., pika.BlockingConnection]


def url(server: Server) -> str:
    return f"amqp://guest:guest@{server.host}:{server.amqp_port}/"


async def test_aio_pika(server: Server, name: Callable[[], str]) -> None:
    connection = await aio_pika.connect_robust(url(server))
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.set_qos(prefetch_count=10)
        exchange = await channel.declare_exchange(name(), aio_pika.ExchangeType.TOPIC, durable=True)
        queue = await channel.declare_queue(name(), durable=True)
        await queue.bind(exchange, "prices.*")
        message = aio_pika.Message(b"7", headers={"currency": "EUR"}, delivery_mode=2)
        await asyncio.gather(*(exchange.publish(message, "prices.pears") for _ in range(50)))
        taken = 0
        async with asyncio.timeout(SECONDS_MAX), queue.iterator() as messages:
            async for received in messages:
                async with received.process():
                    assert (received.body, received.headers) == (b"7", {"currency": "EUR"})
                taken += 1
                if taken == 50:
                    break
        await queue.delete(if_empty=True)
    ending = asyncio.all_tasks() - {asyncio.current_task()}
    if ending:
        await asyncio.wait(ending, timeout=SECONDS_MAX)


def test_kombu(server: Server, name: Callable[[], str]) -> None:
    exchange = kombu.Exchange(name(), "direct", durable=True)
    queue = kombu.Queue(name(), exchange, routing_key="video", max_priority=None)
    with kombu.Connection(url(server)) as connection:
        producer = connection.Producer(serializer="json")
        producer.publish({"name": "a.avi"}, exchange=exchange, routing_key="video", declare=[queue])
        taken: list[Any] = []

        def took(body: Any, message: kombu.Message) -> None:
            taken.append(body)
            message.ack()

        with connection.Consumer(queue, callbacks=[took]):
            while not taken:
                connection.drain_events(timeout=SECONDS_MAX)
    assert taken == [{"name": "a.avi"}]


@pytest.fixture
def celery(server: Server, tmp_path: Path, name: Callable[[], str]) -> Iterator[Celery]:
    """An application with a worker."""
    queue = name()
    environment = {**os.environ, "CELERY_URL": url(server), "CELERY_QUEUE": queue}
    log = (tmp_path / "worker.log").open("wb")
    worker = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "celery_tasks",
            "worker",
            "-c",
            "2",
            "-P",
            "threads",
            "-l",
            "info",
        ],
        cwd=WORKER.parent,
        env=environment,
        stdout=log,
        stderr=log,
    )
    application = Celery("tests", broker=url(server), backend="rpc://")
    application.conf.task_default_queue = queue
    yield application
    application.close()
    worker.send_signal(signal.SIGTERM)
    worker.wait(SECONDS_MAX)
    log.close()


def test_celery(celery: Celery) -> None:
    results = [celery.send_task("celery_tasks.add", (number, 1)) for number in range(30)]
    assert [result.get(timeout=SECONDS_MAX) for result in results] == list(range(1, 31))
    assert celery.send_task("celery_tasks.third_time", (3,)).get(timeout=SECONDS_MAX) == 2
    assert celery.send_task("celery_tasks.add", (1, 2), countdown=1).get(timeout=SECONDS_MAX) == 3
    answers = celery.control.ping(timeout=5)
    assert [list(answer.values()) for answer in answers] == [[{"ok": "pong"}]]


def test_answers_reach_the_channel_that_asked(connect: Connect, name: Callable[[], str]) -> None:
    asking, answering = connect().channel(), connect().channel()
    queue = name()
    answering.queue_declare(queue, auto_delete=True)
    answers = Taker(asking, REPLY_TO, auto_ack=True)
    asking.basic_publish("", queue, b"2 + 2", pika.BasicProperties(reply_to=REPLY_TO, correlation_id="c-1"))
    questions = Taker(answering, queue, auto_ack=True)
    questions.wait(1)
    reply_to = questions.taken[0].properties.reply_to
    assert reply_to.startswith(f"{REPLY_TO}.")
    answering.basic_publish("", reply_to, b"4", pika.BasicProperties(correlation_id="c-1"))
    assert answers.wait(1) == [b"4"]
    assert answers.taken[0].properties.correlation_id == "c-1"
    asking.close()
    answering.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        answering.basic_publish("", reply_to, b"late", mandatory=True)


def test_answers_need_a_consumer_that_takes_them(connect: Connect) -> None:
    connection = connect()
    closed = channel_closed(connection.channel().basic_consume, REPLY_TO, lambda *_: None)
    assert closed == (406, "PRECONDITION_FAILED - reply consumer cannot acknowledge")
    channel = connection.channel()
    channel.basic_publish("", "anybody", b"", pika.BasicProperties(reply_to=REPLY_TO))
    closed = channel_closed(channel.queue_declare, "", exclusive=True)
    assert closed == (406, "PRECONDITION_FAILED - fast reply consumer does not exist")
