"""What happens to a record that cannot be converted, transformed or written: the task fails, or the record is left out and
may go to the dead letter topic, with headers that say why."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

from tidelog import errors
from tidelog.aio import Admin, NewTopic, Producer
from tidelog.connect.connector import ConnectError
from tidelog.connect.settings import ConnectorConfig
from tidelog.connect.task_log import TaskLog

CONTEXT = "__connect.errors."


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """`stage`: VALUE_CONVERTER, TRANSFORMATION, TASK_PUT and so on, as in Kafka."""

    stage: str
    problem: BaseException
    topic: str
    partition: int | None = None
    offset: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None

    @property
    def place(self) -> str:
        if self.offset is None:
            return f"a record for {self.topic}"
        return f"{self.topic}-{self.partition} at offset {self.offset}"


class ToleratedErrors:
    def __init__(
        self,
        config: ConnectorConfig,
        connector: str,
        number: int,
        client: dict[str, Any],
        log: TaskLog,
    ) -> None:
        self._all = config.text("errors.tolerance") == "all"
        self._log_each = config.flag("errors.log.enable")
        self._log_place = config.flag("errors.log.include.messages")
        names = config.given
        self._topic = names.get("errors.deadletterqueue.topic.name") or None
        self._context = names.get("errors.deadletterqueue.context.headers.enable", "").lower() == "true"
        self._replicas = int(names.get("errors.deadletterqueue.topic.replication.factor", "3"))
        self._connector, self._number = connector, number
        self._client = client
        self._log = log
        self._producer: Producer | None = None
        self.skipped = 0

    async def refuse(self, bad: FailedRecord) -> None:
        """Returns when the record may be left out; raises when the task must fail."""
        if not self._all:
            raise ConnectError(
                f"{bad.place}: {bad.problem} ({bad.stage}).  errors.tolerance=all leaves such records out"
            ) from bad.problem
        self.skipped += 1
        if self._log_each:
            place = bad.place if self._log_place else "a record"
            self._log.error("%s was left out (%s): %s", place, bad.stage, bad.problem)
        if self._topic is not None:
            producer = self._producer or await self._open(self._topic)
            headers = bad.headers + (self._headers(bad) if self._context else ())
            await producer.send(self._topic, bad.value, bad.key, headers, bad.timestamp)

    async def flush(self) -> None:
        """Dead letters are delivered before the offsets behind them are committed."""
        if self._producer is not None:
            await self._producer.flush()

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()
            self._producer = None

    async def _open(self, topic: str) -> Producer:
        async with Admin(**self._client) as admin:
            try:
                await admin.create_topics(NewTopic(topic, 1, self._replicas))
            except errors.TopicAlreadyExists:
                pass
            except errors.InvalidReplicationFactor as problem:
                raise ConnectError(
                    f"The dead letter topic {topic} cannot be created: {problem}.  Set "
                    "errors.deadletterqueue.topic.replication.factor"
                ) from None
        self._producer = Producer(**self._client)
        await self._producer.start()
        return self._producer

    def _headers(self, bad: FailedRecord) -> tuple[tuple[str, bytes | None], ...]:
        facts = {
            "topic": bad.topic,
            "partition": bad.partition,
            "offset": bad.offset,
            "connector.name": self._connector,
            "task.id": self._number,
            "stage": bad.stage,
            "exception.class.name": type(bad.problem).__name__,
            "exception.message": str(bad.problem),
            "exception.stacktrace": "".join(traceback.format_exception(bad.problem))[-8000:],
        }
        return tuple(
            (CONTEXT + name, None if fact is None else str(fact).encode()) for name, fact in facts.items()
        )
