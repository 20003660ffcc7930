"""`consumer.process`: many at a time, each key in order, committed only as far as all is done."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tests.conformance.clients import Message, confluent_produce
from tests.conformance.consuming import drain, indexes, member, run, until
from tidelog import Consumer as BlockingConsumer
from tidelog.aio import Consumer, ProcessingFailed, Record, TopicPartition
from tidelog.schema import Json


def keyed(bootstrap: str, topic: str, count: int, keys: int = 5, partition: int = 0) -> None:
    messages = [Message(b"%d" % at, b"key %d" % (at % keys)) for at in range(count)]
    confluent_produce(bootstrap, topic, messages, partition=partition)


async def committed(bootstrap: str, topic: str) -> int | None:
    async with Consumer(bootstrap_servers=bootstrap, group_id=f"of-{topic}") as consumer:
        known = (await consumer.committed(TopicPartition(topic, 0)))[TopicPartition(topic, 0)]
        return known.offset if known is not None else None


class Watch:
    """Notes what runs at the same time, and in which order each key's records begin."""

    def __init__(self) -> None:
        self.running: dict[bytes, int] = {}
        self.most = 0
        self.seen: dict[bytes, list[int]] = {}
        self._lock = threading.Lock()

    def begin(self, record: Record) -> None:
        with self._lock:
            assert record.key not in self.running, "two of one key at the same time"
            self.running[record.key] = record.offset
            self.most = max(self.most, len(self.running))
            self.seen.setdefault(record.key, []).append(record.offset)

    def end(self, record: Record) -> None:
        with self._lock:
            del self.running[record.key]

    def check(self, count: int) -> None:
        assert sorted(at for offsets in self.seen.values() for at in offsets) == list(range(count))
        assert all(offsets == sorted(offsets) for offsets in self.seen.values())
        assert self.most > 1, "nothing ran side by side"


async def test_keys_run_side_by_side_and_each_in_order(bootstrap: str, topic: Callable[..., str]) -> None:
    name, watch = topic(), Watch()
    keyed(bootstrap, name, 100)

    async def work(record: Record) -> None:
        watch.begin(record)
        await asyncio.sleep(0.001 * (record.offset % 3))
        watch.end(record)

    async with member(bootstrap, name) as consumer:
        await consumer.process(work, workers=4, idle_timeout_ms=1_500)
    watch.check(100)
    assert watch.most <= 4
    assert await committed(bootstrap, name) == 100


def test_plain_functions_run_in_threads(bootstrap: str, topic: Callable[..., str]) -> None:
    name, watch = topic(), Watch()
    keyed(bootstrap, name, 60)

    def work(record: Record) -> None:
        watch.begin(record)
        time.sleep(0.002)
        watch.end(record)

    with BlockingConsumer(
        name, bootstrap_servers=bootstrap, group_id=f"of-{name}", auto_offset_reset="earliest"
    ) as consumer:
        consumer.process(work, workers=4, idle_timeout_ms=1_500)
    watch.check(60)
    assert run(committed(bootstrap, name)) == 60


