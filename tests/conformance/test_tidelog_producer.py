"""Tidelog's own producer, both faces, on the broker under test; read back with another client."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import tidelog
from tests.conformance.clients import confluent_consume
from tidelog import Producer, aio
from tidelog.client.blocking.producer import ProducerSettings
from tidelog.schema import Json, SerializationError, Text

Topic = Callable[..., str]


def test_a_record_comes_back_as_it_was_sent(bootstrap: str, topic: Topic) -> None:
    orders, now_ms = topic(), int(time.time() * 1000)
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = producer.send(orders, b"value", key=b"key", headers={"a": b"1", "b": None}, timestamp=now_ms)
        where = sent.get(timeout=30)
        assert where == tidelog.RecordMetadata(orders, 0, 0, now_ms)
        producer.send(orders, None, key=b"gone").get(30)
    first, second = (one.message for one in confluent_consume(bootstrap, orders, 2))
    assert (first.key, first.value, first.timestamp) == (b"key", b"value", now_ms)
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


async def test_asyncio_awaits_deliveries(bootstrap: str, topic: Topic) -> None:
    orders = topic(partitions=3)
    async with aio.Producer(bootstrap_servers=bootstrap) as producer:
        sent = [await producer.send(orders, b"%d" % at, key=b"%d" % (at % 7)) for at in range(1_000)]
        where = await asyncio.gather(*sent)
        by_key: dict[int, set[int]] = {}
        for at, one in enumerate(where):
            by_key.setdefault(at % 7, set()).add(one.partition)
        assert all(len(partitions) == 1 for partitions in by_key.values())
        assert await producer.partitions_for(orders) == [0, 1, 2]


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


def test_tables_are_written_row_by_row_even_when_they_are_larger_than_the_buffer(
    bootstrap: str, topic: Topic
) -> None:
    pa = pytest.importorskip("pyarrow")
    orders, count, now_ms = topic(), 5_000, int(time.time() * 1000)
    table = pa.table(
        {
            "key": [f"k{at}" for at in range(count)],
            "value": [None if at % 7 == 0 else b"%d" % at * 20 for at in range(count)],
            "at": pa.array([now_ms + at for at in range(count)], pa.timestamp("ms", tz="UTC")),
        }
    )
    with Producer(bootstrap_servers=bootstrap, buffer_memory=64 * 1024, compression_type="zstd") as producer:
        producer.send(orders, b"before")
        sent = producer.send_batch(orders, table, timestamp="at")
        assert sent.get(timeout=60) == count and sent.done()
        producer.send(orders, b"behind").get(30)
    before, *rows, behind = (one.message for one in confluent_consume(bootstrap, orders, count + 2))
    assert (before.value, behind.value) == (b"before", b"behind")
    for at, row in enumerate(rows):
        wanted = None if at % 7 == 0 else b"%d" % at * 20
        assert (row.key, row.value, row.timestamp) == (b"k%d" % at, wanted, now_ms + at)


async def test_tables_of_asyncio(bootstrap: str, topic: Topic) -> None:
    pa = pytest.importorskip("pyarrow")
    orders = topic(partitions=2)
    async with aio.Producer(bootstrap_servers=bootstrap) as producer:
        sent = await producer.send_batch(orders, pa.table({"value": ["a", "b"]}), partition=1)
        assert await sent == 2
        with pytest.raises(ValueError, match="there is no column 'v'"):
            await producer.send_batch(orders, pa.table({"value": ["a"]}), value="v")
    assert [one.message.value for one in confluent_consume(bootstrap, orders, 2, partition=1)] == [b"a", b"b"]


async def test_serializers_make_the_bytes(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    with Producer(bootstrap_servers=bootstrap, key_serializer=Text(), value_serializer=Json()) as producer:
        producer.send(orders, {"id": 1}, key="ü").get(30)
        with pytest.raises(SerializationError, match="text is needed"):
            producer.send(orders, {"id": 1}, key=7)
    async with aio.Producer(bootstrap_servers=bootstrap, value_serializer=str.encode) as producer:
        await (await producer.send(orders, "plain"))
    first, second = (one.message for one in confluent_consume(bootstrap, orders, 2))
    assert (first.key, first.value, second.value) == ("ü".encode(), b'{"id":1}', b"plain")
    refused = pytest.raises(TypeError, match="value must be bytes or None, not str")
    with Producer(bootstrap_servers=bootstrap) as producer, refused:
        producer.send(orders, "text")


def test_figures_tell_what_was_sent(bootstrap: str, topic: Topic) -> None:
    orders = topic()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(100):
            producer.send(orders, b"x" * 100)
        producer.flush(30)
        found = producer.metrics()
    assert (found.records_sent_total, found.records_failed_total, found.buffer_used_bytes) == (100, 0, 0)
    assert found.record_send_rate > 0 and found.request_latency_avg_ms > 0
