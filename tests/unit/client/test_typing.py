"""A user's program is checked by `mypy --strict` as it is: nothing of the package is untyped for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio

from tidelog import (
    Admin, Consumer, Delivery, NewTopic, OffsetAndMetadata, Producer, RebalanceListener, Record,
    RecordMetadata, Security, ShareConsumer, TidelogError, TopicPartition, aio,
)
from tidelog.schema import Avro, Json, Registry, SerializationError, Text
from tidelog.testing import broker, child_broker


class Listener(RebalanceListener):
    def on_partitions_assigned(self, partitions: object) -> None:
        print(partitions)


def work(record: Record) -> None:
    print(record.topic, record.offset + 1, record.delivery_count, record.headers[0][0].upper())


def blocking(address: str) -> None:
    with Producer(bootstrap_servers=address, acks="all", linger_ms=5, security=Security(tls=True)) as producer:
        sent: Delivery = producer.send("t", b"v", key=b"k", headers={"a": b"b"}, timestamp=1, partition=0)
        where: RecordMetadata = sent.add_callback(print).add_errback(print).get(timeout=1)
        with producer.transaction():
            producer.send_offsets_to_transaction({TopicPartition("t", 0): where.offset}, "g")
        print(producer.metrics().record_send_rate + 1.0, producer.metrics().prometheus().upper())
    with Consumer("t", bootstrap_servers=address, group_id="g", value_deserializer=Json()) as consumer:
        consumer.subscribe(["t"], listener=Listener())
        records: list[Record] = consumer.poll(timeout_ms=1, max_records=2)
        kept: OffsetAndMetadata | None = consumer.committed()[TopicPartition("t", 0)]
        consumer.process(work, workers=4, order="key")
        for record in consumer:
            work(record)
        print(records, kept)
    with ShareConsumer("t", group_id="s", bootstrap_servers=address) as sharer:
        for record in sharer.poll(1):
            sharer.acknowledge(record, "renew")
    with Admin(bootstrap_servers=address) as admin:
        print(admin.create_topics([NewTopic("t", partitions=3)])["t"].name.upper())


async def asynchronous(address: str) -> None:
    async with aio.Producer(bootstrap_servers=address, key_serializer=Text()) as producer:
        where: RecordMetadata = await (await producer.send("t", b"v"))
        async with producer.transaction():
            print(where.offset + 1)
    async with aio.Consumer("t", bootstrap_servers=address) as consumer:
        async for record in consumer:
            print(record.offset + 1)


try:
    with broker() as inner, child_broker() as child:
        blocking(inner.bootstrap_servers)
        asyncio.run(asynchronous(child.bootstrap_servers))
    Avro("{}", registry=Registry("http://127.0.0.1:8081"))
except (SerializationError, TidelogError) as problem:
    print(problem.retriable, problem.code + 1)
"""
WRONG = """
from tidelog import Consumer, Producer

Producer(bootstrap_server="127.0.0.1:9092")
Consumer("t").process(print, order="topic")
"""


def test_a_program_is_typed_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    for name, code in (("right.py", PROGRAM), ("wrong.py", WRONG)):
        (tmp_path / name).write_text(code)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    done = subprocess.run(
        [*command, "right.py", "wrong.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    told = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert all(line.startswith("wrong.py") for line in told), done.stdout + done.stderr
    assert len(told) == 2 and "bootstrap_server" in told[0] and "order" in told[1], done.stdout
