"""Offsets kept outside of the broker: the SQLite example counts every record once, whatever crashes."""

from __future__ import annotations

import runpy
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.clients import Message, confluent_produce
from tidelog import Consumer, TopicPartition
from tidelog.aio import Consumer as AioConsumer

EXAMPLE = Path(__file__).parents[2] / "examples" / "exactly_once_sqlite.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def counted(path: Path) -> dict[bytes, int]:
    database = sqlite3.connect(path)
    try:
        return dict(database.execute("SELECT key, count FROM counts").fetchall())
    except sqlite3.OperationalError:
        return {}  # The program has not made its tables yet.
    finally:
        database.close()


def test_killed_at_random_it_counts_every_record_once(
    bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, path = topic(partitions=2), tmp_path / "counts.db"
    for partition in range(2):
        messages = [Message(b"x", b"key %d" % (number % 7)) for number in range(700)]
        confluent_produce(bootstrap, name, messages, partition=partition)
    # The group notices soon that a member has died.
    options = {"bootstrap_servers": bootstrap, "session_timeout_ms": 400, "heartbeat_interval_ms": 100}
    program = f"import runpy; runpy.run_path({str(EXAMPLE)!r})['count_keys']({name!r}, {str(path)!r}, **{options!r})"
    total, deadline = 0, time.monotonic() + 60
    while total < 1_400:
        assert time.monotonic() < deadline, f"only {total} records were counted"
        counter = subprocess.Popen([sys.executable, "-c", program])
        before = total
        # Killed in the middle of its work, each time somewhere else.
        while total - before < 300 and total < 1_400 and time.monotonic() < deadline:
            time.sleep(0.01)
            total = max(total, sum(counted(path).values()))
        counter.send_signal(signal.SIGKILL)
        counter.wait()
        total = sum(counted(path).values())
    assert counted(path) == {b"key %d" % number: 200 for number in range(7)}


def test_commit_saves_to_the_store_and_a_reader_begins_there(
    example: dict[str, Any], bootstrap: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    zero = TopicPartition(name, 0)
    confluent_produce(bootstrap, name, [Message(b"x")] * 10)
    store = example["SQLiteOffsets"](str(tmp_path / "offsets.db"))
    options: Any = {"bootstrap_servers": bootstrap, "offset_store": store, "auto_offset_reset": "earliest"}
    with Consumer(name, **options) as consumer:
        assert len(consumer.poll(5_000, max_records=4)) == 4
        consumer.commit()
    assert store.load([zero]) == {zero: 4}
    with Consumer(name, **options) as consumer:
        records = consumer.poll(5_000)
        assert [one.offset for one in records] == list(range(4, 10))
        with store.transaction(records[0]):
            pass
        with pytest.raises(example["Overtaken"]), store.transaction(records[0]):
            pass
    assert store.load([zero]) == {zero: 5}


async def test_what_a_store_raises_is_heard_by_the_reader(bootstrap: str, topic: Callable[..., str]) -> None:
    class Broken:
        async def load(self, partitions: Any) -> Any:
            raise ZeroDivisionError

        async def save(self, offsets: Any) -> None:
            raise ZeroDivisionError

    name = topic()
    async with AioConsumer(name, bootstrap_servers=bootstrap, offset_store=Broken()) as consumer:
        with pytest.raises(Exception, match="offsets could not be loaded"):
            while True:
                await consumer.poll(1_000)
        with pytest.raises(ZeroDivisionError):
            await consumer.commit({TopicPartition(name, 0): 1})
