"""The event store: aggregates of one topic, loaded from their events and saved if nothing has happened to them since.

`save` writes one record with the version that the aggregate was loaded with; the broker refuses it when the last record of
that key is another one (`conditional.append.enable`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from tidelog import errors
from tidelog.client.admin.configs import ConfigResource
from tidelog.client.admin.topics import NewTopic
from tidelog.client.blocking.admin import Admin
from tidelog.client.blocking.consumer import Consumer
from tidelog.client.blocking.producer import Producer
from tidelog.client.producer.partitioner import by_key
from tidelog.client.security.security import Security
from tidelog.events.aggregate import Aggregate
from tidelog.events.cache import CommitCache, StoredCommit
from tidelog.events.errors import EventError, VersionConflict
from tidelog.events.types import Recorded, decode, encode
from tidelog.record.conditions import EXPECTED_VERSION
from tidelog.types import TopicPartition

A = TypeVar("A", bound=Aggregate)
T = TypeVar("T")

POLL_MS = 200
CONDITIONAL = "conditional.append.enable"
TOPIC_SETTINGS = {CONDITIONAL: "true", "retention.ms": "-1", "retention.bytes": "-1"}


class EventStore:
    """Use as a context manager, or `close` it.  Threads may share a store."""

    def __init__(
        self,
        bootstrap_servers: str = "127.0.0.1:9092",
        *,
        topic: str,
        partitions: int = 6,
        replication_factor: int = -1,
        cache: str = ":memory:",
        security: Security | None = None,
    ) -> None:
        """`topic` is created if it is not there.  `cache`: a file for the copy by aggregate, which otherwise is read from
        the topic by each process."""
        self.topic = topic
        self.bootstrap_servers = bootstrap_servers
        self.security = security
        self._lock = threading.Lock()
        with Admin(bootstrap_servers=bootstrap_servers, security=security) as admin:
            with suppress(errors.TopicAlreadyExists):
                admin.create_topics([NewTopic(topic, partitions, replication_factor, TOPIC_SETTINGS)])
            described = admin.describe_topics([topic])[topic]
            setting = _setting(admin, topic)
        if setting != "true":
            raise EventError(
                f"topic {topic!r} does not refuse decisions on old knowledge: "
                f"`tidelog configs set topic {topic} conditional.append.enable=true`"
            )
        self.partitions = len(described.partitions)
        self._producer = Producer(bootstrap_servers=bootstrap_servers, security=security)
        self._consumer = self.new_consumer()
        self._cache = CommitCache(cache, str(described.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()
        self._cache.close()

    def new_consumer(self) -> Consumer:
        return Consumer(
            bootstrap_servers=self.bootstrap_servers,
            security=self.security,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    # Aggregates

    def load(self, kind: type[A], id: str, *, at_ms: int | None = None) -> A:
        """The aggregate as it is now, or as it was at `at_ms`; one to which nothing has happened is new."""
        key = id.encode()
        self._catch_up(self._partition(key))
        aggregate = kind(id)
        for commit in self._cache.commits(key, at_ms):
            assert commit.value is not None
            events, _ = decode(commit.value)
            aggregate.replay(events, commit.offset)
        return aggregate

    def save(self, aggregate: Aggregate, meta: Mapping[str, Any] | None = None) -> None:
        """Stores what the aggregate has decided, as one commit.  VersionConflict if something has happened to it since it
        was loaded; then nothing is stored."""
        events = list(aggregate.pending)
        if events:
            version = self._append(aggregate.id, encode(events, meta or {}), aggregate.version)
            aggregate.saved(version)

    def execute(
        self,
        kind: type[A],
        id: str,
        decide: Callable[[A], T],
        *,
        attempts: int = 10,
        meta: Mapping[str, Any] | None = None,
    ) -> T:
        """Loads the aggregate, lets `decide` call its methods, and saves it; again, if something happened meanwhile."""
        while True:
            aggregate = self.load(kind, id)
            answer = decide(aggregate)
            attempts -= 1
            try:
                self.save(aggregate, meta)
                return answer
            except VersionConflict:
                if attempts <= 0:
                    raise

    def delete(self, aggregate: Aggregate) -> None:
        """Forgets the aggregate: its key has a tombstone, and no version any more.  Compaction removes its events where the
        topic has cleanup.policy=compact."""
        self._append(aggregate.id, None, aggregate.version)

    def history(self, id: str) -> list[Recorded]:
        """All that has happened to one aggregate."""
        key = id.encode()
        self._catch_up(self._partition(key))
        return [recorded for commit in self._cache.commits(key) for recorded in recorded_of(commit)]

    def _append(self, id: str, value: bytes | None, version: int) -> int:
        key = id.encode()
        headers = {EXPECTED_VERSION: str(version).encode()}
        try:
            sent = self._producer.send(
                self.topic, value, key=key, headers=headers, partition=self._partition(key)
            )
            return sent.get().offset
        except errors.InvalidRecord as problem:
            raise VersionConflict(
                f"{id!r} is not at version {version} any more, and nothing was stored: {problem}"
            ) from None

    # Reading the topic

    def _partition(self, key: bytes) -> int:
        partition = by_key(self.topic, key, self.partitions)
        assert partition is not None
        return partition

    def _catch_up(self, partition: int) -> None:
        """Copies what the partition has now."""
        place = TopicPartition(self.topic, partition)
        with self._lock:
            end = self._consumer.end_offsets([place])[place]
            following = self._cache.next(partition)
            if following >= end:
                return
            self._consumer.assign([place])
            self._consumer.seek(place, following)
            while following < end:
                records = self._consumer.poll(timeout_ms=POLL_MS)
                commits = [
                    StoredCommit(partition, record.offset, record.key, record.timestamp, record.value)
                    for record in records
                    if record.key is not None
                ]
                following = max(following, self._consumer.position(place))
                self._cache.add(partition, commits, following)

    def read(self, positions: Mapping[int, int] | None = None) -> Iterator[list[StoredCommit]]:
        """All commits from these offsets by partition on, in polls, for ever; an empty list when there is nothing new."""
        positions = positions or {}
        with self.new_consumer() as consumer:
            places = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
            consumer.assign(places)
            for place in places:
                consumer.seek(place, positions.get(place.partition, 0))
            while True:
                yield [
                    StoredCommit(record.partition, record.offset, record.key, record.timestamp, record.value)
                    for record in consumer.poll(timeout_ms=POLL_MS)
                    if record.key is not None
                ]

    def ends(self) -> dict[int, int]:
        """The end of each partition now."""
        places = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        with self._lock:
            return {place.partition: end for place, end in self._consumer.end_offsets(places).items()}


def recorded_of(commit: StoredCommit) -> list[Recorded]:
    if commit.value is None:
        return []
    events, meta = decode(commit.value)
    return [
        Recorded(
            commit.key.decode(errors="replace"),
            happened,
            commit.offset,
            commit.timestamp_ms,
            commit.partition,
            meta,
        )
        for happened in events
    ]


def _setting(admin: Admin, topic: str) -> str | None:
    resource = ConfigResource("topic", topic)
    entries = admin.describe_configs([resource], [CONDITIONAL])[resource]
    return next((entry.value for entry in entries if entry.name == CONDITIONAL), None)
