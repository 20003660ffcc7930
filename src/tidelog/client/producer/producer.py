"""The producer, asyncio face: takes records, puts them in batches, delivers each once and in order."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tidelog import errors
from tidelog._speed.client.delivery import Delivery
from tidelog.client import checks
from tidelog.client.cluster.addresses import parse_addresses
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.cluster.topology import Topic
from tidelog.client.environment import Environment
from tidelog.client.errors import ClientClosed, DeliveryTimedOut, TransactionAborted
from tidelog.client.groups.metadata import GroupMetadata, Offsets, with_metadata
from tidelog.client.producer.batch import Headers
from tidelog.client.producer.batch_delivery import BatchDelivery
from tidelog.client.producer.buffer_memory import BufferMemory
from tidelog.client.producer.metrics import ProducerMetrics
from tidelog.client.producer.options import (
    ProducerOptions,
    acks_of,
    compression_of,
    may_be_idempotent,
)
from tidelog.client.producer.partitioner import Partitioner, kind_of
from tidelog.client.producer.sender import Sender
from tidelog.client.security.security import Security
from tidelog.client.telemetry.reporter import TelemetryReporter
from tidelog.client.telemetry.standard_metrics import producer_metrics
from tidelog.client.topic_names import check_topic
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.client.transactions.transactions import ProducerTransactions
from tidelog.schema.serializer import Remote, Serializer, serializer_of
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from tidelog._speed.client.column_writer import Rows
    from tidelog._speed.client.consumed import Record
    from tidelog.client.share.acknowledgements import How
    from tidelog.client.share.consumer import ShareConsumer

# What comes in bulk leaves in bulk: well below what brokers take at most (`max.message.bytes`).
BULK_BYTES = 512 * 1024
# How many rows are taken before others have their turn.
ROWS_A_TURN = 20_000


class Producer:
    """Writes records to topics.

        async with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
            sent = await producer.send("orders", b"value", key=b"key")
            where = await sent
            print(where.partition, where.offset)

    `send` waits only for room in the buffer; the `Delivery` it returns is done when the broker has
    acknowledged the record.  Records to one partition arrive in the order they were sent, through retries,
    each once (`enable_idempotence`, on unless other options forbid it).  Options have Kafka's names and
    meaning; times are in milliseconds, except for the timeouts of `flush` and `close`, in seconds.

    `partitioner`: "murmur2" (records with a key go where the Java client sends them, others stick to a
    partition for a batch), "sticky", "round_robin", or a function of topic, key and number of partitions
    that returns a partition, or None for any.  `key_serializer` and `value_serializer` turn objects into bytes: see
    `tidelog.schema`, or give a function.  `security`: TLS and logins, see `Security`.

    With a `transactional_id`, records are written in transactions:

        async with producer.transaction():
            await producer.send("orders", b"one")
            await producer.send("payments", b"two")
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        client_id: str = "tidelog",
        acks: int | str = "all",
        batch_size: int = 16384,
        linger_ms: int = 0,
        compression_type: str | None = "none",
        retries: int = 2**31 - 1,
        max_in_flight_requests: int = 5,
        enable_idempotence: bool | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        buffer_memory: int = 32 * 1024 * 1024,
        max_block_ms: int = 60_000,
        max_request_size: int = 1024 * 1024,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        delivery_timeout_ms: int = 120_000,
        connect_timeout_ms: int = 10_000,
        metadata_max_age_ms: int = 300_000,
        enable_metrics_push: bool = True,
        partitioner: str | Partitioner = "murmur2",
        key_serializer: Serializer | Callable[[Any], bytes | None] | None = None,
        value_serializer: Serializer | Callable[[Any], bytes | None] | None = None,
        security: Security | None = None,
        environment: Environment | None = None,
    ) -> None:
        kind_of(partitioner)
        number = acks_of(acks)
        if enable_idempotence is None:
            possible = may_be_idempotent(number, retries, max_in_flight_requests)
            enable_idempotence = possible or transactional_id is not None
        self._options = ProducerOptions(
            acks=number,
            batch_size=batch_size,
            linger_ms=linger_ms,
            compression_type=compression_of(compression_type),
            retries=retries,
            max_in_flight_requests=max_in_flight_requests,
            enable_idempotence=enable_idempotence,
            buffer_memory=buffer_memory,
            max_block_ms=max_block_ms,
            max_request_size=max_request_size,
            delivery_timeout_ms=delivery_timeout_ms,
            partitioner=partitioner,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        waits = request_timeout_ms, connect_timeout_ms, retry_backoff_ms, retry_backoff_max_ms
        connection = ConnectionOptions(client_id, *waits, metadata_max_age_ms, security, enable_metrics_push)
        self._environment = environment or Environment.system()
        self._cluster = Cluster(parse_addresses(bootstrap_servers), connection, self._environment)
        self._memory = BufferMemory(buffer_memory)
        self._key_serializer = serializer_of(key_serializer)
        self._value_serializer = serializer_of(value_serializer)
        self._plain = key_serializer is None and value_serializer is None
        self._transactions: ProducerTransactions | None = None
        if transactional_id is not None:
            self._transactions = ProducerTransactions(
                self._cluster, transactional_id, transaction_timeout_ms, max_block_ms
            )
        self._bulk_bytes = max(batch_size, min(BULK_BYTES, max_request_size, buffer_memory))
        self._sender: Sender | None = None
        self._telemetry: TelemetryReporter | None = None
        self._closed = False

    # Beginning and end

    async def start(self) -> None:
        """Connects; raises `Unreachable` when no bootstrap address answers.  With a `transactional_id`, ends the
        transaction that an earlier producer of that id has left open.  `async with` calls this."""
        if self._sender is not None or self._closed:
            self._running()
            return
        try:
            await self._cluster.open()
            if self._transactions is not None:
                await self._transactions.start()
        except BaseException:
            await self._cluster.close()
            raise
        self._sender = Sender(self._cluster, self._options, self._memory, self._transactions)
        self._sender.intake.admitting = self._transactions is None
        sender, transactional_id = self._sender, self._options.transactional_id
        labels = {} if transactional_id is None else {"transactional_id": transactional_id}
        self._telemetry = TelemetryReporter(
            self._cluster, "producer", lambda: producer_metrics(sender.metrics()), lambda: labels
        )
        self._telemetry.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the block's own exception matters more than waiting for a broker that may be gone.
        if problem is None:
            await self.close()
        else:
            failure = ClientClosed("the producer was closed by an error before this was delivered")
            await self._stop(failure, last_push=False)

    async def close(self, timeout: float | None = None) -> None:
        """Delivers the records that were sent, then closes.  After `timeout` seconds the producer gives up: the other
        records fail, and this raises `DeliveryTimedOut`.

            await producer.close(timeout=10)
        """
        if self._closed:
            return
        left = 0
        try:
            if self._sender is not None:
                async with asyncio.timeout(timeout):
                    await self._sender.flush()
        except TimeoutError:
            left = self._sender.waiting_records if self._sender is not None else 0
        finally:
            problem = ClientClosed("the producer was closed before this was delivered")
            await self._stop(problem, last_push=not left)
        if left:
            raise DeliveryTimedOut(
                f"{left} records were not delivered within {timeout} s; their futures say so"
            )

    async def _stop(self, problem: errors.TidelogError, last_push: bool) -> None:
        self._closed = True
        if self._telemetry is not None:
            await self._telemetry.close(last_push)
        if self._sender is not None:
            await self._sender.close(problem)
        if self._transactions is not None:
            await self._transactions.close()
        await self._cluster.close()

    def __del__(self) -> None:
        # A producer that was not closed warns of the records that are lost.
        sender = getattr(self, "_sender", None)
        if sender is not None and not self._closed and (left := sender.waiting_records):
            warnings.warn(
                f"a producer was not closed, and {left} of its records were not delivered: use `async with`",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )

    @property
    def sender(self) -> Sender:
        """For the blocking face, which puts records into the sender's batches on its caller's thread."""
        return self._running()

    @property
    def abortable(self) -> bool:
        """A transaction is open that can be aborted."""
        return self._transactions is not None and self._transactions.state.abortable

    def _running(self) -> Sender:
        if self._closed:
            raise ClientClosed("this producer is closed: make a new one")
        if self._sender is None:
            raise ClientClosed("this producer is not started: use `async with`, or await start()")
        return self._sender

    # Records

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Sends a record; await the result to know its partition and offset.

            sent = await producer.send("orders", b"2 pears", key=b"alice")

        Waits up to `max_block_ms` for the topic's metadata and for room in the buffer (`BufferExhausted`)."""
        if not self._plain:
            for serializer, is_key in ((self._key_serializer, True), (self._value_serializer, False)):
                if isinstance(serializer, Remote) and not serializer.ready(topic, is_key):
                    await asyncio.to_thread(serializer.prepare, topic, is_key)
            key, value = self.serialized(topic, key, value)
        return await self.send_bytes(topic, value, key, headers, timestamp, partition)

    def serialized(self, topic: str, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        """Key and value as bytes; may ask a registry, and wait for it."""
        if self._key_serializer is not None:
            key = self._key_serializer.serialize(topic, key, True)
        if self._value_serializer is not None:
            value = self._value_serializer.serialize(topic, value, False)
        return key, value

    async def send_bytes(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp: int | None,
        partition: int | None,
    ) -> Delivery:
        """`send` behind the serializers."""
        sender = self._sender
        if sender is None or self._closed:
            sender = self._running()
        if timestamp is not None:
            checks.time("timestamp", timestamp)
        try:
            sent = sender.intake.take(topic, value, key, headers, timestamp, partition)
        except (TypeError, ValueError):
            checks.record_parts(headers, partition)
            raise
        if sent is None:
            return await self._send_slowly(sender, topic, value, key, headers, timestamp, partition)
        if sender.intake.crowded:
            await asyncio.sleep(0)  # a caller that never waits would keep the sender from its turn
        return sent

    async def _send_slowly(
        self,
        sender: Sender,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers,
        timestamp: int | None,
        partition: int | None,
    ) -> Delivery:
        """Waits for metadata or memory that the intake lacks, then gives it the record; raises when that takes too
        long."""
        clock, options, intake = self._environment.clock, self._options, sender.intake
        deadline_ms = clock.monotonic_ms() + options.max_block_ms
        if self._transactions is not None:
            self._transactions.state.in_transaction()
        if topic not in intake.routes:
            sender.accumulator.route(await self._learn(topic))
        if partition is not None and intake.routes[topic].topic.partition(partition) is None:
            raise self._cluster.missing(TopicPartition(topic, partition))
        size = intake.size_of(key, value, headers)
        if size > intake.record_bytes_max:
            raise errors.MessageTooLarge(
                f"a record of {size} bytes for {topic!r} is larger than max_request_size "
                f"({options.max_request_size}) or buffer_memory ({options.buffer_memory}) allows"
            )
        if not self._memory.try_take(size):
            sender.wake()
            await self._memory.take(size, max(0, deadline_ms - clock.monotonic_ms()))
        sent = None
        try:
            self._running()
            if self._transactions is not None:
                self._transactions.state.in_transaction()
            sent = intake.take(topic, value, key, headers, timestamp, partition, paid=True)
        finally:
            if sent is None:
                self._memory.give(size)
        if sent is None:
            count = len(intake.routes[topic].topic.partitions)
            raise errors.UnknownTopicOrPartition(
                f"the partitioner chose a partition that {topic!r} does not have: it has 0 to {count - 1}"
            )
        return sent

    async def send_batch(
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
            sent = await producer.send_batch("orders", table)
            await sent

        Arguments name columns (a table without a column "key" has no keys); `partition` may also be a number.
        Waits up to `max_block_ms` at a time for room in the buffer: a table may be larger than that."""
        from tidelog.record.columns import rows_of

        if not self._plain:
            raise ValueError(
                "send_batch writes the bytes of its columns as they are: use a producer without serializers for it"
            )
        if not hasattr(data, "schema"):
            raise TypeError(f"send_batch takes an Arrow table or record batch, not {type(data).__name__}")
        if key == "key" and key not in data.schema.names:
            key = None
        chunks = rows_of(
            data, key=key, value=value, headers=headers, timestamp=timestamp, partition=partition
        )
        count, batches = 0, []
        for rows in chunks:
            await self._send_rows(topic, rows)
            count += rows.rows
            batches += rows.batches
        return BatchDelivery(count, batches)

    async def _send_rows(self, topic: str, rows: Rows) -> None:
        sender = self._running()
        while rows.sent < rows.rows:
            if topic not in sender.intake.routes:
                sender.accumulator.route(await self._learn(topic))
            if not rows.send(sender.intake, topic, ROWS_A_TURN, self._bulk_bytes):
                self._running()
                if self._transactions is not None:
                    self._transactions.state.in_transaction()
            if rows.needs:
                sender.wake()
                await self._memory.take(rows.needs, self._options.max_block_ms)
                self._memory.give(rows.needs)
            else:
                await asyncio.sleep(0)
            self._running()

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions.

        partitions = await producer.partitions_for("orders")
        """
        self._running()
        metadata = await self._learn(topic)
        return [partition.index for partition in metadata.partitions]

    async def _learn(self, topic: str) -> Topic:
        check_topic(topic)
        metadata = await self._cluster.topic(topic, self._options.max_block_ms, auto_create=True)
        self._cluster.track(topic, auto_create=True)
        return metadata

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until every record sent so far is acknowledged or has failed; each `Delivery` knows which.

        await producer.flush(timeout=10)
        """
        sender = self._running()
        try:
            async with asyncio.timeout(timeout):
                await sender.flush()
        except TimeoutError:
            raise DeliveryTimedOut(
                f"{sender.waiting_records} records were not acknowledged within {timeout} s"
            ) from None

    def metrics(self) -> ProducerMetrics:
        """What this client has done so far, as plain values; `.prometheus()` of the result is text for a scraper.

        print(producer.metrics().record_send_rate)
        """
        return self._running().metrics()

    # Transactions

    async def begin_transaction(self) -> None:
        """Begins a transaction: its records become visible together or not at all, to readers with
        `isolation_level="read_committed"`.

            await producer.begin_transaction()
        """
        sender, transactions = self._transactional()
        await transactions.begin()
        sender.intake.admitting = True

    async def commit_transaction(self) -> None:
        """Delivers the transaction's records, then makes them visible.  After `TransactionAbortable` the transaction
        can only be aborted; after an error that is `retriable` its outcome is unknown: commit again.

            await producer.commit_transaction()
        """
        sender, transactions = self._transactional()
        transactions.state.committing()
        sender.intake.admitting = False
        await sender.flush()
        await transactions.end(commit=True)

    async def abort_transaction(self) -> None:
        """Aborts the transaction: its records never become visible, and records that have not left yet fail with
        `TransactionAborted`.

            await producer.abort_transaction()
        """
        sender, transactions = self._transactional()
        transactions.state.aborting()
        sender.intake.admitting = False
        await sender.abandon(TransactionAborted("its transaction was aborted"))
        await transactions.end(commit=False)

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Delivers the transaction's records and leaves it open, for `Admin.end_transaction` to end, maybe in another
        process.  Returns None when the transaction is empty: there is nothing to end.

            prepared = await producer.prepare_transaction()

        The next `begin_transaction` aborts the prepared transaction, unless it has been ended by then."""
        sender, transactions = self._transactional()
        transactions.state.in_transaction()
        sender.intake.admitting = False
        await sender.flush()
        return transactions.prepare()

    async def send_offsets_to_transaction(self, offsets: Offsets, group: str | GroupMetadata) -> None:
        """Commits offsets of a consumer group as part of the transaction, so that records are read, processed and
        written exactly once.

            await producer.send_offsets_to_transaction({TopicPartition("orders", 0): 43}, "billing")

        An offset is that of the next record to read."""
        _, transactions = self._transactional()
        member = GroupMetadata(group) if isinstance(group, str) else group
        await transactions.send_offsets(with_metadata(offsets), member)

    async def send_acknowledgements_to_transaction(
        self, records: Iterable[Record], consumer: ShareConsumer, how: How = "accept"
    ) -> None:
        """Records that a share consumer was given are acknowledged as part of the transaction: when it commits, they are
        done; when it aborts, they are delivered again.  So the work on a queue's records is done exactly once.

            async with producer.transaction():
                for record in records:
                    await producer.send("bills", bill(record.value))
                await producer.send_acknowledgements_to_transaction(records, consumer)

        `consumer` has `acknowledgement_mode="explicit"`.  `how`: "accept" or "reject".  After an error, abort.  Tidelog
        serves this, Apache Kafka does not."""
        _, transactions = self._transactional()
        chosen = tuple(records)

        if chosen:
            await transactions.join(
                lambda identity: consumer._acknowledge_in_transaction(identity, chosen, how)
            )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begins a transaction, commits it at the end of the block, and aborts it when the block raises.

        async with producer.transaction():
            await producer.send("bills", b"one")
        """
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException as problem:
            if not self._closed and self.abortable:
                try:
                    await self.abort_transaction()
                except errors.TidelogError as second:
                    problem.add_note(f"the transaction could not be aborted either: {second}")
            raise

    def _transactional(self) -> tuple[Sender, ProducerTransactions]:
        sender = self._running()
        if self._transactions is None:
            raise errors.InvalidTxnState("transactions need a transactional_id: give the producer one")
        return sender, self._transactions
