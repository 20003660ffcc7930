"""What a client does with its arguments, seen at a broker: names, sizes, numbers, timeouts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow
import pytest

from tests.conformance.clients import Message, confluent_produce
from tests.conformance.process import BrokerProcess
from tidelog import (
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    Producer,
    ShareConsumer,
    TopicPartition,
    errors,
)


def test_one_name_is_one_and_not_its_letters(bootstrap: str, name: Callable[[], str]) -> None:
    topic, group = name(), name()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions=1, configs={"retention.ms": 3_600_000}))
        settings = admin.describe_configs(ConfigResource("topic", topic), "retention.ms")
        assert [one.value for one in settings[ConfigResource("topic", topic)]] == ["3600000"]
        admin.alter_configs({ConfigResource("topic", topic): {"retention.ms": 7_200_000}})
        assert set(admin.describe_topics(topic)) == {topic}
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): 0})
        assert set(admin.describe_groups(group)) == {group}
        assert set(admin.list_groups_offsets(group)) == {group}
        admin.delete_groups(group)
        admin.delete_topics(topic)
        assert topic not in [one.name for one in admin.list_topics()]


def test_offsets_of_what_is_not_there_are_refused_soon(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    with Admin(bootstrap_servers=bootstrap, request_timeout_ms=600_000) as admin:
        with pytest.raises(errors.UnknownTopicOrPartition, match=f"{name}-77"):
            admin.alter_group_offsets(name, {TopicPartition(name, 77): 1})
        with pytest.raises(ValueError, match=r"the offset of .* cannot be -5"):
            admin.alter_group_offsets(name, {TopicPartition(name, 0): -5})


def test_a_fetch_waits_for_as_much_as_is_wanted(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    confluent_produce(bootstrap, name, [Message(b"x" * 100)])
    options: dict[str, Any] = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    with Consumer(name, **options, fetch_min_bytes=50_000, fetch_max_wait_ms=60_000) as consumer:
        assert consumer.poll(1_000) == []
        confluent_produce(bootstrap, name, [Message(b"x" * 60_000)])
        assert len(consumer.poll(30_000)) == 2


def test_a_fetch_brings_no_more_than_is_wanted(bootstrap: str, topic: Callable[..., str]) -> None:
    """One batch at least, whatever its size: otherwise nobody would get past it."""
    name = topic()
    for _ in range(5):
        confluent_produce(bootstrap, name, [Message(b"x" * 10_000)])
    sizes = {}
    for most in (15_000, 1_000_000):
        options: dict[str, Any] = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
        with Consumer(name, **options, fetch_max_bytes=most) as consumer:
            found = consumer.poll(30_000)
            while len(found) < 5:
                found += consumer.poll(30_000)
            sizes[most] = consumer.metrics().fetches_total
    assert sizes[15_000] >= 5 > sizes[1_000_000]


UNCLOSED = """
import sys
from tidelog import Producer

producer = Producer(bootstrap_servers={bootstrap!r}, linger_ms=100)
for at in range(500):
    producer.send({topic!r}, b"%d" % at)
{ending}
"""


@pytest.mark.parametrize("ending", ["", "raise ValueError('oops')", "del producer"])
def test_a_program_that_forgets_to_close_delivers_all_the_same(
    bootstrap: str, topic: Callable[..., str], ending: str
) -> None:
    name = topic()
    program = UNCLOSED.format(bootstrap=bootstrap, topic=name, ending=ending)
    subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.list_offsets({TopicPartition(name, 0): "latest"})[TopicPartition(name, 0)].offset == 500


def test_a_program_that_ends_without_its_broker_says_what_is_lost(
    own_broker: Callable[..., BrokerProcess],
) -> None:
    broker = own_broker()
    program = UNCLOSED.format(
        bootstrap=broker.bootstrap, topic="lost", ending="print(flush=True); sys.stdin.readline()"
    )
    program = program.replace("linger_ms=100", "linger_ms=60_000, batch_size=1_000_000")
    worker = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    worker.stdout.readline()
    broker.kill()
    said = worker.communicate("\n", timeout=60)[1]
    assert "500 records were not delivered before the program ended" in said


def test_an_error_in_a_callback_is_seen_without_logging(bootstrap: str, topic: Callable[..., str]) -> None:
    program = UNCLOSED.format(
        bootstrap=bootstrap,
        topic=topic(),
        ending=f"producer.send({topic()!r}, b'x').add_callback(lambda where: 1 / 0).get(30); producer.close()",
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)
    assert b"ZeroDivisionError" in ended.stderr


def test_callbacks_of_a_table(bootstrap: str, topic: Callable[..., str]) -> None:
    name = topic()
    table = pyarrow.table({"value": [b"x" * 1_000] * 3_000})
    said: list[Any] = []
    told = threading.Event()
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = producer.send_batch(name, table).add_errback(said.append).add_callback(said.append)
        sent.add_callback(lambda *given: told.set(), "more")
        assert sent.get(30) == 3_000 and told.wait(30)
        sent.add_callback(said.append)
        assert said == [3_000, 3_000]
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.alter_configs({ConfigResource("topic", name): {"max.message.bytes": 100}})
        failed = threading.Event()
        lost = producer.send_batch(name, table.slice(0, 20)).add_callback(said.append)
        lost.add_errback(said.append).add_errback(lambda _: failed.set())
        assert failed.wait(30)
        assert len(said) == 3 and isinstance(said[2], errors.MessageTooLarge)


def test_a_share_consumer_closes_in_the_time_it_is_given(own_broker: Callable[..., BrokerProcess]) -> None:
    broker = own_broker()
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("jobs", partitions=1)])
    consumer = ShareConsumer("jobs", group_id="workers", bootstrap_servers=broker.bootstrap)
    while not consumer.assignment():
        consumer.poll(100)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(errors.RequestTimedOut, match=r"within 0\.2 s"):
            consumer.close(0.2)
        assert time.monotonic() - begun < 20  # of the 30 s that one request may take
    finally:
        os.kill(broker.pid, signal.SIGCONT)
