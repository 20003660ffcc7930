"""A share partition that this broker leads: its in-flight records, and the writes that persist changes of them.

One write is under way at a time; the next one takes all changes that have gathered meanwhile.  So changes are persisted
in order.  An acknowledgement is answered when its write is committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tidelog import errors
from tidelog.clock import Clock
from tidelog.config.group import UNLIMITED, GroupConfig
from tidelog.coordination.timers import Timers
from tidelog.groups.share.group_state import ShareKey, StateWrite, TransactionMember
from tidelog.groups.share.in_flight import JoinedAcknowledgement
from tidelog.groups.share.joined_acknowledgements import KnownOutcomes
from tidelog.groups.share.outcome_watch import OutcomeWatch
from tidelog.groups.share.partition import (
    AcknowledgedRange,
    AcquireRequest,
    AcquireResult,
    OffsetSpan,
    SharePartition,
    ShareStateChange,
    ShareTerms,
)
from tidelog.groups.share.persister import SharePersister
from tidelog.replication.delayed_fetch import FetchWait
from tidelog.replication.partition import HostedPartition

log = logging.getLogger("tidelog.shares")


BY_KEY = "key"
DELIVERIES_UNLIMITED = 1 << 30


class LedSharePartition:
    def __init__(
        self,
        key: ShareKey,
        partition: HostedPartition,
        state: SharePartition,
        state_epoch: int,
        persister: SharePersister,
        timers: Timers,
        clock: Clock,
        config: Callable[[], GroupConfig],
    ) -> None:
        self.key = key
        self.partition = partition
        self.state = state
        self.leader_epoch = int(partition.state.epoch)
        self.config = config
        self.waits: dict[FetchWait, None] = {}
        """Fetches that wait for released records, or for room among the in-flight records."""
        self.copying: asyncio.Task[None] | None = None  # copies dead letters
        self.closed = False
        self.state_epoch = state_epoch
        self.persister = persister
        self.timers = timers
        self._clock = clock
        self._queue: list[tuple[ShareStateChange, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._failed_before = False  # changes that are in effect already may not be persisted
        self.letters: Callable[[LedSharePartition], None] = lambda _: None
        """Called when there are dead letters to copy."""
        self.routed: Callable[[], bool] = lambda: False
        """Whether a door takes the dead letters, wherever the group's settings would have them."""
        self._readers: dict[str, None] = {}  # in the order in which they came
        self.kept = False  # stays loaded when nobody reads it
        self.outcomes = OutcomeWatch(self)

    @property
    def current(self) -> bool:
        """True while this broker leads the partition in the leader epoch in which the state was loaded."""
        state = self.partition.state
        return not self.closed and self.partition.leader == state.node and state.epoch == self.leader_epoch

    def terms(self) -> ShareTerms:
        config = self.config()
        return ShareTerms(
            deliveries_max=deliveries_max(config),
            locks_max=config.share_partition_max_record_locks,
            lock_ms=config.share_record_lock_duration_ms,
            dead_letters=bool(config.share_dead_letter_topic) or self.routed(),
            renewals=config.share_renew_acknowledge_enable,
            backoff_ms=config.share_retry_backoff_ms,
            backoff_ms_max=config.share_retry_backoff_max_ms,
            delays=self.partition.log.config.queue_groups[:1] == (self.key.group,),
            by_key=config.share_order == BY_KEY,
        )

    # Changes

    def acquire(self, wish: AcquireRequest, spans: Sequence[OffsetSpan], terms: ShareTerms) -> AcquireResult:
        grant = self.state.acquire(wish, spans, terms, self._clock.monotonic_ms())
        if grant.skipped.batches:
            self.apply(grant.skipped)
        if grant.acquired:
            self._arm()
        return grant

    def acknowledge(
        self,
        member: str,
        batches: Sequence[AcknowledgedRange],
        transaction: TransactionMember | None = None,
    ) -> asyncio.Future[None] | None:
        """Completes when the change is persisted; None if there is nothing to persist.  Raises the protocol's error."""
        joined = None if transaction is None else JoinedAcknowledgement(transaction.producer_id)
        now_ms = self._clock.monotonic_ms()
        change = self.state.acknowledge(member, batches, self.terms(), now_ms, joined)
        self._arm()
        persisted = self.submit(change) if change.batches else None
        if joined is None or transaction is None or not change.joins:
            return persisted
        return self.outcomes.join(change.joins, joined, transaction)

    def decide(self, outcomes: KnownOutcomes) -> None:
        """Transactions that acknowledgements joined are committed or aborted."""
        change = self.state.decided(outcomes, self.terms(), self._clock.monotonic_ms())
        if change is not None:
            self.apply(change)  # also without batches: the start has moved

    def write_failed(self, problem: errors.TidelogError) -> errors.TidelogError:
        """The error for the consumer."""
        error = persister_error(problem)
        if isinstance(error, errors.NotLeaderOrFollower):
            self.closed = True  # another broker leads it now, or it was reset: load it again
        return error

    def serves(self, member: str) -> bool:
        """With a single active consumer: whether it is this member, who came first of those that are still there."""
        self._readers.setdefault(member)
        return not self.config().share_single_active_consumer or next(iter(self._readers)) == member

    def release(self, member: str) -> asyncio.Future[None] | None:
        """The member is gone."""
        self._readers.pop(member, None)
        change = self.state.released(member, self.terms())
        if not change.batches:
            self._changed()
            return None
        return self.apply(change)

    def expire(self) -> None:
        now_ms = self._clock.monotonic_ms()
        change = self.state.expired(now_ms, self.terms())
        if self.state.woken(now_ms):
            self._changed()
        if change.batches:
            self.apply(change)
        self._arm()

    def apply(self, change: ShareStateChange) -> asyncio.Future[None]:
        """Persists a change that is in effect already; if the write fails, a restart finds the records' earlier states."""
        done = self.submit(change)
        done.add_done_callback(self._told)
        self._arm()
        self._changed()
        return done

    def _told(self, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and done.exception() is not None:
            log.warning("%s: cannot persist a change of record states: %s", self.key, done.exception())

    def _arm(self) -> None:
        deadline_ms = None if self.closed else self.state.next_deadline_ms()
        if deadline_ms is None:
            self.timers.cancel(self.key)
        else:
            self.timers.set(self.key, deadline_ms - self._clock.monotonic_ms(), self.expire)

    def _changed(self) -> None:
        """Waiting fetches look again."""
        for wait in tuple(self.waits):
            wait.changed()
        if self.state.letters():
            self.letters(self)

    # Writing

    def submit(self, change: ShareStateChange) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._queue.append((change, done))
        if self._writing is None:
            self._writing = loop.create_task(self._write())
        return done

    async def _write(self) -> None:
        try:
            while self._queue:
                under_way, self._queue = self._queue, []
                try:
                    await self._persist([change for change, _ in under_way])
                except errors.TidelogError as problem:
                    self._failed(under_way, problem)
                else:
                    for change, done in under_way:
                        self.state.confirmed(change)
                        if not done.done():
                            done.set_result(None)
                self._arm()
                self._changed()
        finally:
            self._writing = None

    async def _persist(self, changes: list[ShareStateChange]) -> None:
        if self.closed:
            raise errors.NotLeaderOrFollower(f"this broker no longer leads share partition {self.key}")
        start, finished = self.state.outlook()
        batches = [batch for change in changes for batch in change.batches]
        if self._failed_before:
            batches = self.state.picture()
        await self.persister.write(
            self.key, StateWrite(self.state_epoch, self.leader_epoch, start, finished, batches)
        )
        self._failed_before = False

    def _failed(
        self, under_way: list[tuple[ShareStateChange, asyncio.Future[None]]], problem: errors.TidelogError
    ) -> None:
        self._failed_before = True
        error = self.write_failed(problem)
        for change, done in under_way:
            self.state.undone(change)
            if not done.done():
                done.set_exception(error)
                done.exception()  # marks the exception as retrieved: the waiting request may be gone

    async def settled(self) -> None:
        """Returns when all submitted changes are persisted or have failed."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    def close(self) -> None:
        self.closed = True
        self.timers.cancel(self.key)
        if self.copying is not None:
            self.copying.cancel()
        self.outcomes.close()
        for wait in tuple(self.waits):
            wait.changed()


def deliveries_max(config: GroupConfig) -> int:
    limit = config.share_delivery_count_limit
    return DELIVERIES_UNLIMITED if limit == UNLIMITED else limit


def persister_error(problem: errors.TidelogError) -> errors.TidelogError:
    """The error for a consumer when the state cannot be read or written, chosen so that the client reacts correctly."""
    if isinstance(problem, errors.FencedLeaderEpoch | errors.FencedStateEpoch | errors.NotLeaderOrFollower):
        return errors.NotLeaderOrFollower(str(problem))
    if isinstance(problem, errors.NotCoordinator | errors.CoordinatorLoadInProgress):
        return errors.CoordinatorNotAvailable(str(problem))
    if isinstance(problem, errors.InvalidRequest):
        return errors.UnknownServerError(str(problem))
    return problem
