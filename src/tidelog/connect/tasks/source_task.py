"""Runs a source: reads, converts, and writes records and positions in one transaction, so that a crash at any point
neither loses a record nor writes one twice.

The transactional id is that of the task: a worker that takes over fences the one that was thought dead, and only then
reads the positions."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping

from tidelog import errors
from tidelog.aio import Admin, NewTopic, Producer
from tidelog.connect.connector import ConnectError, Position, Source, SourceBatch
from tidelog.connect.converters import NotConverted, converter_of
from tidelog.connect.settings import ConnectorConfig
from tidelog.connect.state.connectors import TaskId
from tidelog.connect.state.store import GroupStore, offset_key
from tidelog.connect.task_log import TaskLog
from tidelog.connect.tasks.connector_thread import ConnectorThread
from tidelog.connect.tasks.errors_tolerated import FailedRecord, ToleratedErrors
from tidelog.connect.transforms.chain import chain_of, transformed

READ_WAIT_MS = 200


class SourceTask:
    def __init__(
        self,
        task: TaskId,
        plugin: type[Source],
        config: ConnectorConfig,
        part: Mapping[str, str],
        store: GroupStore,
        log: TaskLog,
    ) -> None:
        self.log = log
        self.records = 0
        self._task, self._plugin, self._config, self._part, self._store = task, plugin, config, part, store
        self._client = store.options.client
        self._key, self._value = converter_of(config, "key"), converter_of(config, "value")
        self._chain = chain_of(config)
        self._errors = ToleratedErrors(config, task.connector, task.number, self._client, log)
        self._topics: set[str] = set()

    async def run(self, running: Callable[[], Awaitable[None]]) -> None:
        thread = ConnectorThread(f"connect-{self._task}")
        source = self._plugin(self._config, self._part)
        producer = Producer(
            **self._client,
            transactional_id=f"{self._store.options.group}-{self._task.connector}-{self._task.number}",
            transaction_timeout_ms=self._config.number("transaction.timeout.ms"),
            linger_ms=5,
            batch_size=256 * 1024,
        )
        try:
            await producer.start()
            positions = await self._store.source_offsets(self._task.connector)
            await thread.call(source.open, positions)
            await running()
            while True:
                await self._transaction(thread, source, producer)
        finally:
            try:
                await thread.call(source.close)
            except Exception as problem:
                self.log.warning("the connector could not be closed: %s", problem)
            thread.end()
            await self._errors.close()
            await _close(producer)

    async def _transaction(self, thread: ConnectorThread, source: Source, producer: Producer) -> None:
        """Waits for records, then writes what comes until the transaction is large or old enough."""
        batch = await thread.call(source.read, READ_WAIT_MS)
        if batch is None:
            return
        deadline = time.monotonic() + self._config.number("offset.flush.interval.ms") / 1000
        rows_max, rows = self._config.number("batch.max.rows"), 0
        positions: dict[bytes, Position] = {}
        async with producer.transaction():
            while True:
                rows += len(batch.records)
                await self._write(producer, batch)
                for position in batch.positions:
                    positions[offset_key(self._task.connector, position[0])] = position
                if rows >= rows_max or time.monotonic() >= deadline:
                    break
                more = await thread.call(source.read, 0)
                if more is None:
                    break
                batch = more
            await self._write_positions(producer, positions)
        self.records += rows
        await thread.call(source.committed, list(positions.values()))

    async def _write_positions(self, producer: Producer, positions: Mapping[bytes, Position]) -> None:
        topic = self._store.options.offsets
        where = self._store.offsets_partition(self._task.connector)
        for key, (_, offset) in positions.items():
            value = None if offset is None else json.dumps(offset, separators=(",", ":")).encode()
            await producer.send(topic, value, key, partition=where)

    async def _write(self, producer: Producer, batch: SourceBatch) -> None:
        for original in batch.records:
            stage, record = "TRANSFORMATION", original
            try:
                changed = transformed(self._chain, record)
                if changed is None:
                    continue
                record = changed
                stage = "KEY_CONVERTER"
                key = self._key.to_bytes(record.key_schema, record.key)
                stage = "VALUE_CONVERTER"
                value = self._value.to_bytes(record.value_schema, record.value)
                if record.topic not in self._topics:
                    await self._topic(record.topic)
                await producer.send_bytes(
                    record.topic, value, key, record.headers, record.timestamp, record.partition
                )
            except (NotConverted, errors.MessageTooLarge, KeyError, TypeError, ValueError) as problem:
                await self._errors.refuse(FailedRecord(stage, problem, record.topic))

    async def _topic(self, name: str) -> None:
        """Creates the topic, if it is missing, as the settings say."""
        partitions = self._config.number("topic.creation.default.partitions")
        replicas = self._config.number("topic.creation.default.replication.factor")
        async with Admin(**self._client) as admin:
            try:
                await admin.create_topics(NewTopic(name, partitions, replicas))
                self.log.info("created topic %s", name)
            except errors.TopicAlreadyExists:
                pass
            except (errors.TopicAuthorizationFailed, errors.ClusterAuthorizationFailed):
                pass  # it may be there: writing to it says so
            except errors.InvalidTopicException as problem:
                raise ConnectError(f"{name!r} cannot be a topic: {problem}") from None
        self._topics.add(name)


async def _close(producer: Producer) -> None:
    try:
        await producer.close(timeout=5)
    except errors.TidelogError:
        pass
