"""The topics of a group of workers: creates them, follows them, writes to them.

A change of connectors is a transaction: it fences the change that another worker has begun, reads the topic to its end,
decides, and writes.  So workers need no leader, and of two changes at a time the later one sees the earlier one."""

from __future__ import annotations

import asyncio
import json
import random
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tidelog import errors
from tidelog.aio import Admin, NewTopic, Producer, Record, Security
from tidelog.connect.state.connectors import ConnectorsState
from tidelog.connect.state.status import StatusState, TaskStatus
from tidelog.connect.state.topic_view import TopicView, read_to_end
from tidelog.types import TopicPartition

STATUS_PARTITIONS = 1
ATTEMPTS_MAX = 20
FENCED = (
    errors.ProducerFenced,
    errors.InvalidProducerEpoch,
    errors.TransactionAbortable,
    errors.InvalidTxnState,
)


@dataclass(frozen=True)
class WorkerGroup:
    """A group of workers: where its brokers are, its name, and from it the names of its topics."""

    bootstrap_servers: str = "127.0.0.1:9092"
    group: str = "connect"
    slots: int = 25
    """Partitions of the offsets topic: at most so many workers have work."""
    replication_factor: int = -1
    security: Security | None = field(default=None, repr=False)
    session_timeout_ms: int = 10_000

    @property
    def client(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.bootstrap_servers, "security": self.security}

    @property
    def heartbeat_interval_ms(self) -> int:
        return min(3_000, self.session_timeout_ms // 3)

    @property
    def configs(self) -> str:
        return f"{self.group}-configs"

    @property
    def offsets(self) -> str:
        return f"{self.group}-offsets"

    @property
    def status(self) -> str:
        return f"{self.group}-status"


Records = dict[str, bytes | None]
Decide = Callable[[ConnectorsState], Records]


class GroupStore:
    def __init__(self, options: WorkerGroup) -> None:
        self.options = options
        self.connectors = ConnectorsState()
        self.status = StatusState()
        self.configs_view = TopicView(options.client, options.configs, 1, self._config)
        self._status_view = TopicView(options.client, options.status, STATUS_PARTITIONS, self._status)
        self._producer = Producer(**options.client)
        self._changing = asyncio.Lock()
        self.cluster_id = ""

    def _config(self, record: Record) -> None:
        self.connectors.apply(record.key, record.value, record.offset)

    def _status(self, record: Record) -> None:
        self.status.apply(record.key, record.value, record.offset)

    async def start(self) -> None:
        async with Admin(**self.options.client) as admin:
            self.cluster_id = (await admin.describe_cluster()).id or ""
            for name, partitions in (
                (self.options.configs, 1),
                (self.options.offsets, self.options.slots),
                (self.options.status, STATUS_PARTITIONS),
            ):
                await self._topic(admin, name, partitions)
        await self.configs_view.start()
        await self._status_view.start()
        await self._producer.start()

    async def _topic(self, admin: Admin, name: str, partitions: int) -> None:
        new = NewTopic(name, partitions, self.options.replication_factor, {"cleanup.policy": "compact"})
        try:
            await admin.create_topics(new)
        except errors.TopicAlreadyExists:
            partition_count = len((await admin.describe_topics([name]))[name].partitions)
            if partition_count != partitions:
                raise errors.InvalidConfig(
                    f"topic {name} has {partition_count} partitions, and this worker expects {partitions}: start all "
                    "workers of a group with the same --slots"
                ) from None

    async def close(self) -> None:
        await self.configs_view.close()
        await self._status_view.close()
        await self._producer.close()

    async def change(self, decide: Decide) -> None:
        """Writes the records that `decide` returns for the present state, or raises what it raises."""
        async with self._changing:
            for attempt in range(ATTEMPTS_MAX):
                try:
                    await self._change(decide)
                    return
                except FENCED:
                    # Another worker changes something: look again, not at the same moment as that worker.
                    await asyncio.sleep(random.uniform(0, min(0.05 * 2**attempt, 1.0)))
        raise errors.CoordinatorLoadInProgress(
            f"connectors of {self.options.group} are changed all the time: try again"
        )

    async def _change(self, decide: Decide) -> None:
        producer = Producer(
            **self.options.client, transactional_id=self.options.configs, transaction_timeout_ms=30_000
        )
        async with producer:
            await self.configs_view.caught_up()
            records = decide(self.connectors)
            if not records:
                return
            async with producer.transaction():
                for key, value in records.items():
                    await producer.send(self.options.configs, value, key.encode(), partition=0)
        await self.configs_view.caught_up()

    async def say_status(self, key: str, status: TaskStatus | None) -> None:
        await self._write(self.options.status, key, None if status is None else status.to_bytes(), 0)

    async def say_slots(self, worker: str, value: bytes | None) -> None:
        await self._write(self.options.status, f"worker-{worker}", value, 0)

    async def _write(self, topic: str, key: str, value: bytes | None, partition: int) -> None:
        await (await self._producer.send(topic, value, key.encode(), partition=partition))

    def offsets_partition(self, connector: str) -> int:
        """Where the offsets of a source are: a source that is deleted and made anew goes on."""
        return zlib.crc32(connector.encode()) % self.options.slots

    async def source_offsets(self, connector: str) -> dict[str, dict[str, Any]]:
        """What a source has written last, by partition."""
        offsets: dict[str, dict[str, Any]] = {}

        def apply(record: Record) -> None:
            try:
                name, partition = json.loads(record.key or b"")
                if name != connector:
                    return
                key = position_key(partition)
                offsets.pop(key, None)
                if record.value is not None:
                    offsets[key] = json.loads(record.value)
            except (ValueError, TypeError):
                return  # another program's

        where = TopicPartition(self.options.offsets, self.offsets_partition(connector))
        await read_to_end(self.options.client, [where], apply)
        return offsets

    async def write_source_offsets(
        self, connector: str, offsets: Iterable[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> None:
        """Changes the offsets of a connector that is stopped."""
        for partition, offset in offsets:
            value = None if offset is None else json.dumps(offset).encode()
            key = offset_key(connector, partition)
            await (
                await self._producer.send(
                    self.options.offsets, value, key, partition=self.offsets_partition(connector)
                )
            )


def position_key(partition: dict[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def offset_key(connector: str, partition: dict[str, Any]) -> bytes:
    return json.dumps(
        [connector, partition], sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()
