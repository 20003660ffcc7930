"""The record accumulator: a queue of batches per partition, and the intake that fills them from any thread.

A topic's queues are made when its first record is sent; its route is renewed when its metadata change.  `Sender` owns
the only instance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog._speed.client.intake import Intake, TopicLanes
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.topology import NO_LEADER, Topic, Topology
from tidelog.client.errors import ClientClosed
from tidelog.client.producer.batch import OutgoingBatch
from tidelog.client.producer.buffer_memory import BufferMemory
from tidelog.client.producer.options import ProducerOptions
from tidelog.client.producer.partition_queue import PartitionQueue
from tidelog.client.producer.partitioner import another, kind_of
from tidelog.clock import SystemClock
from tidelog.record import codec_named
from tidelog.types import TopicPartition

# How many times `batch_size` a batch may reach while full ones in front of it wait for answers.
GROWTH = 8


class RecordAccumulator:
    def __init__(
        self, cluster: Cluster, options: ProducerOptions, memory: BufferMemory, wake: Callable[[], None]
    ) -> None:
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self._cluster = cluster
        self._options = options
        self._codec = codec_named(options.compression_type)
        self._loop = asyncio.get_running_loop()
        self._topology: Topology | None = None
        self._closed = False
        environment = cluster.environment
        kind, partitioner = kind_of(options.partitioner)
        self.intake = Intake(
            memory,
            min(options.max_request_size, options.buffer_memory),
            max(1, options.batch_size),
            make=self._begin_batch,
            wake=wake,
            move=lambda led, current: another(led, current, environment.random),
            # Asking the machine natively costs a tenth.
            now_ms=None if isinstance(environment.clock, SystemClock) else environment.clock.now_ms,
            kind=kind,
            partitioner=partitioner,
            grown_bytes_max=min(GROWTH * options.batch_size, options.max_request_size),
        )

    def close(self) -> None:
        self._closed = True
        self.intake.admitting = False

    def _begin_batch(self, partition: TopicPartition) -> OutgoingBatch:
        """Called from any thread."""
        if self._closed:
            raise ClientClosed("this producer is closed: make a new one")
        now_ms = self._cluster.environment.clock.monotonic_ms()
        batch = OutgoingBatch(partition, self._options.batch_size, now_ms)
        batch.loop = self._loop
        return batch

    def route(self, topic: Topic) -> None:
        """The intake takes the topic's records from now on."""
        lanes = []
        for partition_metadata in topic.partitions:
            partition = TopicPartition(topic.name, partition_metadata.index)
            queue = self.queues.get(partition)
            if queue is None:
                queue = self.queues[partition] = self._queue(partition)
            lanes.append(queue.lane)
        led = [
            partition_metadata.index
            for partition_metadata in topic.partitions
            if partition_metadata.leader != NO_LEADER
        ]
        choice = led or [partition_metadata.index for partition_metadata in topic.partitions]
        turn = self._cluster.environment.random.randrange(len(choice))
        self.intake.routes[topic.name] = TopicLanes(topic, lanes, choice, turn)

    def follow(self) -> None:
        """Renews the routes of topics whose metadata have changed: partitions were added, leaders were lost."""
        topology = self._cluster.topology
        if topology is self._topology:
            return
        self._topology = topology
        for name, route in list(self.intake.routes.items()):
            topic = topology.topics.get(name)
            if topic is not None and topic is not route.topic and not topic.error and topic.partitions:
                self.route(topic)

    def _queue(self, partition: TopicPartition) -> PartitionQueue:
        options = self._options
        # Without sequence numbers only one batch at a time keeps its order when it has to be sent again.
        pipelined = options.enable_idempotence or options.acks == 0 or options.retries == 0
        return PartitionQueue(
            partition,
            codec=self._codec,
            idempotent=options.enable_idempotence,
            unsettled_max=options.max_in_flight_requests if pipelined else 1,
            transactional=options.transactional_id is not None,
        )
