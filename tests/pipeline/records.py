"""Writes and reads JSON records in topics, for tests of pipelines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tidelog import Consumer, Producer, TopicPartition


def send(bootstrap: str, topic: str, rows: Iterable[Any], key: str | None = None) -> None:
    """Rows as JSON, bytes as they are, (key, row) pairs with a key; a row of None is a deletion."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for row in rows:
            name = None
            if isinstance(row, tuple):
                name, row = row
            elif key is not None and isinstance(row, dict):
                name = row[key]
            value = row if isinstance(row, bytes) or row is None else json.dumps(row).encode()
            producer.send(topic, value, key=None if name is None else str(name).encode())
        producer.flush(60)


def fresh_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """An empty topic of a name that others may have used."""
    from tests.conformance.topics import create_topic
    from tidelog import Admin

    with Admin(bootstrap_servers=bootstrap) as admin:
        if topic in {topic.name for topic in admin.list_topics()}:
            admin.delete_topics([topic])
    create_topic(bootstrap, topic, partitions, None)


def records(bootstrap: str, topic: str) -> list[Any]:
    """All committed records of a topic, sorted by partition and offset."""
    consumed: list[Any] = []
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        parts = [TopicPartition(topic, index) for index in _partitions(bootstrap, topic)]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        ends = consumer.end_offsets(parts)
        while any(consumer.position(part) < ends[part] for part in parts):
            consumed += consumer.poll(1000)
    return sorted(consumed, key=lambda record: (record.partition, record.offset))


def _partitions(bootstrap: str, topic: str) -> range:
    from tidelog import Admin

    with Admin(bootstrap_servers=bootstrap) as admin:
        return range(len(admin.describe_topics([topic])[topic].partitions))


def rows(bootstrap: str, topic: str) -> list[Any]:
    """The JSON values of a topic."""
    return [
        None if record.value is None else json.loads(record.value) for record in records(bootstrap, topic)
    ]


def pairs(bootstrap: str, topic: str) -> list[tuple[str | None, Any]]:
    """Keys as text, values as JSON."""
    return [
        (record.key and record.key.decode(), None if record.value is None else json.loads(record.value))
        for record in records(bootstrap, topic)
    ]
