"""The replica fetcher: a follower copies partitions from one leader, with one connection and one Fetch at a time that names
all of them.

What arrives is appended as it is, with the leader's offsets and epochs.  An answer for a partition whose leadership
changed meanwhile, or that went over to the other fetcher, is dropped.  `leader_fetchers` has two of these."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tidelog import errors
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.net.requester import Requester
from tidelog.replication.follower_fetch import CHECK_IT, FollowerFetchSession, Key, Wanted, cut_at
from tidelog.replication.partition import HostedPartition
from tidelog.replication.remote_start import start_from_remote
from tidelog.replication.throttle import NO_LIMIT, Throttle
from tidelog.storage.log import is_offline, is_unfit
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


class LeaderConnections(Protocol):
    async def connect(self, node: NodeId) -> Requester: ...


class Following(NamedTuple):
    partition: HostedPartition
    epoch: Epoch


class ReplicaFetcher:
    """`bytes_max`: of an answer, where the broker's settings allow more.  `unwritten_max`: bytes that may wait to be put
    on disk."""

    beside: ReplicaFetcher
    """The other fetcher.  A partition that came from there waits until no request of that fetcher names it: a leader that
    hears of one replica on two connections could hear the older news last."""

    def __init__(
        self,
        leader: NodeId,
        node: NodeId,
        peers: LeaderConnections,
        clock: Clock,
        config: Callable[[], BrokerConfig],
        broker_epoch: Callable[[], int],
        truncated: Callable[[HostedPartition], None],
        throttle: Throttle,
        bytes_max: int,
        unwritten_max: int,
    ) -> None:
        self._leader = leader
        self._peers = peers
        self._clock = clock
        self._config = config
        self._broker_epoch = broker_epoch
        self._truncated = truncated
        self._throttle = throttle
        self._bytes_max = bytes_max
        self._unwritten_max = unwritten_max
        self._unwritten = 0
        self._starts: dict[
            Key, asyncio.Task[None]
        ] = {}  # from remote storage, of those that are not asked for meanwhile
        self._grown: set[Key] = set()
        self._session = FollowerFetchSession(node)
        self.followed: dict[Key, Following] = {}
        # What the fetch under way names, until its answer is dealt with.
        self.asked: dict[Key, Following] = {}
        self._delayed: dict[Key, int] = {}
        self._unreadable: set[Key] = set()  # the leader sent bytes that fail their checksum
        self._some = asyncio.Event()
        self._waits_at: Requester | None = None  # where the fetch under way can be hurried

    def follow(self, key: Key, following: Following) -> None:
        self.followed[key] = following
        self._delayed.pop(key, None)
        self.wake()

    def drop(self, key: Key) -> None:
        """The fetch under way may still name it."""
        self.followed.pop(key, None)
        self._delayed.pop(key, None)
        self._unreadable.discard(key)

    def wake(self) -> None:
        """Something is new.  A fetch that waits at the leader comes back at the next request: nobody is to wait for it."""
        self._some.set()
        connection, self._waits_at = self._waits_at, None
        if connection is not None:
            hurried = connection.submit(ApiVersionsRequest(), ApiVersionsResponse, version=0)
            # Whether it was answered is of no interest; a connection that broke tells the fetch.
            hurried.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def run(self) -> None:
        """For ever; cancelled by its owner."""
        next_warning_ms = 0
        while True:
            while not self._wanted():
                await self._wait_for_work()
            try:
                connection = await self._peers.connect(self._leader)
            except errors.TidelogError as problem:
                # A broker that is away is everyday business; the log gets it once in a while.
                if self._clock.monotonic_ms() >= next_warning_ms:
                    log.warning("cannot fetch from broker %d: %s", self._leader, problem)
                    next_warning_ms = self._clock.monotonic_ms() + 30_000
                await asyncio.sleep(self._config().replica_fetch_backoff_ms / 1000)
                continue
            next_warning_ms = 0
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
        wanted = self._wanted()
        if not wanted:
            await self._wait_for_work()
            return
        self.asked = {key: self.followed[key] for key in wanted}
        self._unreadable -= wanted.keys()  # the leader is told once each time
        try:
            answer = await self._ask(connection, wanted)
            if answer is not None:
                for pending in self._take(answer):
                    # A leader that hears of an offset takes it for held; what a topic wants synced is held when it is.
                    await asyncio.wait([pending])
        finally:
            gone_over = not self.asked.keys().isdisjoint(self.beside.followed.keys())
            self.asked = {}
            if gone_over:
                self.beside.wake()
        # Those that have caught up need not wait for it: producers may wait for them by now.
        if self._unwritten >= self._unwritten_max:
            await self._write_out()

    async def _write_out(self) -> None:
        """What was copied reaches the disk before more is asked for.  A system that has far more to write than its disks
        take makes whoever writes most wait, for a tenth of a second at a time: that would be all of this broker."""
        grown, self._grown, self._unwritten = self._grown, set(), 0
        flushes = []
        for key in grown:
            following = self.followed.get(key) or self.beside.followed.get(key)
            if following is not None and not is_offline(following.partition.log):
                flush = following.partition.log.flush()
                # A disk that fails is noticed by who uses it next.
                flush.add_done_callback(lambda done: done.cancelled() or done.exception())
                flushes.append(flush)
        if flushes:
            await asyncio.wait(flushes)  # others may wait for them as well: not cancelled with this task

    async def _ask(self, connection: Requester, wanted: dict[Key, Wanted]) -> FetchResponse | None:
        """None when the leader wants a new session."""
        config = self._config()
        # Those that had to be put off are not to wait for the others.
        wait_ms = min(config.replica_fetch_wait_max_ms, self._next_due_ms())
        request = self._session.request(
            wanted,
            self._broker_epoch(),
            wait_ms,
            config.replica_fetch_min_bytes,
            min(config.replica_fetch_response_max_bytes, self._bytes_max),
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
            return None
        if answer.error_code != errors.NONE:
            raise errors.by_code(answer.error_code)(f"broker {self._leader} refused a fetch")
        self._session.answered(answer.session_id)
        return answer

    async def _wait_for_work(self) -> None:
        self._some.clear()
        try:
            async with asyncio.timeout(self._next_due_ms() / 1000 if self.followed else None):
                await self._some.wait()
        except TimeoutError:
            pass

    def _next_due_ms(self) -> int:
        """Until one that is left out now may be asked for again."""
        now = self._clock.monotonic_ms()
        due = max(min(self._delayed.values()) - now, 1) if self._delayed else NEVER_MS
        if len(self._delayed) + len(self.asked) < len(self.followed):
            due = min(due, max(self._throttle.wait_ms(now), SOON_MS))
        return due

    def _wanted(self) -> dict[Key, Wanted]:
        now = self._clock.monotonic_ms()
        if self._delayed:
            self._delayed = {key: until for key, until in self._delayed.items() if until > now}
        left = self._throttle.left(now)
        wanted, offline = {}, []
        for key, (partition, epoch) in self.followed.items():
            throttled = partition.throttled_in and not partition.in_sync_here
            if (
                key in self._delayed
                or key in self._starts
                or key in self.beside.asked
                or (throttled and left <= 0)
            ):
                continue
            replica = partition.log
            if is_unfit(replica):
                # It must not seem level, and so in sync, to its leader.  `repair` lets a damaged one go on.
                if is_offline(replica):
                    offline.append(key)
                continue
            wish = Wanted(epoch, replica.end, replica.epochs.latest, replica.start)
            if key in self._unreadable:
                wish = wish._replace(bytes_max=CHECK_IT)
            wanted[key] = wish._replace(bytes_max=left) if throttled else wish
        for key in offline:
            self.drop(key)
        return wanted

    def _take(self, answer: FetchResponse) -> list[asyncio.Future[None]]:
        """The syncs that have to be waited for."""
        pending = []
        for topic in answer.responses:
            for part in topic.partitions:
                key = topic.topic_id, part.partition_index
                following = self.followed.get(key)
                if following is None or following is not self.asked.get(key):
                    self._session.forget(key)
                    continue
                try:
                    self._take_partition(key, following.partition, part)
                except errors.TidelogError as problem:
                    self._delay(key, following.partition, problem)
                durable = following.partition.log.appender.durable
                if durable is not None:
                    pending.append(durable)
        return pending

    def _delay(self, key: Key, partition: HostedPartition, problem: errors.TidelogError) -> None:
        delay_ms = SOON_MS
        if problem.code not in _SOON:
            log.error("%s does not follow broker %d: %s", partition.name, self._leader, problem)
            delay_ms = self._config().replica_fetch_backoff_ms
        self._session.forget(key)
        self._delayed[key] = self._clock.monotonic_ms() + delay_ms

    def _take_partition(self, key: Key, partition: HostedPartition, part: PartitionData) -> None:
        replica = partition.log
        if replica.next != replica.end:
            return  # appends of its own time as leader are on their way to the disk: let them land first
        if part.error_code == errors.OffsetOutOfRange.code and part.log_start_offset > replica.next:
            log.info(
                "%s restarts at offset %d, the start of its leader's log",
                partition.name,
                part.log_start_offset,
            )
            partition.restart_at(Offset(part.log_start_offset))
            self._truncated(partition)
            return
        if part.error_code == errors.OffsetMovedToTieredStorage.code:
            self._begin_from_remote(key, partition, part)
            return
        if part.error_code != errors.NONE:
            raise errors.by_code(part.error_code)(f"the leader says so of {partition.name}")
        diverging = part.diverging_epoch
        if diverging.end_offset >= 0:
            end = cut_at(replica.epochs, replica.end, diverging.epoch, diverging.end_offset)
            log.info(
                "%s is cut from %d to %d, where it parts from its leader", partition.name, replica.end, end
            )
            partition.truncate_to(Offset(end))
            self._truncated(partition)
            return
        if part.records:
            try:
                partition.replicate(memoryview(part.records))
            except (errors.CorruptMessage, errors.InvalidRecord):
                self._unreadable.add(key)
                raise
            if self._unwritten_max < NO_LIMIT:
                self._unwritten += len(part.records)
                self._grown.add(key)
            if partition.throttled_in:
                self._throttle.took(len(part.records), self._clock.monotonic_ms())
        partition.leader_committed(Offset(part.high_watermark), Offset(part.log_start_offset))

    def _begin_from_remote(self, key: Key, partition: HostedPartition, part: PartitionData) -> None:
        if key not in self._starts:
            start = asyncio.get_running_loop().create_task(self._start_from_remote(key, partition, part))
            self._starts[key] = start
            start.add_done_callback(lambda _: self._started(key))

    async def _start_from_remote(self, key: Key, partition: HostedPartition, part: PartitionData) -> None:
        from_last = self._config().follower_fetch_last_tiered_offset_enable
        try:
            if await start_from_remote(partition, part.log_start_offset, part.last_stable_offset, from_last):
                self._truncated(partition)
                await partition.log.flush()
        except errors.TidelogError as problem:
            self._delay(key, partition, problem)

    def _started(self, key: Key) -> None:
        del self._starts[key]
        self._session.forget(key)
        self.wake()
