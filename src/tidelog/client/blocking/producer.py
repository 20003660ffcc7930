"""The producer, blocking face: the asyncio producer on the clients' thread, with records taken on the
caller's."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

from tidelog import errors
from tidelog._speed.client.delivery import Delivery
from tidelog.client import checks
from tidelog.client.blocking import loop_thread
from tidelog.client.environment import Environment
from tidelog.client.errors import ClientClosed
from tidelog.client.groups.metadata import GroupMetadata, Offsets
from tidelog.client.producer import open_producers, producer
from tidelog.client.producer.batch import Headers
from tidelog.client.producer.batch_delivery import BatchDelivery
from tidelog.client.producer.metrics import ProducerMetrics
from tidelog.client.producer.partitioner import Partitioner
from tidelog.client.security.security import Security
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.schema.serializer import Serializer

if TYPE_CHECKING:
    import pyarrow

    from tidelog._speed.client.consumed import Record
    from tidelog.client.blocking.share_consumer import ShareConsumer
    from tidelog.client.share.acknowledgements import How

T = TypeVar("T")

# How long a caller stands back for the clients' thread when it fills batches faster than they leave.
TURN_S_MAX = 0.005


class ProducerSettings(TypedDict, total=False):
    """The options of `tidelog.aio.Producer`, which has their defaults."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    acks: int | str
    batch_size: int
    linger_ms: int
    compression_type: str | None
    retries: int
    max_in_flight_requests: int
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    delivery_timeout_ms: int
    connect_timeout_ms: int
    metadata_max_age_ms: int
    enable_metrics_push: bool
    partitioner: str | Partitioner
    key_serializer: Serializer | Callable[[Any], bytes | None] | None
    value_serializer: Serializer | Callable[[Any], bytes | None] | None
    security: Security | None
    environment: Environment | None


