"""A coordinator shard: one partition of an internal topic, and the state that its records add up to.

A change is decided, then appended, then replayed into the state, all before the caller's first await: a failed append
changes nothing, and the next request sees the change.  A client gets its answer only when the records are committed: on
all in-sync replicas, and on disk if the topic asks for that.  Reads wait for the same, so that no client sees a change
that a failover could undo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from tidelog import errors
from tidelog.clock import Clock
from tidelog.coordination.records import CoordinatorRecord, RecordTypes
from tidelog.record.builder import BatchBuilder
from tidelog.record.codecs import Codec
from tidelog.replication.commit_status import Appended, appended_before, is_committed, when_committed
from tidelog.replication.partition import Ending, HostedPartition
from tidelog.types import Epoch

NO_PRODUCER = -1


class StateMachine(Protocol):
    """The state that a shard's records add up to.  Pure: the same records give the same state, live or loaded."""

    def replay(self, entry: CoordinatorRecord, producer_id: int) -> None:
        """Applies a record.  `producer_id` is not -1 if the record belongs to a transaction, which is open until
        `ended`."""
        ...

    def ended(self, producer_id: int, committed: bool) -> None:
        """The producer's transaction in this partition ended."""
        ...


M = TypeVar("M", bound=StateMachine)


class Writer(NamedTuple):
    """The transactional producer on whose behalf records are written."""

    producer_id: int
    producer_epoch: int


class Shard(Generic[M]):
    def __init__(
        self,
        index: int,
        partition: HostedPartition,
        machine: M,
        kinds: RecordTypes,
        clock: Clock,
        broken: Callable[[Shard[M], Exception], None],
        codec: Callable[[], int] = lambda: Codec.NONE,
    ) -> None:
        """`codec` is that of new batches.  `broken` is called when the log has lost records that are in the state:
        the state must be loaded again."""
        self.index = index
        self.machine = machine
        self.epoch = Epoch(partition.state.epoch)
        self.closed = False
        self._partition = partition
        self._kinds = kinds
        self._clock = clock
        self._broken = broken
        self._codec = codec

    def __repr__(self) -> str:
        return f"Shard({self._partition.name}, epoch {self.epoch})"

    # Writing.  If a method raises (see `coordinator_error`), nothing has changed.

    def append(self, entries: Sequence[CoordinatorRecord], writer: Writer | None = None) -> Appended | None:
        """Appends one batch, all or nothing; None if there is nothing to write.  Pass the result to `committed`."""
        if not entries:
            return None
        now_ms = self._clock.now_ms()
        builder = BatchBuilder()
        for entry in entries:
            key, value = self._kinds.encode(entry)
            builder.add(key, value, now_ms)
        if writer is None:
            batch = builder.build(codec=Codec(self._codec()))
        else:
            batch = builder.build(
                codec=Codec(self._codec()),
                producer_id=writer.producer_id,
                producer_epoch=writer.producer_epoch,
                transactional=True,
            )
        appended = self._append(bytearray(batch))
        producer_id = NO_PRODUCER if writer is None else writer.producer_id
        for entry in entries:
            self.machine.replay(entry, producer_id)
        return appended

    def append_batch(self, batch: bytearray) -> Appended:
        """Appends a batch that the caller has encoded; the caller must apply it to the state at once."""
        return self._append(batch)

    def end_transaction(self, ending: Ending) -> Appended:
        """Appends the marker that ends the producer's transaction in this partition."""
        self._check_open()
        try:
            appended = self._partition.append_marker(ending, self._clock.now_ms())
        except errors.TidelogError as problem:
            raise coordinator_error(problem) from problem
        self.machine.ended(ending.producer_id, ending.commit)
        return appended

    def _append(self, batch: bytearray) -> Appended:
        self._check_open()
        try:
            return self._partition.append_own(batch)
        except errors.TidelogError as problem:
            raise coordinator_error(problem) from problem

    def _check_open(self) -> None:
        if self.closed:
            raise errors.NotCoordinator(
                f"this broker no longer leads {self._partition.name}: find the coordinator again"
            )

    # Waiting

    def is_committed(self, appended: Appended) -> bool:
        return appended.durable is None and is_committed(self._partition, appended)

    @property
    def is_settled(self) -> bool:
        """True if all records of the state are committed."""
        return self._partition.log.next <= self._partition.state.committed

    async def committed(self, appended: Appended | None, timeout_ms: int) -> None:
        """Returns when the append is committed; raises if that takes longer than `timeout_ms`."""
        if appended is None:
            return await self.settled(timeout_ms)
        if self.is_committed(appended):
            return None
        durable = appended.durable
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if durable is not None:
                    await self._durable(durable)
                if not is_committed(self._partition, appended):
                    await when_committed(self._partition, appended)
        except TimeoutError:
            raise errors.CoordinatorNotAvailable(
                f"{self._partition.name}: the change is not on all in-sync replicas yet"
            ) from None
        except errors.TidelogError as problem:
            raise coordinator_error(problem) from problem

    async def settled(self, timeout_ms: int) -> None:
        """Returns when all records of the state are committed: await it before answering what was read."""
        log = self._partition.log
        if log.next > self._partition.state.committed:
            await self.committed(
                appended_before(self._partition, log.next, log.next, log.appender.durable), timeout_ms
            )

    async def _durable(self, done: asyncio.Future[None]) -> None:
        try:
            await asyncio.shield(done)
        except errors.TidelogError as problem:
            self._broken(self, problem)
            raise


def coordinator_error(problem: errors.TidelogError) -> errors.TidelogError:
    """The error for a client when the shard's log refuses an append, chosen so that the client reacts correctly."""
    if isinstance(problem, errors.NotLeaderOrFollower | errors.KafkaStorageError):
        return errors.NotCoordinator(f"{problem}: find the coordinator again")
    if isinstance(
        problem, errors.UnknownTopicOrPartition | errors.NotEnoughReplicas | errors.RequestTimedOut
    ):
        return errors.CoordinatorNotAvailable(str(problem))
    if isinstance(problem, errors.MessageTooLarge | errors.RecordListTooLarge):
        return errors.UnknownServerError(str(problem))
    return problem
