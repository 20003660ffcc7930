"""The transaction coordinator: one state machine for each partition of `__transaction_state` that this broker leads.

`transaction` decides a request; its record is appended, and the answer waits until the record is committed.  A
transaction ends with two records: when the first one (prepare) is committed, the outcome cannot change any more; then
every partition gets its marker, and the second one (complete) is written.  A broker that stops in between writes the
missing markers after its restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple, Protocol

from tidelog import errors
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.coordination.internal_topic import InternalTopic, TopicShape
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.coordination.shard import Shard
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.changes import Update
from tidelog.replication.partition import Ending
from tidelog.replication.partitions import Partitions
from tidelog.replication.peers import Peers
from tidelog.transactions.enlistment import RemoteEnlistment
from tidelog.transactions.markers import MarkerWait, TransactionMarkers
from tidelog.transactions.state_machine import KINDS, TOPIC, TransactionStateMachine, entry, tombstone
from tidelog.transactions.transaction import (
    DECIDED,
    NEVER_MS,
    SERVED,
    ProducerIdAndEpoch,
    Transaction,
    TransactionStatus,
    check_added,
    completed,
    concurrent,
    ended,
    ends_with_producer_id,
    fenced,
    fencing,
    initialized,
    needs_producer_id,
    with_partitions,
)
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog.transactions")

COMMIT_MS_MAX = 15_000
MARKER_MS_MAX = 15_000
RETRY_S = 0.1
RETRY_S_MAX = 2.0
EXPIRED_AT_ONCE = 500  # tombstones in one batch

TransactionShard = Shard[TransactionStateMachine]


class ProducerIdSource(Protocol):
    async def next(self) -> int: ...


class PendingEnlistment(Protocol):
    """A change of the transaction that a partition awaits before it appends the producer's batch."""

    async def wait(self) -> None: ...


class LocalEnlistment(NamedTuple):
    shard: TransactionShard

    async def wait(self) -> None:
        await self.shard.settled(COMMIT_MS_MAX)


