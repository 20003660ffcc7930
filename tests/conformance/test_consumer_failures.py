"""What Tidelog's consumer does when things go wrong: it recovers, or says what to do, within the time it has."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.consuming import fill, indexes, member, until
from tests.conformance.process import BrokerProcess, free_port
from tests.conformance.proxy import Proxy
from tests.conformance.topics import create_topic
from tidelog import errors
from tidelog.aio import Admin, Consumer, Record, TopicPartition, Unreachable

Factory = Callable[..., BrokerProcess]


def sockets() -> int:
    links = [Path(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
    return sum(os.readlink(one).startswith("socket:") for one in links if one.is_symlink())


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_broker_that_restarts_is_found_again_and_nothing_is_missed(
    end: str, own_broker: Factory
) -> None:
    broker = own_broker()
    await asyncio.to_thread(create_topic, broker.bootstrap, "t", 2)
    sent = await asyncio.to_thread(fill, broker.bootstrap, "t", partitions=2)
    found: list[Record] = []
    async with member(broker.bootstrap, "t", auto_commit_interval_ms=100) as consumer:
        await until(lambda: len(found) == 20, consumer, found=found)
        await asyncio.to_thread(getattr(broker, end))
        assert await consumer.poll(200) == []
        await asyncio.to_thread(broker.start)
        sent += await asyncio.to_thread(fill, broker.bootstrap, "t", partitions=2, start=10)
        await until(lambda: len({one.value for one in found}) == 40, consumer, found=found)
        await consumer.commit()
    assert {one.value for one in found} == set(sent)


async def test_a_half_open_connection_costs_the_timeout_and_no_more(own_broker: Factory) -> None:
    port = free_port()
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    broker = own_broker(advertised)
    with Proxy(port, (broker.host, broker.port)) as proxy:
        address = f"127.0.0.1:{port}"
        await asyncio.to_thread(create_topic, address, "t")
        await asyncio.to_thread(fill, address, "t")
        found: list[Record] = []
        async with member(
            address,
            "t",
            request_timeout_ms=1_000,
            connect_timeout_ms=1_000,
            fetch_max_wait_ms=100,
            enable_auto_commit=False,
        ) as consumer:
            await until(lambda: len(found) == 10, consumer, found=found)
            proxy.fall_silent()
            begun = time.monotonic()
            assert await consumer.poll(300) == []
            assert time.monotonic() - begun < 2
            with pytest.raises(errors.TidelogError) as caught:
                await consumer.commit(timeout_ms=500)
            assert caught.value.retriable
            with pytest.raises(errors.TidelogError):
                await consumer.committed()
            with pytest.raises(errors.TidelogError):
                await consumer.end_offsets([TopicPartition("t", 0)])
            assert time.monotonic() - begun < 8
            proxy.speak()
            await asyncio.to_thread(fill, broker.bootstrap, "t", start=10)

            async def read() -> None:
                while len(found) < 20:
                    try:
                        found.extend(await consumer.poll(200))
                    except errors.TidelogError as problem:
                        assert problem.retriable

            await read()
            proxy.fall_silent()
            begun = time.monotonic()
        assert time.monotonic() - begun < 10  # closing does not wait for ever either
        proxy.cut()


async def test_a_position_below_the_log_start_goes_where_the_reset_says(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    zero = TopicPartition(name, 0)
    fill(bootstrap, name)
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.alter_group_offsets(f"of-{name}", {zero: 2})
        await admin.delete_records({zero: 6})
    async with member(bootstrap, name) as consumer:
        found: list[Record] = []
        await until(lambda: len(found) == 4, consumer, found=found)
        assert [one.offset for one in found] == [6, 7, 8, 9]
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.alter_group_offsets(f"of-{name}", {zero: 2})
    async with member(bootstrap, name, auto_offset_reset="none") as consumer:
        with pytest.raises(errors.OffsetOutOfRange, match=rf"offset 2 of {name}-0 is not in the log: seek"):
            await until(lambda: False, consumer)


async def test_a_wrong_address_is_said_at_once() -> None:
    for address, reason in [
        ("127.0.0.1:1", "connection refused"),
        ("no-such-host.invalid:9092", "host name is not known"),
    ]:
        begun = time.monotonic()
        with pytest.raises(Unreachable, match=reason):
            async with Consumer("t", bootstrap_servers=address):
                pass
        assert time.monotonic() - begun < 10


async def test_a_cancelled_task_leaves_neither_sockets_nor_tasks(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    fill(bootstrap, name)
    before = sockets()
    for moment in (0.0, 0.01, 0.05, 0.2):

        async def read() -> None:
            async with member(bootstrap, name) as consumer:
                async for _ in consumer:
                    pass

        reading = asyncio.ensure_future(read())
        await asyncio.sleep(moment)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert sockets() == before


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_closing_leaves_the_group_at_once(
    protocol: str, bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    async with Admin(bootstrap_servers=bootstrap) as admin:
        async with member(bootstrap, name, group_protocol=protocol) as consumer:
            await until(lambda: indexes(consumer) == [0], consumer)
            assert len((await admin.describe_groups([f"of-{name}"]))[f"of-{name}"].members) == 1
        described = (await admin.describe_groups([f"of-{name}"]))[f"of-{name}"]
        assert described.members == () and described.state == "Empty"
