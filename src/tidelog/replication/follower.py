"""Keeps the partitions that one broker leads, and this node follows, in step with it: one connection, one fetch at a
time, all partitions in it.

What arrives is appended as it is, with the leader's offsets and epochs.  An answer for a partition whose leadership
changed meanwhile is dropped.  `followers` makes one of these for each leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog import errors
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.net.requester import Requester
from tidelog.replication.following import Key, Session, Wanted, cut_at
from tidelog.replication.partition import Partition
from tidelog.replication.throttle import Throttle
from tidelog.types import Epoch, NodeId, Offset
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.fetch import FetchResponse, PartitionData

log = logging.getLogger("tidelog.follower")

# The leader has learned of a change that this node has not, or the other way round: both will know in a moment.
_SOON = (
    errors.FencedLeaderEpoch.code,
    errors.UnknownLeaderEpoch.code,
    errors.NotLeaderOrFollower.code,
    errors.UnknownTopicOrPartition.code,
    errors.UnknownTopicId.code,
    errors.InconsistentTopicId.code,
)
_SESSION_LOST = (
    errors.FetchSessionIdNotFound.code,
    errors.InvalidFetchSessionEpoch.code,
    errors.FetchSessionTopicIdError.code,
)
SOON_MS = 50
NEVER_MS = 1 << 31
GRACE_MS = 1_000  # on top of how long a fetch may wait at the leader, for its answer to arrive


class Peers(Protocol):
    async def connect(self, node: NodeId) -> Requester: ...


class Following(NamedTuple):
    partition: Partition
    epoch: Epoch


class Follower:
    def __init__(
        self,
        leader: NodeId,
        node: NodeId,
        peers: Peers,
        clock: Clock,
        config: Callable[[], BrokerConfig],
        broker_epoch: Callable[[], int],
        truncated: Callable[[Partition], None],
        throttle: Throttle,
    ) -> None:
        self._leader = leader
        self._peers = peers
        self._clock = clock
        self._config = config
        self._broker_epoch = broker_epoch
        self._truncated = truncated
        self._throttle = throttle
        self._session = Session(node)
        self._followed: dict[Key, Following] = {}
        self._delayed: dict[Key, int] = {}
        self._some = asyncio.Event()
        self._waits_at: Requester | None = None  # where the fetch under way can be hurried

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, partition: Partition, epoch: Epoch) -> None:
        key = UUID(bytes=partition.topic_id), partition.index
        self._followed[key] = Following(partition, epoch)
        self._delayed.pop(key, None)
        self._some.set()
        self._hurry()

    def drop(self, partition: Partition) -> None:
        key = UUID(bytes=partition.topic_id), partition.index
        self._followed.pop(key, None)
        self._delayed.pop(key, None)

    def follows(self, partition: Partition, epoch: Epoch) -> bool:
        key = UUID(bytes=partition.topic_id), partition.index
        return self._followed.get(key) == (partition, epoch)

    def _hurry(self) -> None:
        """A fetch that waits at the leader comes back at the next request: the new partition is not to wait for it."""
        connection, self._waits_at = self._waits_at, None
        if connection is not None:
            connection.submit(ApiVersionsRequest(), ApiVersionsResponse, version=0)

    async def run(self) -> None:
        """For ever; cancelled by its owner."""
        told = 0
        while True:
            try:
                connection = await self._peers.connect(self._leader)
            except errors.TidelogError as problem:
                # A broker that is away is everyday business; the log gets it once in a while.
                if self._clock.monotonic_ms() >= told:
                    log.warning("cannot fetch from broker %d: %s", self._leader, problem)
                    told = self._clock.monotonic_ms() + 30_000
                await asyncio.sleep(self._config().replica_fetch_backoff_ms / 1000)
                continue
            told = 0
            self._session.lost()
            try:
                while True:
                    await self._fetch(connection)
            except errors.TidelogError as problem:
                log.info("the connection to broker %d ended: %s", self._leader, problem)
                await asyncio.sleep(self._config().replica_fetch_backoff_ms / 1000)
            finally:
                connection.close()

    async def _fetch(self, connection: Requester) -> None:
        config = self._config()
        wanted = self._wanted()
        if not wanted:
            self._some.clear()
            await self._wait_for_work(SOON_MS)
            return
        asked = {key: self._followed[key] for key in wanted}
        # Those that had to be put off are not to wait for the others.
        wait_ms = min(config.replica_fetch_wait_max_ms, self._next_due_ms())
        if len(wanted) < len(self._followed):
            wait_ms = min(wait_ms, max(self._throttle.wait_ms(self._clock.monotonic_ms()), SOON_MS))
        request = self._session.request(
            wanted,
            self._broker_epoch(),
            wait_ms,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
        )
        timeout_ms = max(config.replica_socket_timeout_ms, wait_ms + GRACE_MS)
        self._waits_at = connection
        try:
            answer = await connection.ask(request, FetchResponse, timeout_ms=timeout_ms)
        finally:
            self._waits_at = None
        if answer.error_code in _SESSION_LOST:
            self._session.lost()
            return
        if answer.error_code != errors.NONE:
            raise errors.by_code(answer.error_code)(f"broker {self._leader} refused a fetch")
        self._session.answered(answer.session_id)
        for pending in self._take(answer, asked):
            # A leader that hears of an offset takes it for held; what a topic wants synced is held when it is.
            await asyncio.wait([pending])

    async def _wait_for_work(self, wait_ms: int) -> None:
        try:
            async with asyncio.timeout(wait_ms / 1000 if self._followed else None):
                await self._some.wait()
        except TimeoutError:
            pass

    def _next_due_ms(self) -> int:
        due = min(self._delayed.values(), default=None)
        return NEVER_MS if due is None else max(due - self._clock.monotonic_ms(), 1)

    def _wanted(self) -> dict[Key, Wanted]:
        now = self._clock.monotonic_ms()
        if self._delayed:
            self._delayed = {key: until for key, until in self._delayed.items() if until > now}
        left = self._throttle.left(now)
        wanted = {}
        for key, (partition, epoch) in self._followed.items():
            throttled = partition.throttled_in and not partition.in_sync_here
            if key in self._delayed or (throttled and left <= 0):
                continue
            it = partition.log
            one = Wanted(epoch, it.end, it.epochs.latest, it.start)
            wanted[key] = one._replace(bytes_max=left) if throttled else one
        return wanted

    def _take(self, answer: FetchResponse, asked: dict[Key, Following]) -> list[asyncio.Future[None]]:
        """The syncs that have to be waited for."""
        pending = []
        for topic in answer.responses:
            for part in topic.partitions:
                key = topic.topic_id, part.partition_index
                following = self._followed.get(key)
                if following is None or following is not asked.get(key):
                    self._session.forget(key)
                    continue
                try:
                    self._take_partition(following.partition, part)
                except errors.TidelogError as problem:
                    self._delay(key, following.partition, problem)
                durable = following.partition.log.durable
                if durable is not None:
                    pending.append(durable)
        return pending

    def _delay(self, key: Key, partition: Partition, problem: errors.TidelogError) -> None:
        delay_ms = SOON_MS
        if problem.code not in _SOON:
            log.error("%s does not follow broker %d: %s", partition.name, self._leader, problem)
            delay_ms = self._config().replica_fetch_backoff_ms
        self._session.forget(key)
        self._delayed[key] = self._clock.monotonic_ms() + delay_ms

    def _take_partition(self, partition: Partition, part: PartitionData) -> None:
        it = partition.log
        if it.next != it.end:
            return  # appends of its own time as leader are on their way to the disk: let them land first
        if part.error_code == errors.OffsetOutOfRange.code and part.log_start_offset > it.next:
            log.info(
                "%s begins anew at offset %d, where its leader's log starts",
                partition.name,
                part.log_start_offset,
            )
            partition.restart_at(Offset(part.log_start_offset))
            self._truncated(partition)
            return
        if part.error_code != errors.NONE:
            raise errors.by_code(part.error_code)(f"the leader says so of {partition.name}")
        diverging = part.diverging_epoch
        if diverging.end_offset >= 0:
            end = cut_at(it.epochs, it.end, diverging.epoch, diverging.end_offset)
            log.info("%s is cut from %d to %d, where it parts from its leader", partition.name, it.end, end)
            partition.truncate_to(Offset(end))
            self._truncated(partition)
            return
        if part.records:
            partition.replicate(memoryview(part.records))
            if partition.throttled_in:
                self._throttle.took(len(part.records), self._clock.monotonic_ms())
        partition.leader_committed(Offset(part.high_watermark), Offset(part.log_start_offset))
