"""The fetcher: keeps the assigned partitions' buffers filled, with one Fetch under way per broker, and looks up
missing positions.

Like the sender it has no task of its own: `_pump` runs when something changed, decides from the partitions
(`AssignedPartition`, pure) and submits.  Buffers are bounded: a partition is not fetched while more than half of what
a fetch may bring is buffered.  `Consumer` owns the only instance.

A blocking consumer takes buffered records in its own thread (`take_here`): `_lock` guards the buffers against
answers that arrive meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable
from typing import Any

from tidelog import errors
from tidelog._speed.client.consumed import Record
from tidelog.client.cluster.backoff import delay_ms
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.list_offsets import EARLIEST
from tidelog.client.cluster.response_errors import problem_of
from tidelog.client.cluster.topology import NO_ID
from tidelog.client.consumer.fetch.assigned_partition import AssignedPartition
from tidelog.client.consumer.fetch.completed_fetch import CompletedFetch
from tidelog.client.consumer.fetch.request import FetchCall, build_fetch, read_fetch
from tidelog.client.consumer.fetch.session import FetchSessionHandler
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.positions import CommittedOffsets, FetchPositions
from tidelog.client.telemetry.recent_times import RecentTimes
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import FetchResponse, PartitionData

log = logging.getLogger("tidelog.client")

LOST_SESSION = (errors.FetchSessionIdNotFound.code, errors.InvalidFetchSessionEpoch.code)
NO_REPLICA = -1
# What a fetch costs beside its bytes is most of the work when it brings little.  Few partitions may bring much
# each, many share the memory.
PARTITION_BYTES_MIN, PARTITION_BYTES_MAX = 1 << 20, 4 << 20
SHARED_BYTES = 32 << 20


class Fetcher:
    def __init__(
        self, cluster: Cluster, options: ConsumerOptions, committed: CommittedOffsets | None = None
    ) -> None:
        """`committed`: where partitions begin that are assigned without a position."""
        self.fetches = 0
        self.latencies = RecentTimes()
        self.throttled = 0
        self.throttle_ms = 0
        self.bytes = 0
        self._cluster = cluster
        self._options = options
        self._channel = cluster.channel()
        self._positions = FetchPositions(cluster, options, committed, self._positions_changed)
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._loop = asyncio.get_running_loop()
        self._assigned: dict[TopicPartition, AssignedPartition] = {}
        self._lock = threading.Lock()
        self._handed_out: list[AssignedPartition] = []
        self._turn = 0
        self._fetching: set[int] = set()
        self._dialling: set[int] = set()
        self._arrived = asyncio.Event()
        self._pump_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # Called by the consumer

    @property
    def assigned(self) -> dict[TopicPartition, AssignedPartition]:
        return self._assigned

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that were assigned before keep their position; new partitions begin at the committed offset, or
        where `auto_offset_reset` says."""
        before = dict(self._assigned)
        # The same dictionary all along: the task that looks up positions reads it later.
        self._assigned.clear()
        for partition in partitions:
            state = before.get(partition)
            if state is None:
                state = AssignedPartition(partition)
                self._positions.begin(state)
            self._assigned[partition] = state
        self.wake()

    def wake(self, *_: Any) -> None:
        if not self._pump_due and not self._closed:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    def notify(self) -> None:
        """Wakes the poll that waits, for something else than records."""
        self._arrived.set()

    def settle(self) -> None:
        """The application has polled again: the records that it was given before are settled."""
        for state in self._handed_out:
            state.settle()
        self._handed_out.clear()

    def take(self, records_max: int) -> list[Record]:
        """Takes buffered records; when there are none, raises the error that has stopped a partition, if any."""
        out = self._take(records_max)
        if not out:
            self.raise_problem()
        self.wake()
        return out

    def take_here(self, records_max: int) -> list[Record]:
        """Called in another thread than the loop's: settles the records of the last take, and takes buffered
        records."""
        if not any(state.has_records for state in self._assigned.values()):
            return []
        self.settle()
        out = self._take(records_max)
        low = self._low_bytes
        if (
            any(state.buffered_bytes < low for state in self._handed_out)
            and not self._pump_due
            and not self._closed
        ):
            self._pump_due = True
            self._loop.call_soon_threadsafe(self._pump)
        return out

    def _take(self, records_max: int) -> list[Record]:
        out: list[Record] = []
        with self._lock:
            for state in self._in_turn():
                if len(out) >= records_max:
                    break
                try:
                    self._handed_out.append(state)
                    out += state.take(records_max - len(out))
                except errors.TidelogError as problem:
                    state.problem = problem
        return out

    @property
    def _partition_bytes(self) -> int:
        """The bytes that a fetch may bring of one partition."""
        wanted = self._options.max_partition_fetch_bytes
        if wanted is not None:
            return wanted
        share = SHARED_BYTES // max(1, len(self._assigned))
        return max(PARTITION_BYTES_MIN, min(PARTITION_BYTES_MAX, share))

    @property
    def _low_bytes(self) -> int:
        """A partition with fewer buffered bytes is fetched."""
        return max(1, self._partition_bytes // 2)

    def take_fetched(self) -> list[tuple[AssignedPartition, int, CompletedFetch]]:
        """All whole answers that are buffered, with the position to read each from."""
        out = []
        with self._lock:
            for state in self._in_turn():
                start = state.position or 0
                self._handed_out.append(state)
                while (fetched := state.take_fetched()) is not None:
                    out.append((state, start, fetched))
        if out:
            self._pump()  # The next fetch is under way while columns are made of this one.
        else:
            self.raise_problem()
        return out

    def put_back(self, records: list[Record]) -> None:
        """Takes back records that were taken and are not handed out after all."""
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for partition, offset in first.items():
            if partition in self._assigned:
                self._assigned[partition].seek_back(offset)
        self.wake()

    def _in_turn(self) -> list[AssignedPartition]:
        """The partitions with records, beginning with another one each time: a full partition does not starve the
        others."""
        ready = [state for state in self._assigned.values() if state.has_records]
        if len(ready) < 2:
            return ready
        self._turn += 1
        first = self._turn % len(ready)
        return ready[first:] + ready[:first]

    def raise_problem(self) -> None:
        for state in self._assigned.values():
            if state.problem is not None and not state.paused:
                problem, state.problem = state.problem, None
                state.failing_since_ms = None
                raise problem

    async def arrival(self, timeout_ms: float) -> None:
        """Waits until records were fetched, a fetch has failed, or the time is up."""
        if not self._arrived.is_set() and not any(
            state.has_records or state.problem is not None for state in self._assigned.values()
        ):
            self.wake()
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._arrived.wait()
            except TimeoutError:
                return
        self._arrived.clear()

    async def close(self) -> None:
        self._closed = True
        self._arrived.set()
        if self._timer is not None:
            self._timer.cancel()
        await self._positions.close()
        await self._channel.close()

    # The pump

    def _pump(self) -> None:
        self._pump_due = False
        if self._closed:
            return
        try:
            now_ms = self._cluster.environment.clock.monotonic_ms()
            self._positions.look(self._assigned)
            by_node: dict[int, list[AssignedPartition]] = {}
            low_bytes = self._low_bytes
            for state in self._assigned.values():
                if state.wants_fetch(now_ms, low_bytes):
                    node = self._node(state, now_ms)
                    if node is not None and not self._recreated(state):
                        by_node.setdefault(node, []).append(state)
            for node, partitions in by_node.items():
                self._fetch(node, partitions)
            self._set_timer(now_ms)
        except Exception as bug:
            # Nobody awaits the pump: without this, a defect would leave `poll` waiting for ever.
            log.exception("the consumer's fetcher failed")
            for state in self._assigned.values():
                state.problem = errors.UnknownServerError(f"the consumer failed: {bug!r}")
            self._arrived.set()

    def _node(self, state: AssignedPartition, now_ms: float) -> int | None:
        """The broker to fetch from: the leader, or the nearby replica that the leader has named."""
        if state.replica is not None and (
            now_ms >= state.replica_until_ms or state.replica not in self._cluster.topology.nodes
        ):
            state.replica = None
        node = state.replica if state.replica is not None else self._cluster.topology.leader(state.partition)
        if node is None:
            self._failed(state, self._cluster.missing(state.partition))
            return None
        if node in self._dialling and state.failures:
            # It may not be the leader any more: refresh the metadata while it does not answer.
            self._cluster.refresh_soon().add_done_callback(self.wake)
        if node in self._fetching or node in self._dialling:
            return None
        if self._ready(node) is None:
            self._dialling.add(node)
            self._sessions.pop(node, None)
            dialling = self._channel.dial(self._cluster.address(node))
            dialling.add_done_callback(lambda task: self._dialled(node, task))
            return None
        return node

    def _recreated(self, state: AssignedPartition) -> bool:
        """The topic was deleted and created again: positions in the old one mean nothing in the new one, of which
        nothing has been read yet."""
        topic_id = self._cluster.topology.topics[state.partition.topic].id
        if topic_id == state.topic_id or NO_ID in (topic_id, state.topic_id):
            state.topic_id = topic_id
            return False
        if state.has_records:
            return True  # they are handed out first; the take wakes the pump
        why = f"{state.partition.topic} was deleted and created again, {state.partition} is another log now"
        if self._options.auto_offset_reset is None:
            state.problem = errors.OffsetOutOfRange(f"{why}: seek to where to go on")
            self._arrived.set()
        else:
            log.warning("%s: reading it from its start", why)
            state.seek_by_look_up(EARLIEST)
            self._positions.look(self._assigned)
        return True

    def _ready(self, node: int) -> Requester | None:
        return self._channel.ready(self._cluster.address(node))

    def _dialled(self, node: int, task: asyncio.Task[Requester]) -> None:
        self._dialling.discard(node)
        if not task.cancelled():
            problem = task.exception()
            if isinstance(problem, errors.TidelogError) and not self._closed:
                for state in self._assigned.values():
                    if node in (state.replica, self._cluster.topology.leader(state.partition)):
                        self._failed(state, problem)
        self.wake()

    def _set_timer(self, now_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [state.not_before_ms for state in self._assigned.values() if state.not_before_ms > now_ms]
        if times:
            self._timer = self._loop.call_later((min(times) - now_ms) / 1000, self.wake)

    # Requests and answers

    def _fetch(self, node: int, partitions: list[AssignedPartition]) -> None:
        connection = self._ready(node)
        assert connection is not None
        session = self._sessions.setdefault(node, FetchSessionHandler())
        call = build_fetch(
            connection, self._cluster.topology, partitions, self._options, session, self._partition_bytes
        )
        timeout_ms = self._cluster.options.request_timeout_ms + self._options.fetch_max_wait_ms
        answer = connection.submit(call.request, FetchResponse, version=call.version, timeout_ms=timeout_ms)
        # Not before it is under way: a partition that waits for an answer is not asked for again.
        self._fetching.add(node)
        for state in partitions:
            state.fetching = True
        begun = self._loop.time()
        answer.add_done_callback(lambda done: self._answered(node, session, call, begun, done))

    def _answered(
        self,
        node: int,
        session: FetchSessionHandler,
        call: FetchCall,
        begun: float,
        done: asyncio.Future[FetchResponse],
    ) -> None:
        self._fetching.discard(node)
        fetched = [
            state
            for partition, generation in call.generations.items()
            if (state := self._assigned.get(partition)) is not None and state.generation is generation
        ]
        for state in fetched:
            state.fetching = False
        if done.cancelled() or self._closed:
            return
        problem = done.exception()
        code = errors.NONE if problem is not None else done.result().error_code
        if problem is not None or code != errors.NONE:
            session.failed()
        if code in LOST_SESSION:
            self.wake()  # The next request begins a new one.
            return
        if code != errors.NONE:
            problem = problem_of(code, f"the fetch from broker {node}")
        if problem is not None:
            assert isinstance(problem, errors.TidelogError)
            for state in fetched:
                self._failed(state, problem)
        else:
            answer = done.result()
            session.answered(answer.session_id)
            self.fetches += 1
            if answer.throttle_time_ms > 0:
                self.throttled += 1
                self.throttle_ms += answer.throttle_time_ms
            now_s = self._loop.time()
            self.latencies.add(now_s, (now_s - begun) * 1000)
            current = {state.partition: state for state in fetched}
            for partition, data in read_fetch(answer, call.names):
                if partition in current:
                    moved = data.error_code != errors.NONE and self._cluster.leader_reported(
                        partition, node, data.current_leader, answer.node_endpoints
                    )
                    with self._lock:
                        self._partition_answered(current[partition], data, moved)
        self.wake()

    def _partition_answered(self, state: AssignedPartition, data: PartitionData, moved: bool) -> None:
        if data.error_code == errors.OffsetOutOfRange.code:
            self._out_of_range(state)
        elif data.error_code != errors.NONE:
            self._failed(state, problem_of(data.error_code, str(state.partition)), moved)
        elif data.diverging_epoch.end_offset >= 0:
            self._truncated(state, data.diverging_epoch.end_offset)
        elif data.preferred_read_replica != NO_REPLICA and data.preferred_read_replica != state.replica:
            state.worked()
            state.replica = data.preferred_read_replica
            options, clock = self._cluster.options, self._cluster.environment.clock
            state.replica_until_ms = clock.monotonic_ms() + options.metadata_max_age_ms
        else:
            records = data.records or b""
            self.bytes += len(records)
            aborted = None
            if self._options.read_committed:
                aborted = [(txn.producer_id, txn.first_offset) for txn in data.aborted_transactions or ()]
            state.fetched(records, data.high_watermark, self._options.check_crcs, aborted)
            state.stable_offset = data.last_stable_offset
            if state.has_records or state.problem is not None:
                self._arrived.set()

    def _truncated(self, state: AssignedPartition, end: int) -> None:
        """The leader's log diverges at `end` from the records that were read: records after `end` are lost."""
        position = state.position or 0
        if end >= position:
            # Only records that were fetched ahead are gone, and the application has not seen them.
            state.seek_back(position)
        elif self._options.auto_offset_reset is None:
            state.problem = errors.OffsetOutOfRange(
                f"{state.partition} was truncated at {end}, below the position {position}, by a change of leader: "
                "seek to go on"
            )
            self._arrived.set()
        else:
            log.warning(
                "%s was truncated at %s, below the position %s: reading on there",
                state.partition,
                end,
                position,
            )
            state.seek(end)

    def _out_of_range(self, state: AssignedPartition) -> None:
        if state.has_records:
            # What was fetched before is still good; the answer to the next fetch will be the same.
            state.not_before_ms = (
                self._cluster.environment.clock.monotonic_ms() + self._cluster.options.retry_backoff_ms
            )
            return
        if state.replica is not None:
            state.replica = None  # It may be behind: ask the leader.
            return
        why = f"offset {state.fetch_offset} of {state.partition} is not in the log"
        log.warning(why)
        self._positions.reset(state, why)
        if state.problem is not None:
            self._arrived.set()

    def _failed(self, state: AssignedPartition, problem: errors.TidelogError, moved: bool = False) -> None:
        """`moved`: another broker is known to lead the partition now."""
        options, environment = self._cluster.options, self._cluster.environment
        if not problem.retriable:
            state.problem = problem
        else:
            wait_ms = delay_ms(
                options.retry_backoff_ms, options.retry_backoff_max_ms, state.failures, environment.random
            )
            now_ms = environment.clock.monotonic_ms()
            state.failed(problem, now_ms, 0 if moved else wait_ms, options.request_timeout_ms)
            if not moved:
                self._cluster.refresh_soon().add_done_callback(self.wake)
        if state.problem is not None:
            self._arrived.set()

    def _positions_changed(self) -> None:
        self._arrived.set()
        self.wake()
