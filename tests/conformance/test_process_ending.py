"""How `consumer.process` ends: interrupted, cancelled twice, closed elsewhere, left by `sys.exit()`."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.clients import Message, confluent_produce
from tests.conformance.consuming import drain, run
from tests.conformance.test_process import committed, keyed, member
from tidelog import Admin, ClientClosed, NewTopic, ProcessingFailed, Producer
from tidelog import Consumer as BlockingConsumer
from tidelog.aio import Consumer, Record
from tidelog.schema import SerializationError

INTERRUPTED = """
import os, sys, time
from tidelog import Consumer

def work(record):
    if record.offset == {stuck}:
        raise ValueError("not yet")
    time.sleep(0.005)
    os.write(1, b"%d\\n" % record.offset)

try:
    with Consumer({topic!r}, bootstrap_servers={bootstrap!r}, group_id={group!r}, auto_offset_reset="earliest") as consumer:
        consumer.process(work, workers=4, retry_backoff_ms=10_000, retry_backoff_max_ms=10_000, commit_interval_ms=60_000)
except KeyboardInterrupt:
    os.write(1, b"-1\\n")
"""


@pytest.mark.parametrize("stuck", [-1, 7])
def test_an_interrupt_commits_all_that_is_done_and_nothing_else(
    bootstrap: str, topic: Callable[..., str], stuck: int
) -> None:
    name = topic()
    keyed(bootstrap, name, 2_000, keys=2_000)
    program = INTERRUPTED.format(topic=name, bootstrap=bootstrap, group=f"of-{name}", stuck=stuck)
    worker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    done = []
    for line in worker.stdout:
        done.append(int(line))
        if len(done) == 100:
            worker.send_signal(signal.SIGINT)
    worker.stdout.close()
    assert worker.wait(30) == 0
    assert done.pop() == -1, "it ends after everything that was running"
    assert 100 <= len(done) < 2_000
    missing = min(set(range(2_001)) - set(done))
    assert run(committed(bootstrap, name)) == missing
    assert missing == 7 if stuck == 7 else missing == len(done)


ITERATING = """
import os, time
from tidelog import Consumer

try:
    with Consumer({topic!r}, bootstrap_servers={bootstrap!r}, group_id={group!r}, auto_offset_reset="earliest") as consumer:
        for record in consumer:
            os.write(1, b"%d\\n" % record.offset)
            while record.offset == 50:
                time.sleep(0.01)
except KeyboardInterrupt:
    pass
