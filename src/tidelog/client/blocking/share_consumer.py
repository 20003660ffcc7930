"""The share consumer, blocking face: the asyncio one on the clients' thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack

from tidelog._speed.client.consumed import Record
from tidelog.client.blocking import loop_thread
from tidelog.client.consumer.deserializers import DeserializerOption
from tidelog.client.environment import Environment
from tidelog.client.errors import ClientClosed
from tidelog.client.security.security import Security
from tidelog.client.share import consumer as share_consumer
from tidelog.client.share.acknowledgements import How
from tidelog.types import TopicPartition

T = TypeVar("T")


class ShareConsumerSettings(TypedDict, total=False):
    """The options of `tidelog.aio.ShareConsumer`, which has their defaults."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    acknowledgement_mode: str
    max_poll_records: int
    max_poll_interval_ms: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    check_crcs: bool
    client_rack: str | None
    key_deserializer: DeserializerOption
    value_deserializer: DeserializerOption
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    connect_timeout_ms: int
    metadata_max_age_ms: int
    enable_metrics_push: bool
    security: Security | None
    environment: Environment | None


class ShareConsumer:
    """Reads topics as a queue; blocking calls, for one thread at a time.

        with ShareConsumer("jobs", group_id="workers", bootstrap_servers="127.0.0.1:9092") as consumer:
            for record in consumer:
                do(record)

    Options, methods and errors are those of `tidelog.aio.ShareConsumer`.
    """

    def __init__(self, *topics: str, group_id: str, **options: Unpack[ShareConsumerSettings]) -> None:
        self._closed = True
        self._thread = loop_thread.join()
        try:
            self._core = self._thread.run(_started(topics, group_id, options))
        except BaseException:
            loop_thread.leave(self._thread)
            raise
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(self._core.__aexit__(kind, problem, trace))

    def close(self, timeout: float | None = None) -> None:
        """Sends acknowledgements, releases records that were not handed out, leaves the group.

            consumer.close(timeout=5)

        After `timeout` seconds the consumer gives up on that, closes its connections, and raises `RequestTimedOut`."""
        self._end(self._core.close(timeout))

    def _end(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closed:
            work.close()
            return
        self._closed = True
        try:
            self._thread.run(work)
        finally:
            loop_thread.leave(self._thread)

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Subscribes to these topics, in place of the topics that were subscribed to before.

        consumer.subscribe(["jobs"])
        """
        self._do(lambda: self._core.subscribe(topics))

    def subscription(self) -> set[str]:
        """The topics that were subscribed to.

        print(consumer.subscription())
        """
        return self._do(self._core.subscription)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now; other consumers of the group may read the same partitions.

        print(sorted(consumer.assignment()))
        """
        return self._do(self._core.assignment)

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Record]:
        """Acquires records for this consumer alone, at most `max_poll_records`; waits up to `timeout_ms` for them.

        for record in consumer.poll(timeout_ms=1000):
            consumer.acknowledge(record)
        """
        return self._run(self._core.poll(timeout_ms, max_records))

    def acknowledge(self, record: Record, how: How = "accept") -> None:
        """Says what became of a record: "accept", it is processed; "release", deliver it again; "reject", never
        deliver it again; "renew", processing takes longer, extend its lock.

            consumer.acknowledge(record, "release")
        """
        self._do(lambda: self._core.acknowledge(record, how))

    def commit(self, timeout_ms: int | None = None) -> None:
        """Sends the acknowledgements now; raises when a broker refuses one.

        consumer.commit()
        """
        self._run(self._core.commit(timeout_ms))

    @property
    def lock_timeout_ms(self) -> int | None:
        """How long a delivered record is locked for this consumer; None before the first fetch.

        print(consumer.lock_timeout_ms)
        """
        return self._do(lambda: self._core.lock_timeout_ms)

    def __iter__(self) -> Iterator[Record]:
        core = self._core
        while True:
            if core._at >= len(core._in_hand):
                self._run(core._fill())
            while core._at < len(core._in_hand):
                core._at += 1
                yield core._in_hand[core._at - 1]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise ClientClosed("this share consumer is closed: make a new one")
        return self._thread.run(work)

    def _do(self, work: Callable[[], T]) -> T:
        """Runs `work` on the clients' thread, which alone may touch the core."""

        async def done() -> T:
            return work()

        return self._run(done())


async def _started(
    topics: tuple[str, ...], group_id: str, options: ShareConsumerSettings
) -> share_consumer.ShareConsumer:
    core = share_consumer.ShareConsumer(*topics, group_id=group_id, **options)
    await core.start()
    return core
