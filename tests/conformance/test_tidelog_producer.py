"""Tidelog's own producer, both faces, on the broker under test; read back with another client."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tidelog
from tests.conformance.clients import confluent_consume
from tidelog import Producer, aio
from tidelog.client.blocking_producer import ProducerSettings

Topic = Callable[..., str]


def test_a_record_comes_back_as_it_was_sent(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = producer.send(
            orders, b"value", key=b"key", headers={"a": b"1", "b": None}, timestamp=1_700_000_000_000
        )
        where = sent.get(timeout=30)
        assert where == tidelog.RecordMetadata(orders, 0, 0, 1_700_000_000_000)
        producer.send(orders, None, key=b"gone").get(30)
    first, second = (one.message for one in confluent_consume(bootstrap, orders, 2))
    assert (first.key, first.value, first.timestamp) == (b"key", b"value", 1_700_000_000_000)
    assert first.headers == (("a", b"1"), ("b", None))
    assert (second.key, second.value) == (b"gone", None)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_many_records_arrive_in_order_under_every_codec(bootstrap: str, topic: Topic, codec: str) -> None:
    orders = topic()
    with Producer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5) as producer:
        sent = [producer.send(orders, b"%d" % at) for at in range(5_000)]
        producer.flush(30)
        assert [one.get(0).offset for one in sent] == list(range(5_000))
    read = confluent_consume(bootstrap, orders, 5_000)
    assert [one.message.value for one in read] == [b"%d" % at for at in range(5_000)]


def test_threads_share_a_producer_and_each_keeps_its_order(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    with Producer(bootstrap_servers=bootstrap, batch_size=2_000) as producer:

        def work(name: int) -> None:
            for at in range(2_000):
                producer.send(orders, b"%d %d" % (name, at))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    read = confluent_consume(bootstrap, orders, 8_000)
    values = [tuple(map(int, (one.message.value or b"").split())) for one in read]
    for name in range(4):
        assert [at for who, at in values if who == name] == list(range(2_000))


def test_callbacks_hear_of_the_end_once(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    heard: list[Any] = []
    done = threading.Event()
    with Producer(bootstrap_servers=bootstrap, max_request_size=1_000) as producer:
        sent = producer.send(orders, b"x").add_callback(heard.append).add_errback(heard.append)
        sent.add_callback(lambda first, where: done.set(), "first")
        assert done.wait(30)
        assert heard == [sent.get()]
        sent.add_callback(heard.append)
        assert heard == [sent.get()] * 2, "what is done is told at once"
        assert sent.exception() is None


def test_a_callback_that_would_wait_for_its_own_thread_is_told_so(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    problems: list[BaseException] = []
    done = threading.Event()
    with Producer(bootstrap_servers=bootstrap) as producer:

        def wait(where: object) -> None:
            for attempt in (producer.flush, producer.send(orders, b"second").get):
                try:
                    attempt()
                except RuntimeError as problem:
                    problems.append(problem)
            done.set()

        producer.send(orders, b"first").add_callback(wait)
        assert done.wait(30)
    assert ["thread" in str(problems[0]), "await" in str(problems[1])] == [True, True]


def test_asyncio_awaits_deliveries(bootstrap: str, topic: Topic) -> None:
    orders = topic(partitions=3)

    async def scenario() -> None:
        async with aio.Producer(bootstrap_servers=bootstrap) as producer:
            sent = [await producer.send(orders, b"%d" % at, key=b"%d" % (at % 7)) for at in range(1_000)]
            where = await asyncio.gather(*sent)
            by_key: dict[int, set[int]] = {}
            for at, one in enumerate(where):
                by_key.setdefault(at % 7, set()).add(one.partition)
            assert all(len(partitions) == 1 for partitions in by_key.values())
            assert await producer.partitions_for(orders) == [0, 1, 2]

    asyncio.run(scenario())


def test_round_robin_takes_turns_and_sticky_ignores_keys(bootstrap: str, topic: Topic) -> None:
    orders = topic(partitions=3)
    with Producer(bootstrap_servers=bootstrap, partitioner="round_robin") as producer:
        where = [producer.send(orders, b"x", key=b"same").get(30).partition for _ in range(6)]
        assert sorted(where) == [0, 0, 1, 1, 2, 2] and where[:3] == where[3:]
    with Producer(bootstrap_servers=bootstrap, partitioner="sticky") as producer:
        where = [producer.send(orders, b"x", key=b"%d" % at).get(30).partition for at in range(50)]
        assert len(set(where)) == 1


def test_the_clients_thread_ends_with_the_last_client(bootstrap: str) -> None:
    def threads() -> int:
        return sum(one.name == "tidelog-client" for one in threading.enumerate())

    first = Producer(bootstrap_servers=bootstrap)
    with Producer(bootstrap_servers=bootstrap):
        assert threads() == 1
    assert threads() == 1
    first.close()
    assert threads() == 0
    with pytest.raises(tidelog.ClientClosed):
        first.send("orders", b"x")
    first.close()


def test_both_faces_take_the_same_options() -> None:
    signature = inspect.signature(aio.Producer.__init__)
    options = {name: one.annotation for name, one in signature.parameters.items() if name != "self"}
    offered = {name: kind.__forward_arg__ for name, kind in ProducerSettings.__annotations__.items()}
    assert offered == options
    asynchronous = {name for name in vars(aio.Producer) if not name.startswith("_")}
    assert asynchronous - {"start", "sender", "abortable", "send_bytes", "serialized"} == {
        name for name in vars(Producer) if not name.startswith("_")
    }