class TransactionCoordinator:
    def __init__(
        self,
        node: NodeId,
        controller: Controller,
        partitions: Partitions,
        clock: Clock,
        producer_ids: ProducerIdSource,
        markers: TransactionMarkers,
        peers: Peers,
    ) -> None:
        self._node = node
        self._peers = peers
        self._controller = controller
        self._clock = clock
        self._producer_ids = producer_ids
        self._markers = markers
        self.topic = InternalTopic(TOPIC, controller, self._shape)
        self.coordinator: CoordinatorRuntime[TransactionStateMachine] = CoordinatorRuntime(
            self.topic, node, partitions, clock, KINDS, TransactionStateMachine
        )
        self.coordinator.opened.append(self._opened)
        self.committed = 0
        self.aborted = 0
        self.timed_out = 0
        self._tasks: dict[asyncio.Future[None], None] = {}
        self._completing: set[tuple[TransactionShard, str]] = set()

    @property
    def config(self) -> BrokerConfig:
        return self._controller.config()

    # InitProducerId

    async def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> ProducerIdAndEpoch:
        """`two_phase`: an outside coordinator ends the transactions, which never time out."""
        if not transactional_id:
            raise errors.InvalidRequest("a transactional id cannot be empty")
        if two_phase and not self.config.transaction_two_phase_commit_enable:
            raise errors.TransactionalIdAuthorizationFailed(
                "this broker allows no two-phase commit: set transaction.two.phase.commit.enable=true"
            )
        if keep_prepared:
            raise errors.UnsupportedVersion(
                "a prepared transaction cannot be kept by a new producer: end it first"
            )
        most = self.config.transaction_max_timeout_ms
        if two_phase:
            timeout_ms = NEVER_MS
        elif not 0 < timeout_ms <= most:
            raise errors.InvalidTransactionTimeout(
                f"transaction.timeout.ms is {timeout_ms}: it must be from 1 to {most}, "
                f"which is transaction.max.timeout.ms of the broker"
            )
        fresh_id: int | None = None
        while True:
            shard = self.coordinator.shard(transactional_id)
            transaction = shard.machine.get(transactional_id)
            if transaction is not None and transaction.state is TransactionStatus.ONGOING:
                if expected is not None and not _same_instance(transaction, expected):
                    raise fencing(transaction, expected.epoch)
                await self._abort(shard, transaction)
                raise concurrent(transaction)
            if fresh_id is None and needs_producer_id(transaction, expected):
                fresh_id = await self._producer_ids.next()
                continue
            after = initialized(
                transaction, transactional_id, timeout_ms, expected, fresh_id, self._clock.now_ms()
            )
            await self._change(shard, after)
            return ProducerIdAndEpoch(after.producer_id, after.epoch)

    # AddPartitionsToTxn

    async def add_partitions(
        self,
        transactional_id: str,
        instance: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        version: int,
    ) -> None:
        shard = self._shard(transactional_id)
        transaction = shard.machine.get(transactional_id)
        after = with_partitions(transaction, instance, partitions, version, self._clock.now_ms())
        if after is transaction:
            await shard.settled(COMMIT_MS_MAX)
        else:
            await self._change(shard, after)

    async def verify(
        self, transactional_id: str, instance: ProducerIdAndEpoch, partition: TopicPartition
    ) -> None:
        shard = self._shard(transactional_id)
        transaction = check_added(shard.machine.get(transactional_id), instance, partition)
        if self.coordinator.lease_proven:
            await shard.settled(COMMIT_MS_MAX)
        else:
            await self._change(shard, transaction)

    def enlist(
        self, transactional_id: str, instance: ProducerIdAndEpoch, partition: TopicPartition, add: bool
    ) -> PendingEnlistment | None:
        """For a partition that gets a producer's batch: verifies that the partition is part of the transaction.  From
        version 2 of the protocol on, the batch itself adds the partition (`add`).  None: the batch can be appended now;
        otherwise await the result first."""
        elsewhere = self._coordinated_by(transactional_id)
        if elsewhere is not None:
            return RemoteEnlistment(self._peers, elsewhere, transactional_id, instance, partition, add)
        shard = self._shard(transactional_id)
        transaction = shard.machine.get(transactional_id)
        if add:
            added = frozenset((partition,))
            after = with_partitions(transaction, instance, added, SERVED, self._clock.now_ms())
            if after is not transaction:
                self._append(shard, after)
        else:
            check_added(transaction, instance, partition)
        return None if shard.is_settled else LocalEnlistment(shard)

    def _coordinated_by(self, transactional_id: str) -> NodeId | None:
        """The other broker that coordinates the id; None if this broker does, or if no broker does yet."""
        image = self._controller.image
        count = self.topic.count(image)
        if count is None:
            return None
        leader = self.coordinator.leader_of(transactional_id, count, image)
        return None if leader == self._node else leader

    # EndTxn

    async def end(
        self, transactional_id: str, instance: ProducerIdAndEpoch, commit: bool, version: int
    ) -> ProducerIdAndEpoch:
        """Commits or aborts; returns the producer's id and epoch for its next transaction."""
        fresh_id: int | None = None
        while True:
            shard = self._shard(transactional_id)
            transaction = shard.machine.get(transactional_id)
            if fresh_id is None and ends_with_producer_id(transaction, version):
                fresh_id = await self._producer_ids.next()
                continue
            after = ended(transaction, instance, commit, version, fresh_id, self._clock.now_ms())
            break
        if after is transaction:
            await shard.settled(COMMIT_MS_MAX)
            return ProducerIdAndEpoch(after.producer_id, after.epoch)
        await self._decide(shard, after)
        then = completed(after, after.updated_ms)
        return ProducerIdAndEpoch(then.producer_id, then.epoch)

    async def _abort(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Aborts the transaction and fences its producer."""
        fresh_id = await self._producer_ids.next() if transaction.exhausted else None
        if shard.closed or shard.machine.get(transaction.id) is not transaction:
            return
        await self._decide(shard, fenced(transaction, fresh_id, self._clock.now_ms()))

    async def _decide(self, shard: TransactionShard, decided: Transaction) -> None:
        """Writes the outcome; returns when it is committed.  The transaction is completed in any case, even if the
        caller stops waiting."""
        appended = shard.append([entry(decided)])
        shard.machine.appended(decided)
        assert appended is not None
        if decided.commits:
            self.committed += 1
        else:
            self.aborted += 1
        if shard.is_committed(appended):
            self._complete(shard, decided)
            return
        self._start(self._complete_when_certain(shard, decided))
        await shard.committed(appended, COMMIT_MS_MAX)

    # Markers, then the last record

    def _complete(self, shard: TransactionShard, decided: Transaction) -> None:
        """Writes markers and the final record: at once if all markers are committed at once, otherwise in a task."""
        if shard.closed or shard.machine.get(decided.id) is not decided:
            return
        left, waits = self._write_markers(shard, decided, decided.partitions)
        if not left and not waits and self._try_to_complete(shard, decided):
            return
        self._start(self._complete_later(shard, decided, left, waits))

    def _write_markers(
        self, shard: TransactionShard, decided: Transaction, partitions: frozenset[TopicPartition]
    ) -> tuple[frozenset[TopicPartition], list[tuple[TopicPartition, MarkerWait]]]:
        """(partitions whose marker could not be written now, markers that are not committed yet)."""
        ending = Ending(decided.producer_id, decided.epoch, shard.epoch, decided.commits, decided.version)
        left, waits = set(), []
        for name in sorted(partitions):
            try:
                wait = self._markers.append(name, ending)
            except (errors.UnknownTopicOrPartition, errors.UnknownTopicId):
                continue  # the topic was deleted: no marker is needed
            except errors.InvalidProducerEpoch as problem:
                log.error("%s refuses the transaction marker of %r: %s", name, decided.id, problem)
            except errors.TidelogError as problem:
                log.info("cannot write the transaction marker of %r to %s yet: %s", decided.id, name, problem)
                left.add(name)
            else:
                if wait is not None:
                    waits.append((name, wait))
        return frozenset(left), waits

    def _try_to_complete(self, shard: TransactionShard, decided: Transaction) -> bool:
        try:
            self._append(shard, completed(decided, self._clock.now_ms()))
        except errors.TidelogError as problem:
            log.info("cannot write yet that the transaction of %r is complete: %s", decided.id, problem)
            return False
        return True

    async def _complete_later(
        self,
        shard: TransactionShard,
        decided: Transaction,
        left: frozenset[TopicPartition],
        waits: list[tuple[TopicPartition, MarkerWait]],
    ) -> None:
        # A shard that is loaded again is a new object, so tasks of the old shard do not get in its way.
        mine = (shard, decided.id)
        if mine in self._completing:
            return
        self._completing.add(mine)
        pause_s = RETRY_S
        try:
            while True:
                for name, wait in waits:
                    if not await _succeeds(wait, name):
                        left |= {name}
                if shard.closed or shard.machine.get(decided.id) is not decided:
                    return
                if not left and self._try_to_complete(shard, decided):
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)
                if shard.closed:
                    return
                left, waits = self._write_markers(shard, decided, left)
        finally:
            self._completing.discard(mine)

    def _opened(self, shard: TransactionShard) -> None:
        for transaction in shard.machine:
            if transaction.state in DECIDED:
                self._start(self._complete_when_certain(shard, transaction))

    async def _complete_when_certain(self, shard: TransactionShard, decided: Transaction) -> None:
        while not shard.closed:
            try:
                await shard.settled(COMMIT_MS_MAX)
            except errors.TidelogError:
                await asyncio.sleep(RETRY_S)
            else:
                self._complete(shard, decided)
                return

    # Describing

    def describe(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise errors.InvalidRequest("a transactional id cannot be empty")
        transaction = self.coordinator.shard(transactional_id).machine.get(transactional_id)
        if transaction is None:
            raise errors.TransactionalIdNotFound(f"transactional id {transactional_id!r} does not exist")
        return transaction

    async def described(self, transactional_id: str) -> Transaction:
        """As `describe`; returns when the described state is committed."""
        transaction = self.describe(transactional_id)
        await self.coordinator.shard(transactional_id).settled(COMMIT_MS_MAX)
        return transaction

    def all(self) -> Iterator[Transaction]:
        """The transactions that this broker coordinates; raises CoordinatorLoadInProgress while a shard loads."""
        if self.coordinator.loading:
            raise errors.CoordinatorLoadInProgress("transactions are being loaded: try again")
        for shard in self.coordinator.shards():
            yield from shard.machine

    # Timeouts and expiry

    async def abort_timed_out(self) -> None:
        """Aborts all transactions that have timed out."""
        now_ms = self._clock.now_ms()
        for shard in self.coordinator.shards():
            for transaction in shard.machine:
                if transaction.timed_out(now_ms):
                    log.info(
                        "aborting the transaction of %r, which took longer than %d ms",
                        transaction.id,
                        transaction.timeout_ms,
                    )
                    try:
                        await self._abort(shard, transaction)
                        self.timed_out += 1
                    except errors.TidelogError as problem:
                        # Other transactions may be in shards that can be written.
                        log.warning("cannot abort the transaction of %r now: %s", transaction.id, problem)

    async def forget_expired(self) -> None:
        now_ms, expiration_ms = self._clock.now_ms(), self.config.transactional_id_expiration_ms
        for shard in self.coordinator.shards():
            gone = [
                transaction.id for transaction in shard.machine if transaction.expired(now_ms, expiration_ms)
            ]
            try:
                for at in range(0, len(gone), EXPIRED_AT_ONCE):
                    shard.append([tombstone(name) for name in gone[at : at + EXPIRED_AT_ONCE]])
                    await asyncio.sleep(0)
            except errors.TidelogError as problem:
                log.warning("%s: cannot delete expired transactional ids now: %s", shard, problem)

    # Life

    def start(self) -> None:
        self.coordinator.start(self._controller.image)
        aborting = lambda: self.config.transaction_abort_timed_out_transaction_cleanup_interval_ms  # noqa: E731
        forgetting = lambda: self.config.transaction_remove_expired_transaction_cleanup_interval_ms  # noqa: E731
        self._start(_again_and_again(self.abort_timed_out, aborting))
        self._start(_again_and_again(self.forget_expired, forgetting))

    def apply(self, update: Update) -> None:
        self.coordinator.apply(update)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.coordinator.stop()

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("completing a transaction failed", exc_info=task.exception())

    def _shard(self, transactional_id: str) -> TransactionShard:
        if not transactional_id:
            raise errors.InvalidRequest("a transactional id cannot be empty")
        return self.coordinator.shard(transactional_id)

    def _append(self, shard: TransactionShard, after: Transaction) -> object:
        appended = shard.append([entry(after)])
        shard.machine.appended(after)
        return appended

    async def _change(self, shard: TransactionShard, after: Transaction) -> None:
        appended = shard.append([entry(after)])
        shard.machine.appended(after)
        await shard.committed(appended, COMMIT_MS_MAX)

    def _shape(self) -> TopicShape:
        config = self.config
        return TopicShape(
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )


def _same_instance(transaction: Transaction, expected: ProducerIdAndEpoch) -> bool:
    return expected.producer_id == transaction.producer_id and expected.epoch == transaction.epoch


async def _succeeds(wait: MarkerWait, name: TopicPartition) -> bool:
    try:
        await wait(MARKER_MS_MAX)
    except errors.InvalidProducerEpoch as problem:
        log.error("%s refuses a transaction marker: %s", name, problem)
    except errors.TidelogError as problem:
        log.info("the transaction marker of %s is not committed yet: %s", name, problem)
        return False
    return True


async def _again_and_again(work: Callable[[], Awaitable[None]], interval_ms: Callable[[], int]) -> None:
    while True:
        await asyncio.sleep(interval_ms() / 1000)
        try:
            await work()
        except errors.TidelogError as problem:
            log.warning("cannot look for timed-out or expired transactions now: %s", problem)
