"""Consume, transform, produce: as a process of its own, so that it can be killed at any point.

    python -m tests.conformance.transform_worker PROMISE BOOTSTRAP GROUP INPUT OUTPUT PARTITIONS

PROMISE is how often every input is to be seen in the output: `exactly-once`, `at-least-once` or `at-most-once`.  With
`exactly-once-as=NAME` it is one of several that share the input as a group.  Each partition is read up to where it ends
at the start.  A line on the standard output for every few records; `done` at the end."""

from __future__ import annotations

import sys
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition

TOGETHER = 7  # inputs in one transaction, or between two commits
SECONDS = 30


def consume(consumer: Any, count: int) -> list[Any]:
    found = []
    for message in consumer.consume(count, 1.0):
        assert not message.error(), message.error()
        found.append(message)
    return found


def main(promise: str, bootstrap: str, group: str, source: str, target: str, partitions: int) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "linger.ms": 0}
    if promise == "exactly-once":
        settings |= {"transactional.id": group, "transaction.timeout.ms": 60_000}
    producer = confluent_kafka.Producer(settings)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    if promise == "exactly-once":
        producer.init_transactions(SECONDS)  # from here on nobody else can end what a killed instance began
    names = [TopicPartition(source, index) for index in range(partitions)]
    ends = {name.partition: consumer.get_watermark_offsets(name, SECONDS)[1] for name in names}
    at = {one.partition: max(one.offset, 0) for one in consumer.committed(names, SECONDS)}
    consumer.assign([TopicPartition(source, index, offset) for index, offset in at.items()])
    print("begins", flush=True)
    while any(at[index] < end for index, end in ends.items()):
        messages = consume(consumer, TOGETHER)
        if not messages:
            continue
        for message in messages:
            at[message.partition()] = message.offset() + 1
        places = [TopicPartition(source, index, offset) for index, offset in at.items()]
        if promise == "at-most-once":
            consumer.commit(offsets=places, asynchronous=False)
        if promise == "exactly-once":
            producer.begin_transaction()
        for message in messages:
            producer.produce(target, b"seen " + message.value())
        if promise == "exactly-once":
            producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), SECONDS)
            producer.commit_transaction(SECONDS)
        else:
            producer.flush(SECONDS)
            if promise == "at-least-once":
                consumer.commit(offsets=places, asynchronous=False)
        print(len(messages), flush=True)
    consumer.close()
    print("done", flush=True)


def share(name: str, bootstrap: str, group: str, source: str, target: str, partitions: int) -> None:
    """As a member of the group: what it read counts only in the generation in which it was its own."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "transactional.id": f"{group}-{name}"}
    producer = confluent_kafka.Producer(settings)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 5000,
            "heartbeat.interval.ms": 300,
        }
    )
    producer.init_transactions(SECONDS)
    names = [TopicPartition(source, index) for index in range(partitions)]
    ends = {one.partition: consumer.get_watermark_offsets(one, SECONDS)[1] for one in names}
    consumer.subscribe([source])
    print("begins", flush=True)
    while any(one.offset < ends[one.partition] for one in consumer.committed(names, SECONDS)):
        messages = consume(consumer, TOGETHER)
        if not messages:
            continue
        producer.begin_transaction()
        at = {}
        for message in messages:
            producer.produce(target, b"seen " + message.value())
            at[message.partition()] = message.offset() + 1
        places = [TopicPartition(source, index, offset) for index, offset in at.items()]
        try:
            producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), SECONDS)
            producer.commit_transaction(SECONDS)
        except confluent_kafka.KafkaException as problem:
            assert not problem.args[0].fatal(), problem
            producer.abort_transaction(SECONDS)
            for one in consumer.committed(consumer.assignment(), SECONDS):
                consumer.seek(TopicPartition(source, one.partition, max(one.offset, 0)))
            print("again", flush=True)
        else:
            print(len(messages), flush=True)
    consumer.close()
    print("done", flush=True)


if __name__ == "__main__":
    promise, _, name = sys.argv[1].partition("-as=")
    if name:
        share(name, *sys.argv[2:6], int(sys.argv[6]))  # type: ignore[misc,arg-type]
    else:
        main(promise, *sys.argv[2:6], int(sys.argv[6]))  # type: ignore[misc,arg-type]
