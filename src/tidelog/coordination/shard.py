"""One partition of an internal topic, and the state that its records add up to.

A change is decided first, then appended, then replayed into the state, all before the caller's first await; so a
failed append changes nothing, and whoever comes next sees the change.  What was decided is told to a client only once
it is committed: on all in-sync replicas, and on disk where the topic asks for that.  Reading waits for the same, so
nobody is told of a change that a failover could undo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from tidelog import errors
from tidelog.clock import Clock
from tidelog.coordination.entries import Entry, Kinds
from tidelog.record.builder import BatchBuilder
from tidelog.replication.commit_status import Appended, appended_before, is_committed, when_committed
from tidelog.replication.partition import Ending, Partition
from tidelog.types import Epoch

NO_PRODUCER = -1


class Machine(Protocol):
    """What a shard's records add up to.  Pure: the same records give the same state, live or loaded."""

    def replay(self, entry: Entry, producer_id: int) -> None:
        """`producer_id` is not -1 when the record belongs to a transaction that is open until `ended`."""
        ...

    def ended(self, producer_id: int, committed: bool) -> None:
        """The producer's transaction in this partition ended."""
        ...


M = TypeVar("M", bound=Machine)


class Writer(NamedTuple):
    """The transactional producer on whose behalf records are written."""

    producer_id: int
    producer_epoch: int


class Shard(Generic[M]):
    def __init__(
        self,
        index: int,
        partition: Partition,
        machine: M,
        kinds: Kinds,
        clock: Clock,
        broken: Callable[[Shard[M], Exception], None],
    ) -> None:
        """`broken` is called when the log has lost what the state has: the state must be loaded again."""
        self.index = index
        self.machine = machine
        self.epoch = Epoch(partition.state.epoch)
        self.closed = False
        self._partition = partition
        self._kinds = kinds
        self._clock = clock
        self._broken = broken

    def __repr__(self) -> str:
        return f"Shard({self._partition.name}, epoch {self.epoch})"

    # Writing.  Both raise what `coordinator_error` makes of the log's problem, and then nothing has changed.

    def append(self, entries: Sequence[Entry], writer: Writer | None = None) -> Appended | None:
        """One batch, all or nothing; None when there is nothing to write.  Pass the result to `committed`."""
        if not entries:
            return None
        now_ms = self._clock.now_ms()
        builder = BatchBuilder()
        for entry in entries:
            key, value = self._kinds.encode(entry)
            builder.add(key, value, now_ms)
        if writer is None:
            batch = builder.build()
        else:
            batch = builder.build(
                producer_id=writer.producer_id, producer_epoch=writer.producer_epoch, transactional=True
            )
        appended = self._append(bytearray(batch))
        producer_id = NO_PRODUCER if writer is None else writer.producer_id
        for entry in entries:
            self.machine.replay(entry, producer_id)
        return appended

    def append_batch(self, batch: bytearray) -> Appended:
        """One that the caller encoded himself: the next thing he does is to take it into the state."""
        return self._append(batch)

    def end_transaction(self, ending: Ending) -> Appended:
        """The marker that ends what the producer wrote here."""
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
            raise errors.NotCoordinator(f"{self._partition.name} is not coordinated here any more")

    # Waiting

    def is_committed(self, appended: Appended) -> bool:
        return appended.durable is None and is_committed(self._partition, appended)

    @property
    def is_settled(self) -> bool:
        """Everything that the state has is committed."""
        return self._partition.log.next <= self._partition.state.committed

    async def committed(self, appended: Appended | None, timeout_ms: int) -> None:
        """Returns when what was appended can be told; raises when that cannot be said in time."""
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
        """Returns when everything that the state has is committed: call it before telling what was read."""
        log = self._partition.log
        if log.next > self._partition.state.committed:
            await self.committed(
                appended_before(self._partition, log.next, log.next, log.durable), timeout_ms
            )

    async def _durable(self, done: asyncio.Future[None]) -> None:
        try:
            await asyncio.shield(done)
        except errors.TidelogError as problem:
            self._broken(self, problem)
            raise


def coordinator_error(problem: errors.TidelogError) -> errors.TidelogError:
    """What a client of a coordinator is told when its log refuses an append, so that it does the right thing."""
    if isinstance(problem, errors.NotLeaderOrFollower | errors.KafkaStorageError):
        return errors.NotCoordinator(f"{problem}: ask for the coordinator again")
    if isinstance(
        problem, errors.UnknownTopicOrPartition | errors.NotEnoughReplicas | errors.RequestTimedOut
    ):
        return errors.CoordinatorNotAvailable(str(problem))
    if isinstance(problem, errors.MessageTooLarge | errors.RecordListTooLarge):
        return errors.UnknownServerError(str(problem))
    return problem
