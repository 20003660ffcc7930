"""One consumer of a group as a process of its own, so that it can be killed and paused.

    python -m tests.conformance.group_worker CLIENT BOOTSTRAP GROUP TOPIC STRATEGY [INSTANCE]

Tells what happens as lines of JSON on its standard output: the partitions it has whenever they change, with the
generation (or the member's epoch) in which it has them, every record it has read, and every one it has committed.  A
commit that is refused is tried again while the partition is its own.  It leaves the group on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from typing import Any

SESSION_MS = 5000  # a busy machine may keep a worker waiting for seconds
STATIC_SESSION_MS = 60_000  # one that is started again is back before that
HEARTBEAT_MS = 300

stopping = threading.Event()


def tell(**fact: Any) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


def confluent(bootstrap: str, group: str, topic: str, strategy: str, instance: str | None) -> None:
    import confluent_kafka

    cooperative = strategy.startswith(("cooperative", "consumer"))
    mine: set[int] = set()
    unsaved: dict[int, int] = {}
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "partition.assignment.strategy": strategy,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }
    if strategy.startswith("consumer"):  # the new protocol, "consumer-range" with the broker's range assignor
        for name in ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"):
            del settings[name]
        settings["group.protocol"] = "consumer"
        settings |= {"group.remote.assignor": strategy[9:]} if strategy[9:] else {}
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = confluent_kafka.Consumer(settings)

    def has() -> None:
        # "CGMDv2:", the generation, the names of group and member.
        described: bytes = consumer.consumer_group_metadata()
        assert described.startswith(b"CGMDv2:")
        tell(has=sorted(mine), generation=int.from_bytes(described[7:11], sys.byteorder, signed=True))

    def assigned(_: Any, partitions: list[Any]) -> None:
        if cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
            mine.clear()
        mine.update(one.partition for one in partitions)
        has()

    def revoked(_: Any, partitions: list[Any]) -> None:
        if cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        for one in partitions:
            mine.discard(one.partition)
            unsaved.pop(one.partition, None)
        has()

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not stopping.is_set():
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            unsaved[message.partition()] = message.offset()
            tell(read=[message.partition(), message.offset()])
        for partition, offset in list(unsaved.items()):
            try:
                place = confluent_kafka.TopicPartition(topic, partition, offset + 1)
                consumer.commit(offsets=[place], asynchronous=False)
            except confluent_kafka.KafkaException as problem:
                tell(refused=str(problem))
            else:
                tell(done=[partition, offset])
                del unsaved[partition]
    consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str, strategy: str, instance: str | None) -> None:
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    unsaved: dict[Any, int] = {}
    mine: set[int] = set()

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            for one in revoked:
                unsaved.pop(one, None)
                mine.discard(one.partition)
            self._tell()

        def on_partitions_assigned(self, assigned: Any) -> None:
            mine.update(one.partition for one in assigned)
            self._tell()

        def _tell(self) -> None:
            tell(has=sorted(mine), generation=consumer.group_metadata().generation_id)

    more = {} if instance is None else {"group_instance_id": instance}
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        partition_assignment_strategy=[assignors[strategy]],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_records=1,
        **more,
    )
    consumer.subscribe([topic], listener=Listener())
    while not stopping.is_set():
        # kafka-python 3.0.12 gives up a join that is answered just as its poll ends, and then believes it has joined:
        # with long polls that is rare.  Those raise when the broker is away.
        try:
            polled = consumer.poll(timeout_ms=2000)
        except kafka.errors.KafkaConnectionError as problem:
            tell(away=repr(problem))
            polled = {}
        for partition, records in polled.items():
            unsaved[partition] = records[-1].offset
            tell(read=[partition.partition, records[-1].offset])
        for partition, offset in list(unsaved.items()):
            try:
                consumer.commit({partition: kafka.OffsetAndMetadata(offset + 1, "", -1)})
            except kafka.errors.KafkaError as problem:
                tell(refused=repr(problem))
            else:
                tell(done=[partition.partition, offset])
                unsaved.pop(partition, None)
    consumer.close()


def aiokafka(bootstrap: str, group: str, topic: str, strategy: str, instance: str | None) -> None:
    asyncio.run(_aiokafka(bootstrap, group, topic, strategy, instance))


async def _aiokafka(bootstrap: str, group: str, topic: str, strategy: str, instance: str | None) -> None:
    import aiokafka as library
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }

    unsaved: dict[Any, int] = {}

    class Listener(library.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            unsaved.clear()
            tell(has=[])

        def on_partitions_assigned(self, assigned: Any) -> None:
            tell(has=sorted(one.partition for one in assigned), generation=consumer._coordinator.generation)

    consumer = library.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        partition_assignment_strategy=(assignors[strategy],),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not stopping.is_set():
        found = await consumer.getmany(timeout_ms=100, max_records=1)
        for partition, records in found.items():
            unsaved[partition] = records[-1].offset
            tell(read=[partition.partition, records[-1].offset])
        for partition, offset in list(unsaved.items()):
            try:
                await consumer.commit({partition: offset + 1})
            except library.errors.KafkaError as problem:
                tell(refused=repr(problem))
            else:
                tell(done=[partition.partition, offset])
                unsaved.pop(partition, None)
    await consumer.stop()


def tidelog(bootstrap: str, group: str, topic: str, strategy: str, instance: str | None) -> None:
    from tidelog import Consumer, RebalanceListener, TopicPartition, errors

    unsaved: dict[int, int] = {}
    mine: set[int] = set()

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions: Any) -> None:
            for one in partitions:
                unsaved.pop(one.partition, None)
                mine.discard(one.partition)
            self._tell()

        def on_partitions_assigned(self, partitions: Any) -> None:
            mine.update(one.partition for one in partitions)
            self._tell()

        def _tell(self) -> None:
            tell(has=sorted(mine), generation=consumer.group_metadata().generation_id)

    how: dict[str, Any] = {"partition_assignment_strategy": strategy}
    if strategy.startswith("consumer"):
        how = {"group_protocol": "consumer", "group_remote_assignor": strategy[9:] or None}
    consumer = Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        **how,
    )
    consumer.subscribe([topic], listener=Listener())
    while not stopping.is_set():
        for record in consumer.poll(timeout_ms=100, max_records=1):
            unsaved[record.partition] = record.offset
            tell(read=[record.partition, record.offset])
        for partition, offset in list(unsaved.items()):
            try:
                consumer.commit({TopicPartition(topic, partition): offset + 1})
            except errors.TidelogError as problem:
                tell(refused=repr(problem))
            else:
                tell(done=[partition, offset])
                unsaved.pop(partition, None)
    consumer.close()


CLIENTS = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka, "tidelog": tidelog}


def main() -> None:
    client, bootstrap, group, topic, strategy, *instance = sys.argv[1:]
    if instance:
        global SESSION_MS
        SESSION_MS = STATIC_SESSION_MS
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    CLIENTS[client](bootstrap, group, topic, strategy, instance[0] if instance else None)


if __name__ == "__main__":
    main()
