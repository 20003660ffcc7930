"""What a topic holds for a reader of committed records."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition


def committed(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values, partition by partition.  Read with librdkafka, up to the present end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        metadata = consumer.list_topics(topic, timeout=30).topics[topic]
        partitions = [TopicPartition(topic, number, 0) for number in sorted(metadata.partitions)]
        consumer.assign(partitions)
        rows: dict[int, list[tuple[bytes | None, bytes | None]]] = {at.partition: [] for at in partitions}
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(30)
            assert message is not None, f"{topic} could not be read to its end"
            if message.error() is None:
                rows[message.partition()].append((message.key(), message.value()))
            else:
                ended.add(message.partition())
        return [row for number in sorted(rows) for row in rows[number]]
    finally:
        consumer.close()


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    return [value for _, value in committed(bootstrap, topic)]


def end(bootstrap: str, topic: str) -> int:
    """The end of a topic's only partition: known at once, however fast it grows."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])
    finally:
        consumer.close()
