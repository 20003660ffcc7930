"""`tidelog.rpc`: request and reply over queues, also for an AMQP client that asks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator

import pika
import pytest

from tests.conformance.amqp.servers import AmqpBroker
from tests.conformance.amqp.taking import Taker
from tidelog import errors
from tidelog.aio import Producer, Record
from tidelog.client.errors import ClientClosed
from tidelog.rpc import AsyncCaller, AsyncResponder, Caller, CallFailed, Responder

SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBroker]:
    running = AmqpBroker(tmp_path_factory.mktemp("rpc"), {})
    running.start()
    yield running
    running.stop()


async def upper(request: Record) -> bytes | None:
    if request.value == b"bad":
        raise ValueError("cannot shout this")
    return None if request.value is None else request.value.upper()


@contextlib.asynccontextmanager
async def responding(broker: AmqpBroker, queue: str) -> AsyncIterator[AsyncResponder]:
    responder = AsyncResponder(queue, upper, bootstrap_servers=broker.bootstrap)
    running = asyncio.get_running_loop().create_task(responder.run())
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await responder.ready.wait()
        yield responder
    finally:
        responder.stop()
        await running


async def test_answers_go_to_the_calls_that_wait_for_them(broker: AmqpBroker) -> None:
    async with (
        responding(broker, "shout"),
        responding(broker, "shout"),
        AsyncCaller("shout", bootstrap_servers=broker.bootstrap) as first,
        AsyncCaller("shout", bootstrap_servers=broker.bootstrap) as second,
    ):
        calls = [
            caller.call(f"{name} {number}".encode(), timeout=SECONDS_MAX)
            for number in range(20)
            for name, caller in (("a", first), ("b", second))
        ]
        answers = await asyncio.gather(*calls)
        assert [answer.value for answer in answers] == [
            f"{name} {number}".encode() for number in range(20) for name in "AB"
        ]
        assert (await first.call(None, timeout=SECONDS_MAX)).value is None


async def test_a_failure_reaches_its_caller_and_nobody_else(broker: AmqpBroker) -> None:
    async with (
        responding(broker, "careful"),
        AsyncCaller("careful", bootstrap_servers=broker.bootstrap) as caller,
    ):
        with pytest.raises(CallFailed, match="cannot shout this"):
            await caller.call(b"bad", timeout=SECONDS_MAX)
        assert (await caller.call(b"good", timeout=SECONDS_MAX)).value == b"GOOD"


async def test_a_call_that_was_given_up_is_not_worked_on(broker: AmqpBroker) -> None:
    async with AsyncCaller("idle", bootstrap_servers=broker.bootstrap) as caller:
        with pytest.raises(errors.RequestTimedOut):
            await caller.call(b"late", timeout=0.5)
        seen: list[bytes | None] = []

        async def answer(request: Record) -> bytes | None:
            seen.append(request.value)
            return b""

        responder = AsyncResponder("idle", answer, bootstrap_servers=broker.bootstrap)
        running = asyncio.get_running_loop().create_task(responder.run())
        await caller.call(b"in time", timeout=SECONDS_MAX)
        responder.stop()
        await running
        assert seen == [b"in time"]


async def test_a_call_ends_with_its_caller(broker: AmqpBroker) -> None:
    caller = AsyncCaller("nobody", bootstrap_servers=broker.bootstrap)
    await caller.start()
    call = asyncio.get_running_loop().create_task(caller.call(b"x"))
    await asyncio.sleep(0)
    await caller.close()
    with pytest.raises(ClientClosed):
        await call
    with pytest.raises(ClientClosed):
        await caller.call(b"y")


async def test_a_message_that_wants_no_answer_or_names_a_wrong_place_stops_nobody(broker: AmqpBroker) -> None:
    async with (
        responding(broker, "robust"),
        Producer(bootstrap_servers=broker.bootstrap) as producer,
        AsyncCaller("robust", bootstrap_servers=broker.bootstrap) as caller,
    ):
        for headers in ([], [("tidelog.reply-to", b"robust.replies/99")], [("tidelog.reply-to", b"?")]):
            await (await producer.send("robust", b"x", headers=headers))
        assert (await caller.call(b"y", timeout=SECONDS_MAX)).value == b"Y"


def test_the_blocking_faces(broker: AmqpBroker) -> None:
    def answer(request: Record) -> bytes | None:
        return (request.value or b"")[::-1]

    responder = Responder("turn", answer, bootstrap_servers=broker.bootstrap)
    thread = threading.Thread(target=responder.run)
    thread.start()
    try:
        with Caller("turn", bootstrap_servers=broker.bootstrap) as caller:
            assert caller.call(b"abc", key=b"k", timeout=SECONDS_MAX).value == b"cba"
    finally:
        responder.stop()
        thread.join(SECONDS_MAX)
    assert not thread.is_alive()
    with pytest.raises(ClientClosed):
        caller.call(b"abc")


async def test_an_amqp_client_is_answered(broker: AmqpBroker) -> None:
    async with responding(broker, "mixed"):
        assert await asyncio.to_thread(ask_with_pika, broker) == (b"HELLO", "7")


def ask_with_pika(broker: AmqpBroker) -> tuple[bytes, str]:
    connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.amqp_port))
    channel = connection.channel()
    replies = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_declare("mixed", durable=True)
    taker = Taker(channel, replies, auto_ack=True)
    properties = pika.BasicProperties(reply_to=replies, correlation_id="7")
    channel.basic_publish("", "mixed", b"hello", properties)
    (body,) = taker.wait(1)
    connection.close()
    return body, taker.taken[0].properties.correlation_id
