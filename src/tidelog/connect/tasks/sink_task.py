"""Runs a sink: a member of the connector's group, which converts records and writes them in batches.

An idempotent sink has its offsets in the group: a record may be written again after a crash.  A transactional sink keeps
them in the target, beside the rows; those of the group only show the lag."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection

from tidelog import errors
from tidelog.aio import Consumer, RebalanceListener, Record
from tidelog.connect.connector import RecordRefused, Sink, SinkBatch
from tidelog.connect.converters import NotConverted, converter_of
from tidelog.connect.records import ConnectRecord
from tidelog.connect.settings import ConnectorConfig
from tidelog.connect.state.connectors import TaskId
from tidelog.connect.state.store import GroupStore
from tidelog.connect.task_log import TaskLog
from tidelog.connect.tasks.connector_thread import ConnectorThread
from tidelog.connect.tasks.errors_tolerated import FailedRecord, ToleratedErrors
from tidelog.connect.transforms.chain import chain_of, transformed
from tidelog.types import TopicPartition

POLL_MS = 200
TOPICS_MS = 5_000  # a topic that is made after the sink is read as soon as that


class SinkTask:
    def __init__(
        self,
        task: TaskId,
        plugin: type[Sink],
        config: ConnectorConfig,
        store: GroupStore,
        log: TaskLog,
    ) -> None:
        self.log = log
        self.records = 0
        self._task, self._plugin, self._config, self._store = task, plugin, config, store
        self._client = store.options.client
        self._key, self._value = converter_of(config, "key"), converter_of(config, "value")
        self._chain = chain_of(config)
        self._errors = ToleratedErrors(config, task.connector, task.number, self._client, log)
        self._ends: dict[TopicPartition, int] = {}
        """The next offset to write of each partition that is assigned."""
        self._uncommitted: dict[TopicPartition, int] = {}

    async def run(self, running: Callable[[], Awaitable[None]]) -> None:
        thread = ConnectorThread(f"connect-{self._task}")
        sink = self._plugin(self._config, self._task.connector)
        self._ends.clear()
        self._uncommitted.clear()
        consumer = Consumer(
            **self._client,
            group_id=group_of(self._store.options.group, self._task.connector),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            metadata_max_age_ms=TOPICS_MS,
            session_timeout_ms=self._store.options.session_timeout_ms,
            heartbeat_interval_ms=self._store.options.heartbeat_interval_ms,
        )
        try:
            await thread.call(sink.open)
            await consumer.start()
            consumer.subscribe(
                self._config.words("topics"),
                self._config.text_or_none("topics.regex"),
                _Assigned(self, consumer, thread, sink),
            )
            await running()
            await self._write_for_ever(consumer, thread, sink)
        finally:
            try:
                await self._commit(consumer)
            except errors.TidelogError as problem:
                self.log.warning("offsets could not be committed: %s", problem)
            try:
                await thread.call(sink.close)
            except Exception as problem:
                self.log.warning("the connector could not be closed: %s", problem)
            thread.end()
            await self._errors.close()
            try:
                await consumer.close(timeout=5)
            except errors.TidelogError:
                pass

    async def _write_for_ever(self, consumer: Consumer, thread: ConnectorThread, sink: Sink) -> None:
        rows_max = self._config.number("batch.max.rows")
        interval_s = self._config.number("offset.flush.interval.ms") / 1000
        commit_at = time.monotonic() + interval_s
        while True:
            records = await consumer.poll(POLL_MS, max_records=rows_max)
            if records:
                await self._write(thread, sink, records)
            if time.monotonic() >= commit_at:
                await self._commit(consumer)
                commit_at = time.monotonic() + interval_s

    async def _write(self, thread: ConnectorThread, sink: Sink, records: list[Record]) -> None:
        """All of them, or raises: then the next run begins at the offsets that are stored."""
        originals: dict[int, Record] = {}
        converted: list[ConnectRecord] = []
        ends: dict[TopicPartition, int] = {}
        for record in records:
            ends[TopicPartition(record.topic, record.partition)] = record.offset + 1
            made = await self._converted(record)
            if made is not None:
                originals[id(made)] = record
                converted.append(made)
        begins = {partition: self._ends.get(partition, -1) for partition in ends}
        while True:
            try:
                await thread.call(sink.write, SinkBatch(converted, begins, ends))
                break
            except RecordRefused as refusal:
                original = originals.get(id(refusal.record))
                if original is None:
                    raise
                await self._errors.refuse(_bad("TASK_PUT", refusal, original))
                converted = [record for record in converted if record is not refusal.record]
        await self._errors.flush()
        self.records += len(converted)
        self._ends.update(ends)
        self._uncommitted.update(ends)

    async def _converted(self, record: Record) -> ConnectRecord | None:
        stage = "KEY_CONVERTER"
        try:
            key_schema, key = self._key.to_object(record.key)
            stage = "VALUE_CONVERTER"
            value_schema, value = self._value.to_object(record.value)
            made = ConnectRecord(
                record.topic,
                key,
                value,
                key_schema,
                value_schema,
                tuple(record.headers),
                record.timestamp,
                record.partition,
                record.offset,
            )
            stage = "TRANSFORMATION"
            return transformed(self._chain, made)
        except (NotConverted, KeyError, TypeError, ValueError) as problem:
            await self._errors.refuse(_bad(stage, problem, record))
            return None

    async def _commit(self, consumer: Consumer) -> None:
        if self._uncommitted:
            offsets = dict(self._uncommitted)
            await consumer.commit(offsets)
            self._uncommitted.clear()

    async def assigned(
        self,
        consumer: Consumer,
        thread: ConnectorThread,
        sink: Sink,
        partitions: Collection[TopicPartition],
    ) -> None:
        stored = await thread.call(sink.offsets, sorted(partitions)) if sink.TRANSACTIONAL else {}
        for partition in partitions:
            if partition in stored:
                consumer.seek(partition, stored[partition])
                self._ends[partition] = stored[partition]
            elif sink.TRANSACTIONAL:
                # Nothing was written yet, whatever the group says: it may be that of a target that is gone.
                consumer.seek_to_beginning(partition)

    async def revoked(self, consumer: Consumer, partitions: Collection[TopicPartition], lost: bool) -> None:
        if not lost:
            await self._commit(consumer)
        for partition in partitions:
            self._ends.pop(partition, None)
            self._uncommitted.pop(partition, None)


class _Assigned(RebalanceListener):
    def __init__(self, task: SinkTask, consumer: Consumer, thread: ConnectorThread, sink: Sink) -> None:
        self._task, self._consumer, self._thread, self._sink = task, consumer, thread, sink

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await self._task.assigned(self._consumer, self._thread, self._sink, partitions)

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await self._task.revoked(self._consumer, partitions, lost=False)

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        await self._task.revoked(self._consumer, partitions, lost=True)


def group_of(group: str, connector: str) -> str:
    """The consumer group of a sink: `connect-NAME`, as in Kafka Connect, for the usual group of workers."""
    return f"{group}-{connector}"


def _bad(stage: str, problem: BaseException, record: Record) -> FailedRecord:
    return FailedRecord(
        stage,
        problem,
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        tuple(record.headers),
        record.timestamp,
    )