async def test_what_fails_is_tried_again_and_then_written_to_the_dead_letters(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name, letters = topic(), topic()
    keyed(bootstrap, name, 20)
    attempts: dict[int, int] = {}

    async def work(record: Record) -> None:
        attempts[record.offset] = attempts.get(record.offset, 0) + 1
        if record.offset == 7 or (record.offset == 3 and attempts[3] < 3):
            raise ValueError("this one is bad")

    async with member(bootstrap, name) as consumer:
        await consumer.process(
            work, retries=2, retry_backoff_ms=1, dead_letter_topic=letters, idle_timeout_ms=1_500
        )
    assert attempts == {at: 3 if at in (3, 7) else 1 for at in range(20)}
    assert await committed(bootstrap, name) == 20
    async with Consumer(letters, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as reader:
        (letter,) = await drain(reader, 1)
    assert (letter.key, letter.value) == (b"key 2", b"7")
    assert dict(letter.headers) == {
        "tidelog.dead.letter.topic": name.encode(),
        "tidelog.dead.letter.partition": b"0",
        "tidelog.dead.letter.offset": b"7",
        "tidelog.dead.letter.attempts": b"3",
        "tidelog.dead.letter.error": b"ValueError",
        "tidelog.dead.letter.reason": b"this one is bad",
    }


async def test_without_dead_letters_it_stops_and_commits_only_what_is_below(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic()
    keyed(bootstrap, name, 20)

    async def work(record: Record) -> None:
        if record.offset == 7:
            raise ValueError("this one is bad")

    async with member(bootstrap, name) as consumer:
        with pytest.raises(ProcessingFailed, match=r"at offset 7 failed 2 times.*this one is bad"):
            await consumer.process(work, retries=1, retry_backoff_ms=1, idle_timeout_ms=1_500)
        # The consumer goes on where that has stopped.
        assert (await consumer.poll(5_000))[0].offset == 7
        consumer.seek(TopicPartition(name, 0), 7)
    assert await committed(bootstrap, name) == 7


async def test_cancelling_commits_what_is_done_and_nothing_above(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name, stuck = topic(), asyncio.Event()
    keyed(bootstrap, name, 20, keys=20)
    done: list[int] = []

    async def work(record: Record) -> None:
        if record.offset == 5:
            await stuck.wait()
        done.append(record.offset)

    async with member(bootstrap, name) as consumer:
        processing = asyncio.ensure_future(consumer.process(work, workers=4, commit_interval_ms=10))
        while len(done) < 19:
            await asyncio.sleep(0.01)
        processing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await processing
    assert await committed(bootstrap, name) == 5


async def test_a_second_consumer_takes_over_without_doing_anything_twice(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    for partition in range(2):
        keyed(bootstrap, name, 200, partition=partition)
    seen: list[tuple[int, int]] = []

    async def work(record: Record) -> None:
        await asyncio.sleep(0.002)
        seen.append((record.partition, record.offset))

    async with member(bootstrap, name) as first, member(bootstrap, name) as second:
        both = [
            asyncio.ensure_future(one.process(work, workers=4, idle_timeout_ms=2_000))
            for one in (first, second)
        ]
        await asyncio.gather(*both)
        await until(lambda: indexes(first) != [] and indexes(second) != [], first, second)
    assert sorted(seen) == [(p, at) for p in range(2) for at in range(200)]


async def test_order_by_partition_and_no_order(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    keyed(bootstrap, name, 30)
    seen: list[int] = []

    async def work(record: Record) -> None:
        await asyncio.sleep(0.001 * (record.offset % 3))
        seen.append(record.offset)

    async with Consumer(name, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.process(work, order="partition", idle_timeout_ms=1_500)
        assert seen == list(range(30))
        consumer.seek_to_beginning()
        seen.clear()
        await consumer.process(work, order="none", idle_timeout_ms=1_500)
        assert sorted(seen) == list(range(30)) and seen != list(range(30))
        with pytest.raises(ValueError, match="workers cannot be 0"):
            await consumer.process(work, workers=0)


async def test_the_work_gets_values_and_the_dead_letters_get_bytes(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name, letters = topic(), topic()
    messages = [Message(b'{"n": %d}' % at, b'{"key": %d}' % (at % 2)) for at in range(10)]
    messages[4] = Message(b"{no json", b'{"key": 0}')
    confluent_produce(bootstrap, name, messages)
    seen: dict[int, list[int]] = {0: [], 1: []}
    attempts = 0

    async def work(record: Record) -> None:
        nonlocal attempts
        if record.value["n"] == 7:
            attempts += 1
            raise ValueError("this one is bad")
        seen[record.key["key"]].append(record.value["n"])

    options = {"key_deserializer": Json(), "value_deserializer": Json()}
    async with member(bootstrap, name, **options) as consumer:
        await consumer.process(
            work, retries=1, retry_backoff_ms=1, dead_letter_topic=letters, idle_timeout_ms=1_500
        )
    # Keys that cannot be hashed have an order, too.
    assert seen == {0: [0, 2, 6, 8], 1: [1, 3, 5, 9]} and attempts == 2
    assert await committed(bootstrap, name) == 10
    async with Consumer(letters, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as reader:
        found = {letter.value: dict(letter.headers) for letter in await drain(reader, 2)}
    assert set(found) == {b"{no json", b'{"n": 7}'}
    # What cannot be read is not tried again: it would not be better the next time.
    told = found[b"{no json"]
    assert told["tidelog.dead.letter.attempts"] == b"1"
    assert told["tidelog.dead.letter.error"] == b"SerializationError"


CRASHING = """
import os, sys, time
from tidelog import Consumer

def work(record):
    time.sleep(0.001)
    os.write(1, b"%d\\n" % record.offset)

with Consumer({topic!r}, bootstrap_servers={bootstrap!r}, group_id={group!r}, auto_offset_reset="earliest",
              session_timeout_ms=400, heartbeat_interval_ms=100) as consumer:
    consumer.process(work, workers=4, commit_interval_ms=20)
"""


def test_killed_at_random_it_skips_nothing_and_keeps_the_order_of_keys(
    bootstrap: str, topic: Callable[..., str]
) -> None:
    name, count, keys = topic(), 600, 7
    keyed(bootstrap, name, count, keys=keys)
    program = CRASHING.format(topic=name, bootstrap=bootstrap, group=f"of-{name}")
    done: set[int] = set()
    deadline = time.monotonic() + 60
    while len(done) < count:
        assert time.monotonic() < deadline, f"only {len(done)} records were processed"
        worker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert worker.stdout is not None
        last: dict[int, int] = {}
        for at, line in enumerate(worker.stdout):
            offset = int(line)
            key = offset % keys
            # A run begins with something that follows what is done, and goes on without a gap.
            before = last.get(key, offset - keys)
            assert offset == before + keys and (before < 0 or before in done), f"{offset} came after {before}"
            last[key] = offset
            done.add(offset)
            if at == 150 or len(done) == count:
                worker.kill()
        worker.wait()
        worker.stdout.close()
        reached = run(committed(bootstrap, name))
        assert reached is None or set(range(reached)) <= done
