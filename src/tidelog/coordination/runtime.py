"""The runtime of a coordinator: the shards of one internal topic that this broker leads.

A shard is loaded when the broker becomes leader of its partition, and dropped when it loses the leadership.  While a
shard loads, requests get COORDINATOR_LOAD_IN_PROGRESS, and clients try again.  Loading reads the log in slices, and
yields to the loop between them.  `app.lifecycle` calls `apply` with every metadata update, after the partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Generic

from tidelog import errors
from tidelog.clock import Clock
from tidelog.coordination.internal_topic import InternalTopic, partition_for
from tidelog.coordination.records import RecordTypes
from tidelog.coordination.shard import NO_PRODUCER, M, Shard
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image
from tidelog.record.builder import Marker, read_marker
from tidelog.record.codecs import Codec
from tidelog.record.reader import Batch, read_batches
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.storage.fetched_log import fetch_bytes
from tidelog.storage.log import Log
from tidelog.types import Epoch, NodeId

log = logging.getLogger("tidelog.coordination")

READ_BYTES = 1 << 20
REPLAYED_A_TURN = 500  # records that are replayed before the loop may run other tasks
RELOAD_S = 1.0


class CoordinatorRuntime(Generic[M]):
    def __init__(
        self,
        topic: InternalTopic,
        node: NodeId,
        partitions: Partitions,
        clock: Clock,
        kinds: RecordTypes,
        machine: Callable[[], M],
        codec: Callable[[], int] = lambda: Codec.NONE,
    ) -> None:
        """`codec`: what new records are compressed with."""
        self.topic = topic
        self._node = node
        self._partitions = partitions
        self._clock = clock
        self._kinds = kinds
        self._machine = machine
        self._codec = codec
        self._image = Image()
        self._count: int | None = None
        self._shards: dict[int, Shard[M]] = {}
        self._loading: dict[int, tuple[Epoch, asyncio.Task[None]]] = {}
        self._stopped = False
        self.opened: list[Callable[[Shard[M]], None]] = []
        """Called with every loaded shard, before its first request."""
        self.closed: list[Callable[[Shard[M]], None]] = []
        """Called with every shard that this broker no longer coordinates."""

    # For handlers

    def shard(self, name: str) -> Shard[M]:
        """The shard that holds the state of `name`; raises the protocol's error if another broker leads the shard, or if
        it is loading."""
        count = self._count
        if count is None:
            raise errors.CoordinatorNotAvailable(
                f"topic {self.topic.name} does not exist yet: send FindCoordinator first"
            )
        return self.shard_at(partition_for(name, count))

    def shard_at(self, index: int) -> Shard[M]:
        shard = self._shards.get(index)
        if shard is not None:
            return shard
        if index in self._loading:
            raise errors.CoordinatorLoadInProgress(f"{self.topic.name}-{index} is being loaded: try again")
        raise errors.NotCoordinator(
            f"this broker does not lead {self.topic.name}-{index}: find the coordinator again"
        )

    def shards(self) -> Iterator[Shard[M]]:
        """The loaded shards."""
        return iter(list(self._shards.values()))

    @property
    def loading(self) -> bool:
        return bool(self._loading)

    @property
    def lease_proven(self) -> bool:
        """False if another broker may have replaced this one as coordinator.  State may then be answered only after a
        record without effect is committed: a replaced coordinator cannot commit one."""
        return self._partitions.lease_proven()

    def leader_of(self, name: str, count: int, image: Image) -> NodeId | None:
        partition = image.partition(self.topic.name, partition_for(name, count))
        return None if partition is None else partition.leader

    # Following the metadata

    def start(self, image: Image) -> None:
        self._stopped = False
        self._image = image
        self._count = self.topic.count(image)
        self._follow_leaders()

    def apply(self, update: Update) -> None:
        self._image = update.image
        if self.topic.name in update.topics:
            self._count = self.topic.count(update.image)
            self._follow_leaders()

    def _follow_leaders(self) -> None:
        topic = self._image.topics.get(self.topic.name)
        led: dict[int, Epoch] = {}
        if topic is not None:
            led = {p.index: Epoch(p.leader_epoch) for p in topic.partitions if p.leader == self._node}
        for index, shard in list(self._shards.items()):
            if led.get(index) != shard.epoch:
                self._close(shard)
        for index, (epoch, task) in list(self._loading.items()):
            if led.get(index) != epoch:
                task.cancel()
                del self._loading[index]
        for index, epoch in led.items():
            if index not in self._shards and index not in self._loading:
                self._load(index, epoch, 0.0)

    def _close(self, shard: Shard[M]) -> None:
        shard.closed = True
        self._shards.pop(shard.index, None)
        for tell in self.closed:
            tell(shard)

    def _load(self, index: int, epoch: Epoch, after_s: float) -> None:
        if self._stopped:
            return  # updates of the metadata still arrive while a broker stops
        try:
            partition = self._partitions.led_here(self.topic.name, index)
            if partition.log.start == partition.log.next and not after_s:
                self._open(index, partition, self._machine())  # an empty log: nothing to load
                return
        except errors.TidelogError:
            pass  # the task logs the error, and tries again
        task = asyncio.get_running_loop().create_task(self._load_until_done(index, after_s))
        self._loading[index] = (epoch, task)

    async def _load_until_done(self, index: int, after_s: float) -> None:
        name = f"{self.topic.name}-{index}"
        while True:
            await asyncio.sleep(after_s)
            try:
                partition = self._partitions.led_here(self.topic.name, index)
                machine = self._machine()
                await _replay(partition.log, machine, self._kinds, name)
                break
            except errors.TidelogError as problem:
                log.error("cannot load %s, trying again: %s", name, problem)
            except Exception:
                log.exception("loading %s failed, trying again", name)
            after_s = RELOAD_S
        self._loading.pop(index, None)
        self._open(index, partition, machine)

    def _open(self, index: int, partition: HostedPartition, machine: M) -> None:
        shard = Shard(index, partition, machine, self._kinds, self._clock, self._broken, self._codec)
        self._shards[index] = shard
        for tell in self.opened:
            tell(shard)

    def _broken(self, shard: Shard[M], problem: Exception) -> None:
        if not shard.closed:
            log.error("%s lost records that were not on disk yet, loading it again: %s", shard, problem)
            self._close(shard)
            self._load(shard.index, shard.epoch, RELOAD_S)

    async def stop(self) -> None:
        """Afterwards no shard is loaded or opened, whatever the metadata say, until `start` is called again."""
        self._stopped = True
        tasks = [task for _, task in self._loading.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loading.clear()
        for shard in self.shards():
            self._close(shard)


async def _replay(source: Log, machine: M, kinds: RecordTypes, name: str) -> None:
    offset = source.start
    while offset < source.next:
        damage = next((damaged for damaged in source.damaged if damaged.start <= offset < damaged.end), None)
        if damage is not None:
            log.error(
                "%s: offsets %d to %d are damaged, and their records are lost", name, damage.start, damage.end
            )
            offset = damage.end
            continue
        data = await fetch_bytes(source, offset, READ_BYTES, source.end)
        if data is None:
            if offset >= source.end:
                await source.flush()  # appends that are not in the file yet
            if offset >= source.end or source.end == source.next:
                return
            continue
        before = offset
        for batch in read_batches(data, check_crc=False):  # `fetch_bytes` has checked them
            if batch.header.last_offset >= offset:
                await _replay_batch(batch, machine, kinds, name)
                offset = batch.header.last_offset + 1
        if offset == before:
            raise errors.CorruptMessage(f"{name} has no complete batch at offset {offset}")
        await asyncio.sleep(0)


async def _replay_batch(batch: Batch, machine: M, kinds: RecordTypes, name: str) -> None:
    header = batch.header
    if header.control:
        for record in batch.records():
            end = read_marker(record)
            if end is not None:
                machine.ended(header.producer_id, end.marker is Marker.COMMIT)
        return
    producer_id = header.producer_id if header.transactional else NO_PRODUCER
    # Brokers do not compress these records.  A client that is allowed to write here may do so, and decompression may
    # take long.
    records = await asyncio.to_thread(batch.records) if header.compression else batch.records()
    for number, record in enumerate(records, 1):
        if number % REPLAYED_A_TURN == 0:
            await asyncio.sleep(0)
        try:
            entry = kinds.decode(record.key, record.value)
        except errors.InvalidRecord as problem:
            log.error(
                "%s: ignoring the record at offset %d, which cannot be decoded: %s",
                name,
                record.offset,
                problem,
            )
            continue
        if entry is not None:
            machine.replay(entry, producer_id)
