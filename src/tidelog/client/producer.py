"""The producer, asyncio face: takes records, puts them in batches, delivers each once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tidelog import errors
from tidelog.client.addresses import parse_addresses
from tidelog.client.batch import Headers, RecordMetadata
from tidelog.client.cluster import Cluster
from tidelog.client.environment import Environment
from tidelog.client.errors import ClientClosed, DeliveryTimedOut
from tidelog.client.memory import BufferMemory
from tidelog.client.options import ConnectionOptions, ProducerOptions, acks_of
from tidelog.client.partitioner import Partitioner, Sticky, by_key
from tidelog.client.sender import Sender
from tidelog.client.topology import NO_LEADER, Topic
from tidelog.record import codec_named
from tidelog.types import TopicPartition

# What a record takes in a batch besides its key, value and headers, at most: lengths, deltas, attributes.
RECORD_OVERHEAD_BYTES = 32
HEADER_OVERHEAD_BYTES = 10
# What it takes in memory besides: its future, above all.  Without it, small records would break the bound.
RECORD_MEMORY_BYTES = 160


class Producer:
    """
    async with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        sent = await producer.send("orders", b"value", key=b"key")
        where = await sent
        print(where.partition, where.offset)

    `send` waits only for room in the buffer; the future it returns is done when the broker has acknowledged
    the record.  Records to one partition arrive in the order they were sent, through retries.  Options have
    Kafka's names and meaning; times are in milliseconds, except for the timeouts of `flush` and `close`, in
    seconds.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        client_id: str = "tidelog",
        acks: int | str = "all",
        batch_size: int = 16384,
        linger_ms: int = 0,
        compression_type: str = "none",
        retries: int = 2**31 - 1,
        max_in_flight_requests: int = 5,
        enable_idempotence: bool | None = None,
        buffer_memory: int = 32 * 1024 * 1024,
        max_block_ms: int = 60_000,
        max_request_size: int = 1024 * 1024,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        delivery_timeout_ms: int = 120_000,
        connect_timeout_ms: int = 10_000,
        metadata_max_age_ms: int = 300_000,
        partitioner: Partitioner = by_key,
        environment: Environment | None = None,
    ) -> None:
        codec_named(compression_type)
        number = acks_of(acks)
        if enable_idempotence is None:
            enable_idempotence = number == -1 and retries > 0 and max_in_flight_requests <= 5
        self._options = ProducerOptions(
            acks=number,
            batch_size=batch_size,
            linger_ms=linger_ms,
            compression_type=compression_type,
            retries=retries,
            max_in_flight_requests=max_in_flight_requests,
            enable_idempotence=enable_idempotence,
            buffer_memory=buffer_memory,
            max_block_ms=max_block_ms,
            max_request_size=max_request_size,
            delivery_timeout_ms=delivery_timeout_ms,
        )
        connection = ConnectionOptions(
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            metadata_max_age_ms=metadata_max_age_ms,
        )
        self._environment = environment or Environment.system()
        self._cluster = Cluster(parse_addresses(bootstrap_servers), connection, self._environment)
        self._memory = BufferMemory(buffer_memory)
        self._partitioner = partitioner
        self._sticky: dict[str, tuple[Sticky, Topic]] = {}
        self._sender: Sender | None = None
        self._closed = False

    async def start(self) -> None:
        """Connects; raises `Unreachable` when no bootstrap address answers.  `async with` does it for you."""
        if self._sender is None:
            try:
                await self._cluster.open()
            except BaseException:
                await self._cluster.close()
                raise
            self._sender = Sender(self._cluster, self._options, self._memory)

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
            await self._stop(ClientClosed("the producer was closed by an error before this was delivered"))

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Takes the record; await the result to know where it is.

        Waits up to `max_block_ms` for the topic's metadata and for room in the buffer (`BufferExhausted`)."""
        sender = self._running()
        known = self._cluster.topology.topics.get(topic)
        if known is None or known.error or not known.partitions:
            known = await self._learn(topic)
        if partition is None:
            partition = self._partitioner(topic, key, len(known.partitions))
        elif known.partition(partition) is None:
            raise self._cluster.missing(TopicPartition(topic, partition))
        size = _size(key, value, headers)
        if size > min(self._options.max_request_size, self._memory.bytes_max - RECORD_MEMORY_BYTES):
            raise errors.MessageTooLarge(
                f"a record of {size} bytes for {topic!r} is larger than max_request_size "
                f"({self._options.max_request_size}) or buffer_memory ({self._memory.bytes_max}) allows"
            )
        taken = size + RECORD_MEMORY_BYTES
        if not self._memory.try_take(taken):
            sender.wake()
            await self._memory.take(taken, self._options.max_block_ms)
            sender = self._running()
        try:
            if partition is None:
                partition = self._stick(known, size)
            if timestamp is None:
                timestamp = self._environment.clock.now_ms()
            return sender.append(TopicPartition(topic, partition), key, value, timestamp, headers, taken)
        except BaseException:
            self._memory.give(taken)
            raise

    async def partitions_for(self, topic: str) -> list[int]:
        self._running()
        known = await self._learn(topic)
        return [one.index for one in known.partitions]

    async def flush(self, timeout: float | None = None) -> None:
        """Until everything sent so far is acknowledged or has failed; each future knows which."""
        sender = self._running()
        try:
            async with asyncio.timeout(timeout):
                await sender.flush()
        except TimeoutError:
            raise DeliveryTimedOut(
                f"{sender.waiting_records} records were not acknowledged within {timeout} s"
            ) from None

    async def close(self, timeout: float | None = None) -> None:
        """Delivers what was sent, then closes.  After `timeout` seconds it gives up: what is left fails, and
        this raises."""
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
            await self._stop(ClientClosed("the producer was closed before this was delivered"))
        if left:
            raise DeliveryTimedOut(
                f"{left} records were not delivered within {timeout} s; their futures say so"
            )

    async def _stop(self, problem: errors.TidelogError) -> None:
        self._closed = True
        if self._sender is not None:
            await self._sender.close(problem)
        await self._cluster.close()

    def _running(self) -> Sender:
        if self._closed:
            raise ClientClosed("this producer is closed: make a new one")
        if self._sender is None:
            raise ClientClosed("this producer is not started: use `async with`, or await start()")
        return self._sender

    async def _learn(self, topic: str) -> Topic:
        known = await self._cluster.topic(topic, self._options.max_block_ms, auto_create=True)
        self._cluster.track(topic, auto_create=True)
        return known

    def _stick(self, topic: Topic, size: int) -> int:
        sticky, seen = self._sticky.get(topic.name, (None, None))
        if sticky is None:
            sticky = Sticky(self._options.batch_size, self._environment.random)
        # News of the topic may be that the partition has lost its leader: choose anew.
        chosen = sticky.stay(size) if seen is topic else None
        if chosen is None:
            led = [one.index for one in topic.partitions if one.leader != NO_LEADER]
            chosen = sticky.move(led or [one.index for one in topic.partitions], size)
            self._sticky[topic.name] = (sticky, topic)
        return chosen


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """What the record takes on the wire, at most; counted before it is encoded."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    if headers:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        for name, content in pairs:
            size += HEADER_OVERHEAD_BYTES + len(name) * 4 + len(content or b"")
    return size