class Producer:
    """Writes records to topics; blocking calls, for threads.

        with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
            sent = producer.send("orders", b"value", key=b"key")
            print(sent.get(timeout=10).offset)

    `send` returns at once unless the buffer is full or the topic is new; the `Delivery` it returns is done
    when the broker has acknowledged the record.  Any number of threads may share a producer.  Options,
    methods and errors are those of `tidelog.aio.Producer`.  The constructor connects, and raises `Unreachable` when
    no bootstrap address answers.  When the program ends, records of producers that were not closed are delivered, for
    a few seconds at most.
    """

    def __init__(self, **options: Unpack[ProducerSettings]) -> None:
        self._closed = True
        self._serializes = any(options.get(name) for name in ("key_serializer", "value_serializer"))
        core = producer.Producer(**options)
        self._thread = loop_thread.join()
        try:
            self._thread.run(core.start())
        except BaseException:
            loop_thread.leave(self._thread)
            raise
        self._core = core
        self._sender = core.sender
        self._intake = core.sender.intake
        self._closed = False
        open_producers.opened(core, self._thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._closed:
            self._closed = True
            self._end(self._core.__aexit__(kind, problem, trace))

    def close(self, timeout: float | None = None) -> None:
        """Delivers the records that were sent, then closes.  After `timeout` seconds the producer gives up: the other
        records fail, and this raises `DeliveryTimedOut`.

            producer.close(timeout=10)
        """
        if not self._closed:
            self._closed = True
            self._end(self._core.close(timeout))

    def _end(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self._thread.run(work)
        finally:
            open_producers.closed(self._core)
            loop_thread.leave(self._thread)

    # Records

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Sends a record; `get` of the result gives its partition and offset.

            sent = producer.send("orders", b"2 pears", key=b"alice")

        Blocks up to `max_block_ms` for the topic's metadata and for room in the buffer (`BufferExhausted`)."""
        if self._serializes:
            key, value = self._core.serialized(topic, key, value)
        intake = self._intake
        if timestamp is not None:
            checks.time("timestamp", timestamp)
        try:
            sent = intake.take(topic, value, key, headers, timestamp, partition)
        except (TypeError, ValueError):
            checks.record_parts(headers, partition)
            raise
        if sent is None:
            return self._run(self._core.send_bytes(topic, value, key, headers, timestamp, partition))
        if intake.crowded:
            self._sender.turn(TURN_S_MAX)
        return sent

    def send_batch(
        self,
        topic: str,
        data: pyarrow.Table | pyarrow.RecordBatch,
        key: str | None = "key",
        value: str | None = "value",
        headers: str | None = None,
        timestamp: str | None = None,
        partition: int | str | None = None,
    ) -> BatchDelivery:
        """Sends the rows of an Arrow table or record batch as records.

            table = pyarrow.table({"key": ["a", "b"], "value": [b"1", b"2"]})
            producer.send_batch("orders", table).get(timeout=60)

        Arguments name columns (a table without a column "key" has no keys); `partition` may also be a number.
        """
        return self._run(self._core.send_batch(topic, data, key, value, headers, timestamp, partition))

    def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions.

        partitions = producer.partitions_for("orders")
        """
        return self._run(self._core.partitions_for(topic))

    def flush(self, timeout: float | None = None) -> None:
        """Waits until every record sent so far is acknowledged or has failed; each `Delivery` knows which.

        producer.flush(timeout=10)
        """
        self._run(self._core.flush(timeout))

    def metrics(self) -> ProducerMetrics:
        """What this client has done so far, as plain values; `.prometheus()` of the result is text for a scraper.

        print(producer.metrics().record_send_rate)
        """
        return self._core.metrics()

    # Transactions

    def begin_transaction(self) -> None:
        """Begins a transaction: its records become visible together or not at all, to readers with
        `isolation_level="read_committed"`.

            producer.begin_transaction()
        """
        self._run(self._core.begin_transaction())

    def commit_transaction(self) -> None:
        """Delivers the transaction's records, then makes them visible.  After `TransactionAbortable` the transaction
        can only be aborted; after an error that is `retriable` its outcome is unknown: commit again.

            producer.commit_transaction()
        """
        self._run(self._core.commit_transaction())

    def abort_transaction(self) -> None:
        """Aborts the transaction: its records never become visible, and records that have not left yet fail with
        `TransactionAborted`.

            producer.abort_transaction()
        """
        self._run(self._core.abort_transaction())

    def prepare_transaction(self) -> PreparedTransaction | None:
        """Delivers the transaction's records and leaves it open, for `Admin.end_transaction` to end, maybe in another
        process.  Returns None when the transaction is empty: there is nothing to end.

            prepared = producer.prepare_transaction()
        """
        return self._run(self._core.prepare_transaction())

    def send_offsets_to_transaction(self, offsets: Offsets, group: str | GroupMetadata) -> None:
        """Commits offsets of a consumer group as part of the transaction, so that records are read, processed and
        written exactly once.

        producer.send_offsets_to_transaction({TopicPartition("orders", 0): 43}, "billing")
        """
        self._run(self._core.send_offsets_to_transaction(offsets, group))

    def send_acknowledgements_to_transaction(
        self, records: Iterable[Record], consumer: ShareConsumer, how: How = "accept"
    ) -> None:
        """Records that a share consumer was given are acknowledged as part of the transaction: when it commits, they are
        done; when it aborts, they are delivered again.  So the work on a queue's records is done exactly once.

            with producer.transaction():
                for record in records:
                    producer.send("bills", bill(record.value))
                producer.send_acknowledgements_to_transaction(records, consumer)

        `consumer` has `acknowledgement_mode="explicit"`.  `how`: "accept" or "reject".  After an error, abort."""
        self._run(self._core.send_acknowledgements_to_transaction(records, consumer._core, how))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begins a transaction, commits it at the end of the block, and aborts it when the block raises.

        with producer.transaction():
            producer.send("bills", b"one")
        """
        self.begin_transaction()
        try:
            yield
            self.commit_transaction()
        except BaseException as problem:
            if not self._closed and self._core.abortable:
                try:
                    self.abort_transaction()
                except errors.TidelogError as second:
                    problem.add_note(f"the transaction could not be aborted either: {second}")
            raise

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise ClientClosed("this producer is closed: make a new one")
        return self._thread.run(work)
