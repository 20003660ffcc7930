"""Messages that wait for a later time: read from `__delayed_records`, as its partition's leader reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog import errors
from tidelog.cli.session import CommandSession
from tidelog.queues.delayed_records import (
    DELAYED_TOPIC,
    DONE_KEY,
    DelayedMessage,
    done,
    read_delayed,
    read_done,
)

WAIT_MS = 500
WRITES_INTERNAL = "__admin_client"  # the client that may write to internal topics


class WaitingMessage(NamedTuple):
    partition: int
    offset: int
    message: DelayedMessage

    @property
    def id(self) -> str:
        return f"{self.partition}-{self.offset}"


async def waiting(session: CommandSession, topic: str) -> list[WaitingMessage]:
    """Those for the topic, in the order of their times."""
    from tidelog.aio import Consumer, TopicPartition
    from tidelog.coordination.internal_topic import partition_for

    async with session.admin() as admin:
        topics = {each.name: len(each.partitions) for each in await admin.list_topics(internal=True)}
    if DELAYED_TOPIC not in topics:
        return []
    partition = TopicPartition(DELAYED_TOPIC, partition_for(topic, topics[DELAYED_TOPIC]))
    entries: dict[int, WaitingMessage] = {}
    async with Consumer(
        bootstrap_servers=session.bootstrap,
        client_id="tidelog-cli",
        connect_timeout_ms=session.connect_timeout_ms,
        security=session.security,
    ) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for record in await consumer.poll(WAIT_MS):
                try:
                    message = read_delayed(record)  # type: ignore[arg-type]
                except errors.InvalidRecord:
                    continue
                if message is not None:
                    entries[record.offset] = WaitingMessage(partition.partition, record.offset, message)
                for offset in read_done(record):  # type: ignore[arg-type]
                    entries.pop(offset, None)
    own = [entry for entry in entries.values() if entry.message.topic == topic]
    return sorted(own, key=lambda entry: (entry.message.due_ms, entry.offset))


async def cancel(session: CommandSession, entries: Sequence[WaitingMessage]) -> None:
    from tidelog.aio import Producer

    async with Producer(
        bootstrap_servers=session.bootstrap,
        client_id=WRITES_INTERNAL,
        connect_timeout_ms=session.connect_timeout_ms,
        security=session.security,
    ) as producer:
        for entry in entries:
            record = done([entry.offset])
            sent = await producer.send(DELAYED_TOPIC, record.value, key=DONE_KEY, partition=entry.partition)
            await sent
