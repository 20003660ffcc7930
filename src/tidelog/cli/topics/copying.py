"""`tidelog topics copy`: the committed records of a topic into another one, also of another cluster.  Partitions, keys,
values, headers and timestamps stay as they are; offsets do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.completion import complete_topics
from tidelog.cli.connection.options import other_cluster_options
from tidelog.cli.output import ProgressMeter, counted, print_json
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.aio import Admin, Consumer, Producer, Record, Topic, TopicPartition

POLL_MS = 500
POLL_RECORDS = 2_000
BUFFER_BYTES = 32 << 20
REQUEST_BYTES = 64 << 20  # the broker says what is too large


class Ends(NamedTuple):
    """What there is to copy: records that are written meanwhile are not."""

    begins: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


@dataclass(slots=True)
class CopiedRecords:
    records: int = 0
    failed: int = 0
    first_problem: str | None = None

    def acknowledged(self, _: object) -> None:
        self.records += 1

    def refused(self, problem: object) -> None:
        self.failed += 1
        self.first_problem = self.first_problem or str(problem)


@click.command(
    help=command_help(
        "Copy the records that SOURCE has now into TARGET, also on another cluster (--to, --to-profile).  Partitions, keys, "
        "values, headers and timestamps stay as they are; records of aborted transactions are left out.  TARGET is created "
        "with the partitions and settings of SOURCE if it does not exist; a TARGET with records needs --append.",
        """
tidelog topics copy orders orders-copy
tidelog topics copy orders orders --to kafka2:9092
tidelog topics copy orders orders --profile staging --to-profile local
""",
        '{"source", "target", "records", "created": true if TARGET was created}',
    )
)
@click.argument("source", shell_complete=complete_topics)
@click.argument("target", shell_complete=complete_topics)
@click.option("--append", is_flag=True, help="Copy into a topic that has records.")
@other_cluster_options
@broker_options
def copy(
    session: CommandSession, source: str, target: str, append: bool, to: str | None, to_profile: str | None
) -> None:
    there = session.other(to, to_profile)
    if source == target and there.bootstrap == session.bootstrap:
        raise click.UsageError("SOURCE and TARGET are the same topic.")
    created, copied = run(_copy(session, there, source, target, append))
    if session.json:
        print_json({"source": source, "target": target, "records": copied.records, "created": created})
    else:
        made = " (created)" if created else ""
        click.echo(f"{counted(copied.records, 'record')} copied from {source} to {target}{made}")


async def _copy(
    here: CommandSession, there: CommandSession, source: str, target: str, append: bool
) -> tuple[bool, CopiedRecords]:
    from tidelog.aio import TopicPartition

    async with here.admin() as from_admin, there.admin() as to_admin:
        topic = (await from_admin.describe_topics([source]))[source]
        created = await _prepare(from_admin, to_admin, topic, target, append)
    async with _consumer(here) as consumer, _producer(there) as producer:
        await producer.partitions_for(target)
        partitions = [TopicPartition(source, partition.index) for partition in topic.partitions]
        ends = Ends(await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions))
        consumer.assign(partitions)
        copied = await _pump(consumer, producer, target, ends)
    return created, copied


async def _prepare(from_admin: Admin, to_admin: Admin, topic: Topic, target: str, append: bool) -> bool:
    """True if the target was created."""
    from tidelog.aio import ConfigResource, ConfigSource, NewTopic, TopicPartition

    existing = await _existing(to_admin, target)
    if existing is None:
        resource = ConfigResource("topic", topic.name)
        entries = (await from_admin.describe_configs([resource]))[resource]
        own = {
            entry.name: entry.value
            for entry in entries
            if entry.source == ConfigSource.DYNAMIC_TOPIC and entry.value is not None
        }
        await to_admin.create_topics([NewTopic(target, len(topic.partitions), configs=own)])
        return True
    if len(existing.partitions) < len(topic.partitions):
        raise Failure(
            f"{target} has {counted(len(existing.partitions), 'partition')} and {topic.name} has {len(topic.partitions)}: "
            f"tidelog topics alter {target} --partitions {len(topic.partitions)}, or another target"
        )
    if not append:
        partitions = [TopicPartition(target, partition.index) for partition in existing.partitions]
        starts = await to_admin.list_offsets(dict.fromkeys(partitions, "earliest"))
        ends = await to_admin.list_offsets(dict.fromkeys(partitions, "latest"))
        if any(ends[partition].offset > starts[partition].offset for partition in partitions):
            raise Failure(f"{target} already has records: use --append to copy into it, or another target")
    return False


async def _existing(admin: Admin, name: str) -> Topic | None:
    return {topic.name: topic for topic in await admin.list_topics(internal=True)}.get(name)


async def _pump(consumer: Consumer, producer: Producer, target: str, ends: Ends) -> CopiedRecords:
    copied = CopiedRecords()
    total = sum(ends.ends[partition] - ends.begins[partition] for partition in ends.ends)
    progress = ProgressMeter("record", total)
    left = {partition for partition, end in ends.ends.items() if ends.begins[partition] < end}
    while left and not copied.failed:
        for record in await consumer.poll(POLL_MS, POLL_RECORDS):
            if record.offset < ends.ends[_partition_of(record)]:
                sent = await producer.send_bytes(
                    target, record.value, record.key, record.headers, record.timestamp, record.partition
                )
                sent.add_callback(copied.acknowledged).add_errback(copied.refused)
        left = {partition for partition in left if await consumer.position(partition) < ends.ends[partition]}
        progress.update(copied.records)
    await producer.flush()
    progress.clear()
    if copied.failed:
        raise Failure(
            f"{counted(copied.records, 'record')} copied, then the target refused one: {copied.first_problem}"
        )
    return copied


def _partition_of(record: Record) -> TopicPartition:
    from tidelog.aio import TopicPartition

    return TopicPartition(record.topic, record.partition)


def _consumer(session: CommandSession) -> Consumer:
    from tidelog.aio import Consumer

    return Consumer(
        **_connection(session),
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=POLL_RECORDS,
    )


def _producer(session: CommandSession) -> Producer:
    from tidelog.aio import Producer

    return Producer(
        **_connection(session),
        acks="all",
        enable_idempotence=True,
        compression_type="lz4",
        linger_ms=5,
        batch_size=256 << 10,
        buffer_memory=BUFFER_BYTES,
        max_request_size=REQUEST_BYTES,
    )


def _connection(session: CommandSession) -> dict[str, Any]:
    return {
        "bootstrap_servers": session.bootstrap,
        "client_id": "tidelog-cli",
        "request_timeout_ms": session.timeout_ms,
        "connect_timeout_ms": session.connect_timeout_ms,
        "security": session.security,
    }