"""


def test_an_interrupted_loop_commits_what_was_done_before(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    keyed(bootstrap, name, 200)
    program = ITERATING.format(topic=name, bootstrap=bootstrap, group=f"of-{name}")
    worker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    for line in worker.stdout:
        if int(line) == 50:
            worker.send_signal(signal.SIGINT)
    worker.stdout.close()
    assert worker.wait(30) == 0
    assert run(committed(bootstrap, name)) == 50


async def test_cancelled_twice_it_does_not_wait_for_threads_and_commits_nothing_of_them(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    release = threading.Event()

    try:
        name = topic()
        keyed(bootstrap, name, 500, keys=500)
        begun: list[int] = []
        done: list[int] = []

        def work(record: Record) -> None:
            begun.append(record.offset)
            if record.offset == 5 or record.offset > 50:
                release.wait()
            done.append(record.offset)

        async with member(bootstrap, name) as consumer:
            processing = asyncio.ensure_future(consumer.process(work, workers=4))
            while len(begun) < len(done) + 4 or len(done) < 50:
                await asyncio.sleep(0.01)
            processing.cancel()
            await asyncio.sleep(0.05)
            assert not processing.done(), "it waits for the threads"
            processing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await processing
        assert await committed(bootstrap, name) == 5
        release.set()
        assert len(begun) == 54, "nothing began after it was cancelled"
    finally:
        release.set()


def test_closing_in_another_thread_waits_for_what_is_running(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    keyed(bootstrap, name, 20)
    running, release = threading.Event(), threading.Event()
    problems: list[BaseException] = []

    def work(record: Record) -> None:
        running.set()
        with pytest.raises(RuntimeError, match="would wait for itself"):
            consumer.close()
        release.wait()

    def process() -> None:
        try:
            consumer.process(work, order="partition")
        except BaseException as problem:
            problems.append(problem)

    consumer = BlockingConsumer(
        name, bootstrap_servers=bootstrap, group_id=f"of-{name}", auto_offset_reset="earliest"
    )
    thread = threading.Thread(target=process)
    thread.start()
    running.wait()
    threading.Timer(0.2, release.set).start()
    consumer.close(30)
    thread.join(30)
    assert [type(one) for one in problems] == [ClientClosed]
    assert run(committed(bootstrap, name)) == 1


@pytest.mark.parametrize("leaving", [SystemExit, KeyboardInterrupt])
def test_leaving_the_program_in_the_work_does_not_end_the_other_clients(
    bootstrap: str, topic: Callable[..., str], leaving: type[BaseException]
) -> None:
    name = topic()
    keyed(bootstrap, name, 20)

    def work(record: Record) -> None:
        if record.offset == 5:
            raise leaving("enough")

    def callback(_: Any) -> None:
        raise leaving("enough")

    with Producer(bootstrap_servers=bootstrap) as producer:
        with (
            pytest.raises(leaving, match="enough"),
            BlockingConsumer(
                name, bootstrap_servers=bootstrap, group_id=f"of-{name}", auto_offset_reset="earliest"
            ) as consumer,
        ):
            consumer.process(work, order="partition", dead_letter_topic=topic())
        told: list[int] = []
        sent = producer.send(name, b"more").add_callback(callback).add_callback(told.append)
        sent.get(30)
        producer.flush(30)
        assert producer.send(name, b"more").get(30).offset == 21 and len(told) == 1
    assert run(committed(bootstrap, name)) == 5


async def test_a_member_without_partitions_is_idle(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    async with member(bootstrap, name) as first, member(bootstrap, name) as second:
        # One of them has the only partition, the other has none.
        await asyncio.gather(*[one.process(print, idle_timeout_ms=1_000) for one in (first, second)])
        assert len(first.assignment()) + len(second.assignment()) == 1


def test_the_end_does_not_wait_for_another_try_of_others(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    keyed(bootstrap, name, 2, keys=2)
    attempts: list[int] = []

    def work(record: Record) -> None:
        attempts.append(record.offset)
        if record.offset == 1:
            raise SerializationError("never")
        raise ValueError("again, later")

    with BlockingConsumer(name, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        with pytest.raises(ProcessingFailed, match="at offset 1 failed 1 times"):
            consumer.process(work, retries=1, retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
        assert sorted(attempts) == [0, 1]
        assert consumer.poll(30_000)[0].offset == 0


async def test_dead_letters_take_what_the_topic_took(bootstrap: str, topic: Callable[..., str]) -> None:
    """Also an iterator that ends too early, which no future can hold."""
    name, letters = topic(), topic()
    with Admin(bootstrap_servers=bootstrap) as admin:
        for one in (f"{name}-large", f"{letters}-large"):
            admin.create_topics([NewTopic(one, partitions=1, configs={"max.message.bytes": "4000000"})])
    with Producer(bootstrap_servers=bootstrap, max_request_size=4_000_000) as producer:
        producer.send(f"{name}-large", b"x" * 2_000_000).get(30)
    confluent_produce(bootstrap, name, [Message(b"0"), Message(b"1")])

    def work(record: Record) -> None:
        if record.offset:
            raise ValueError("bad name \udcff" + "x" * 2_000_000)
        next(iter(()))

    options = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    async with Consumer(name, f"{name}-large", **options) as consumer:
        await consumer.process(work, retries=0, dead_letter_topic=f"{letters}-large", idle_timeout_ms=1_500)
    async with Consumer(f"{letters}-large", **options) as reader:
        records = await drain(reader, 3)
    assert {(record.headers[-2][1], len(record.value)) for record in records} == {
        (b"StopIteration", 1),
        (b"ValueError", 1),
        (b"StopIteration", 2_000_000),
    }
