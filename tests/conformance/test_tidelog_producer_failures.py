"""What Tidelog's own producer does when the broker restarts, dies, falls silent or was never there."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.conformance.clients import confluent_consume
from tests.conformance.conftest import BrokerFactory
from tests.conformance.process import BrokerProcess, free_port
from tests.conformance.proxy import Proxy
from tests.conformance.raw import Connection
from tests.conformance.topics import create_topic, list_offset
from tidelog import BufferExhausted, ClientClosed, DeliveryTimedOut, Producer, Unreachable, aio


def sockets() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            pass
    return found


@contextmanager
def paused(broker: BrokerProcess) -> Iterator[None]:
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    start = time.monotonic()
    yield
    taken = time.monotonic() - start
    assert taken < seconds, f"it took {taken:.1f} s"


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_restarts_gets_every_record_once_and_in_order(
    own_broker: BrokerFactory, how: str
) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, "orders")
    with Producer(bootstrap_servers=broker.bootstrap, batch_size=500, retry_backoff_ms=20) as producer:
        sent = []
        for number in range(3_000):
            sent.append(producer.send("orders", b"%d" % number))
            if number == 1_000:
                sent[500].get(30)
                getattr(broker, how)()
                broker.start()
        offsets = [one.get(60).offset for one in sent]
    assert offsets == list(range(3_000))
    read = confluent_consume(broker.bootstrap, "orders", 3_000)
    assert [one.message.value for one in read] == [b"%d" % number for number in range(3_000)]


def test_an_address_where_nobody_is_is_one_error_at_once() -> None:
    port = free_port()
    with within(5), pytest.raises(Unreachable, match=rf"127.0.0.1:{port}: connection refused; is it running"):
        Producer(bootstrap_servers=f"127.0.0.1:{port}")
    with within(10), pytest.raises(Unreachable, match="is the address right"):
        Producer(bootstrap_servers="no-such-host.invalid:9092", connect_timeout_ms=5_000)
    assert not [one for one in threading.enumerate() if one.name == "tidelog-client"]


def test_somebody_who_is_no_broker_is_one_error_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with within(3), pytest.raises(Unreachable, match="no answer within 500 ms"):
            Producer(bootstrap_servers=address, connect_timeout_ms=500)

        def hang_up() -> None:
            for _ in range(2):
                taken, _ = silent.accept()
                taken.recv(1_000)
                taken.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                taken.close()

        threading.Thread(target=hang_up, daemon=True).start()
        with within(5), pytest.raises(Unreachable, match="is it a Kafka broker's port"):
            Producer(bootstrap_servers=address)


def test_a_half_open_connection_is_left_after_the_request_timeout(own_broker: BrokerFactory) -> None:
    port = free_port()
    broker = own_broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    with Proxy(port, (broker.host, broker.port)) as proxy:
        create_topic(broker.bootstrap, "orders")
        with Producer(
            bootstrap_servers=f"127.0.0.1:{port}", request_timeout_ms=500, connect_timeout_ms=500
        ) as producer:
            producer.send("orders", b"0").get(30)
            proxy.fall_silent()
            sent = producer.send("orders", b"1")
            with within(2), pytest.raises(DeliveryTimedOut, match="still on its way"):
                sent.get(0.7)
            proxy.speak()
            assert sent.get(30).offset == 1
            proxy.cut()
            assert producer.send("orders", b"2").get(30).offset == 2
    with Connection(broker.bootstrap) as connection:
        assert list_offset(connection, "orders", -1).offset == 3


def test_a_slow_broker_costs_the_callers_timeout_and_no_more(own_broker: BrokerFactory) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, "orders")
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", b"0").get(30)
        with paused(broker):
            sent = producer.send("orders", b"1")
            with within(3), pytest.raises(DeliveryTimedOut):
                sent.get(0.3)
            with (
                within(3),
                pytest.raises(DeliveryTimedOut, match=r"1 records were not acknowledged within 0.3 s"),
            ):
                producer.flush(0.3)
        assert sent.get(30).offset == 1


def test_records_are_given_up_after_the_delivery_timeout(own_broker: BrokerFactory) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, "orders")
    with Producer(
        bootstrap_servers=broker.bootstrap, delivery_timeout_ms=800, request_timeout_ms=400
    ) as producer:
        producer.send("orders", b"0").get(30)
        with paused(broker):
            sent = [producer.send("orders", b"1") for _ in range(10)]
            with within(5):
                producer.flush()
            for one in sent:
                with pytest.raises(DeliveryTimedOut, match="within 800 ms"):
                    one.get(0)


def test_a_full_buffer_blocks_for_as_long_as_it_may(own_broker: BrokerFactory) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, "orders")
    with Producer(bootstrap_servers=broker.bootstrap, buffer_memory=100_000, max_block_ms=400) as producer:
        producer.send("orders", b"0").get(30)
        full = pytest.raises(BufferExhausted, match="buffer_memory of 100000 bytes stayed full")
        with paused(broker), within(5), full:
            for _ in range(1_000):
                producer.send("orders", b"x" * 1_000)
        producer.flush(30)
        assert producer.send("orders", b"room again").get(30).offset > 50


def test_close_says_what_it_could_not_deliver(own_broker: BrokerFactory) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, "orders")
    producer = Producer(bootstrap_servers=broker.bootstrap)
    producer.send("orders", b"0").get(30)
    with paused(broker):
        sent = [producer.send("orders", b"x") for _ in range(7)]
        with within(5), pytest.raises(DeliveryTimedOut, match=r"7 records were not delivered within 0.3 s"):
            producer.close(timeout=0.3)
        for one in sent:
            with pytest.raises(ClientClosed):
                one.get(0)


def test_an_error_in_the_block_is_not_held_up_by_a_broker_that_is_gone(own_broker: BrokerFactory) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, "orders")
    with (
        within(15),
        pytest.raises(ZeroDivisionError),
        Producer(bootstrap_servers=broker.bootstrap) as producer,
    ):
        producer.send("orders", b"0").get(30)
        broker.kill()
        sent = producer.send("orders", b"x")
        raise ZeroDivisionError
    with pytest.raises(ClientClosed):
        sent.get(0)


async def test_cancelled_tasks_leave_neither_sockets_nor_tasks(
    own_broker: BrokerFactory, tmp_path: Path
) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, "orders")
    before = sockets()

    async def work(started: asyncio.Event) -> None:
        async with aio.Producer(bootstrap_servers=broker.bootstrap, buffer_memory=10_000) as producer:
            await (await producer.send("orders", b"0"))
            os.kill(broker.pid, signal.SIGSTOP)
            started.set()
            while True:
                await (await producer.send("orders", b"x" * 1_000))

    try:
        started = asyncio.Event()
        task = asyncio.create_task(work(started))
        await started.wait()
        await asyncio.sleep(0.1)
        task.cancel()
        with within(5):
            await asyncio.gather(task, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert sockets() == before


def test_an_interrupted_wait_leaves_a_producer_that_works(
    own_broker: BrokerFactory, request: pytest.FixtureRequest
) -> None:
    # What a shell starts in the background ignores the signal, and so do its children.
    request.addfinalizer(partial(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT)))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    broker = own_broker()
    create_topic(broker.bootstrap, "orders")
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", b"0").get(30)
        with paused(broker):
            producer.send("orders", b"1")
            main = threading.main_thread().ident
            assert main is not None
            threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
            with within(5), pytest.raises(KeyboardInterrupt):
                producer.flush()
        producer.flush(30)
        assert producer.send("orders", b"2").get(30).offset == 2


def test_a_forked_child_has_no_part_in_its_parents_clients(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        child = os.fork()
        if not child:
            code = 1
            try:
                producer.flush(5)
            except RuntimeError as problem:
                code = 0 if "forked" in str(problem) else 2
            try:
                with Producer(bootstrap_servers=bootstrap) as own:
                    own.send("forked", b"x").get(30)
            except BaseException:
                code = 3
            os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert producer.send("forked", b"y").get(30).offset >= 0
