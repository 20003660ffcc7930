"""Fetch (api 1), versions 4-18; decoded and encoded natively, records leave as slices of files.

What a client may see ends at the committed offset, or below the first open transaction when it reads committed
transactions.  When less than `min_bytes` is there, the fetch waits once, for enough to arrive, for records that are not
here yet, or for its time to run out, and then reads once more.  A follower sees everything up to the log's end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Protocol
from uuid import UUID

from tidelog import errors
from tidelog._speed.wire.fetch_frames import FetchAnswer, FetchAsk, decode_fetch, encode_fetch, fetch_answer
from tidelog._speed.wire.unchanged_partitions import split_unchanged, wait_all, wait_no_more
from tidelog.broker.fetch_sessions import FULL_FETCH, NO_SESSION, FetchSession, Key, Wanted
from tidelog.broker.leaders import endpoints_of
from tidelog.broker.replica_selector import RACK_AWARE, closest
from tidelog.broker.services import Services
from tidelog.broker.session import Session
from tidelog.replication.delayed_fetch import FetchWait
from tidelog.replication.follower_fetch import CHECK_IT
from tidelog.replication.partition import HostedPartition
from tidelog.replication.throttle import NO_LIMIT
from tidelog.storage.fetched_log import NotHereYet, Records
from tidelog.types import NodeId, Offset
from tidelog.wire.acls import AclOperation

RACKS_FROM = 11
TOPIC_IDS_FROM = 13
UNKNOWN = -1
FETCH = 1
Taken = tuple[HostedPartition, int, Records]  # records from this offset on
Found = list[tuple[str | bytes, FetchAnswer]]


class FetchCaller(Protocol):
    frames: int
    session: Session

    @property
    def next_waits(self) -> bool: ...
    def throttle(self, throttle_ms: int) -> None: ...
    def hold(self, frame: int, waits: asyncio.Future[Any]) -> bool: ...


def fetch(
    frame: memoryview, at: int, version: int, correlation_id: int, caller: FetchCaller, services: Services
) -> list[Any] | asyncio.Future[Any]:
    ask = decode_fetch(frame, at, version)
    try:
        if ask.replica_id >= 0:
            services.gate.check_cluster(caller.session, AclOperation.CLUSTER_ACTION)
            _check_replica(ask, services)
        elif services.gate.quotas.active:
            throttle_ms = services.gate.quotas.fetch_over(caller.session)
            if throttle_ms:
                return _throttled(ask, version, correlation_id, caller, services, throttle_ms)
        session = services.sessions.open(ask, version >= TOPIC_IDS_FROM, services.clock.monotonic_ms())
    except errors.TidelogError as problem:
        services.counters.failed(FETCH, problem.code, caller.session.client_id)
        return encode_fetch(version, correlation_id, 0, problem.code, NO_SESSION, [])
    fetching = FetchInFlight(ask, session, version, correlation_id, caller, services)
    return fetching.answer_now() or fetching.answer_later(caller)


def _throttled(
    ask: FetchAsk,
    version: int,
    correlation_id: int,
    caller: FetchCaller,
    services: Services,
    throttle_ms: int,
) -> list[Any]:
    """No records, and no session where one was asked for: the client asks again after the throttle time."""
    session_id = NO_SESSION
    if ask.session_epoch != FULL_FETCH:
        session = services.sessions.open(ask, version >= TOPIC_IDS_FROM, services.clock.monotonic_ms())
        if session is not None:
            session_id = session.session_id
    caller.throttle(throttle_ms)
    return encode_fetch(version, correlation_id, throttle_ms, 0, session_id, [])


def _check_replica(ask: FetchAsk, services: Services) -> None:
    """An older process of the broker, which may have other data than the one that is registered, must not speak for it."""
    broker = services.image().brokers.get(NodeId(ask.replica_id))
    if broker is not None and UNKNOWN < ask.replica_epoch < broker.epoch:
        raise errors.StaleBrokerEpoch(f"broker {ask.replica_id} has registered again since")


class FetchInFlight:
    """One fetch from its request to its answer."""

    __slots__ = (
        "_answer",
        "_ask",
        "_caller",
        "_connection",
        "_correlation_id",
        "_from_remote",
        "_on_their_way",
        "_put_off",
        "_services",
        "_session",
        "_taken",
        "_timer",
        "_unchanged",
        "_version",
        "_wait",
        "_wait_ms",
        "_waits_on",
    )

    def __init__(
        self,
        ask: FetchAsk,
        session: FetchSession | None,
        version: int,
        correlation_id: int,
        connection: FetchCaller,
        services: Services,
    ) -> None:
        self._ask = ask
        self._session = session
        self._version = version
        self._correlation_id = correlation_id
        self._connection = connection
        self._caller = connection.session
        self._services = services
        self._taken: list[Taken] = []
        self._on_their_way: list[asyncio.Future[None]] = []
        self._from_remote = False
        self._unchanged: list[
            HostedPartition
        ] = []  # where a follower has all there is, and knows all there is to know
        self._put_off = False  # a follower that is behind has to wait for its throttle

    def answer_now(self) -> list[Any] | None:
        """The answer, or None when it is worth to wait for more."""
        ask = self._ask
        answers, held, size, settled = self._read()
        self._wait_ms = ask.max_wait_ms
        if self._from_remote and not size:
            self._wait_ms = max(self._wait_ms, self._services.config().remote_fetch_max_wait_ms)
        if size >= ask.min_bytes or settled or self._wait_ms <= 0:
            return self._encode(answers)
        self._wait = FetchWait(ask.min_bytes - size, ask.read_committed)
        self._waits_on = held
        return None

    def answer_later(self, caller: FetchCaller) -> asyncio.Future[list[Any]]:
        loop = asyncio.get_running_loop()
        self._begin_wait()
        self._answer: asyncio.Future[list[Any]] = loop.create_future()
        wait_ms = self._wait_ms
        if self._put_off:
            services = self._services
            services.counters.put_off += 1
            wait_ms = min(wait_ms, services.outbound.wait_ms(services.clock.monotonic_ms()))
        self._timer = loop.call_later(wait_ms / 1000, self._timed_out)
        if self._ask.replica_id >= 0:
            # A follower that has more partitions to ask for says so with another request.
            loop.call_soon(self._give_way, caller, caller.frames)
        self._answer.add_done_callback(self._forget)  # also when the connection closes before
        return self._answer

    def _begin_wait(self) -> None:
        wait, follows = self._wait, self._ask.replica_id >= 0
        for partition in self._waits_on:
            partition.wait_for_more(wait, follows)
        wait_all(self._unchanged, wait)
        for ready in self._on_their_way:
            ready.add_done_callback(lambda _: wait.changed())
        self._waits_on += self._unchanged
        wait.future.add_done_callback(self._waited)

    def _timed_out(self) -> None:
        self._wait_ms = 0
        self._wait.changed()

    def _give_way(self, caller: FetchCaller, frame: int) -> None:
        if not caller.hold(frame, self._wait.future) and caller.next_waits:
            self._wait.changed()

    def _waited(self, _: asyncio.Future[None]) -> None:
        if self._answer.done():
            return
        try:
            if self._ask.replica_id >= 0:
                _check_replica(self._ask, self._services)
            answers, held, size, settled = self._read()
            if self._from_remote and not size and not settled and self._wait_ms > 0:
                # Remote storage gave what tells where the records are: they come next.
                wait_no_more(self._waits_on, self._wait)
                self._wait = FetchWait(self._ask.min_bytes, self._ask.read_committed)
                self._waits_on = held
                self._begin_wait()
                return
            self._answer.set_result(self._encode(answers))
        except Exception as problem:  # the connection says what it was, and closes
            self._answer.set_exception(problem)

    def _forget(self, _: asyncio.Future[list[Any]]) -> None:
        self._timer.cancel()
        wait_no_more(self._waits_on, self._wait)
        if not self._wait.future.done():
            self._wait.future.cancel()

    def _wanted(self) -> Iterable[tuple[Key, Wanted]]:
        session, ask, services = self._session, self._ask, self._services
        if session is None:
            return _all_wanted(ask)
        if ask.replica_id < 0:
            return session.wanted.items()
        # A follower has thousands of partitions in its session, and most of them are at rest.
        unchanged: list[HostedPartition] = []
        self._unchanged = unchanged
        held, now_ms = services.partitions.held, services.clock.monotonic_ms()
        return split_unchanged(
            held, session.wanted, session.told, ask.replica_id, services.partitions.node, now_ms, unchanged
        )

    def _read(self) -> tuple[Found, list[HostedPartition], int, bool]:
        """(answers, partitions they came from, bytes of records, whether there is something to tell at once)."""
        ask = self._ask
        partitions = self._services.partitions
        # A consumer that can be sent to another replica can read from one.
        anywhere = self._version >= RACKS_FROM and ask.replica_id < 0
        find = partitions.held_here if anywhere else partitions.led_here
        left = min(ask.max_bytes, self._services.config().fetch_max_bytes)
        quotas = self._services.gate.quotas
        if quotas.active and ask.replica_id < 0:
            left = min(left, quotas.fetch_bytes_max(self._caller))
        answers: Found = []
        taken = self._taken = []
        self._on_their_way = []
        self._from_remote = False
        held: list[HostedPartition] = []
        size, settled = 0, not (ask.topics or self._session)
        for (topic, index), wanted in self._wanted():
            try:
                if ask.replica_id < 0 and isinstance(topic, str):
                    self._check_read(topic)  # before it is looked for: nobody learns which topics there are
                partition = find(topic, index)
                if ask.replica_id < 0:
                    self._check_read(partition.topic)
                if ask.replica_id >= 0:
                    answer = self._read_for_follower(partition, wanted, left, size == 0)
                elif ask.rack and (nearer := self._nearer(partition, wanted)) is not None:
                    answer = nearer
                else:
                    answer = _read_partition(partition, wanted, ask.read_committed, left, size == 0)
            except errors.TidelogError as refusal:
                problem, leader = self._told(topic, refusal), None
                if isinstance(problem, errors.NotLeaderOrFollower | errors.FencedLeaderEpoch):
                    leader = self._services.partitions.leader_of(topic, index)
                answer = FetchAnswer(index, problem.code)
                answer.leader = leader
                settled = True
                self._services.counters.failed(FETCH, problem.code, self._caller.client_id)
            else:
                # What a throttled follower may not have yet is nothing to wake it for.
                if not (self._put_off and partition.throttled_out):
                    held.append(partition)
                records = answer.records
                if isinstance(records, NotHereYet):
                    self._on_their_way.append(records.ready)
                    self._from_remote = self._from_remote or records.remote
                    answer.records = None
                elif records is not None:
                    taken.append((partition, wanted[1], records))
                    size += records.size
                    left -= records.size
                settled = settled or answer.diverging is not None or answer.preferred_replica != UNKNOWN
            answers.append((topic, answer))
        return answers, held, size, settled

    def _told(self, topic: str | bytes, problem: errors.TidelogError) -> errors.TidelogError:
        """The error code for a tenant: an id outside of the tenant is an unknown topic, whatever else is wrong with the
        fetch."""
        if isinstance(topic, bytes) and self._ask.replica_id < 0:
            tenant = self._services.gate.tenant(self._caller)
            topic_image = None if tenant is None else self._services.image().topic_by_id(UUID(bytes=topic))
            if tenant is not None and topic_image is not None and not tenant.owns(topic_image.name):
                return errors.UnknownTopicId()
        return problem

    def _check_read(self, topic: str) -> None:
        if not self._services.gate.may_read(self._caller, topic):
            raise errors.TopicAuthorizationFailed(f"{self._caller.principal} may not read topic '{topic}'")

    def _nearer(self, partition: HostedPartition, wanted: Wanted) -> FetchAnswer | None:
        """No records, but the replica in the consumer's rack to ask for them."""
        services, state, offset = self._services, partition.state, wanted[1]
        if services.config().replica_selector_class != RACK_AWARE or partition.leader != state.node:
            return None
        partition.check_epoch(wanted[0])
        node = closest(state, services.image(), self._ask.rack, offset)
        if node is None or not partition.log.start <= offset <= state.committed:
            return None
        start, stable = partition.log.start, partition.last_stable
        answer = FetchAnswer(partition.index, 0, state.committed, stable, start)
        answer.preferred_replica = node
        return answer

    def _read_for_follower(
        self, partition: HostedPartition, wanted: Wanted, left: int, first: bool
    ) -> FetchAnswer:
        """A follower gets all there is, and says by what it asks for how far it is."""
        epoch, offset, fetched_epoch, _, bytes_max = wanted
        partition.check_epoch(epoch)
        log, index, node = partition.log, partition.index, NodeId(self._ask.replica_id)
        committed = partition.state.committed
        if fetched_epoch >= 0:
            epoch_held, end = log.epochs.end_of(fetched_epoch, log.end)
            if epoch_held < fetched_epoch or end < offset:
                return _diverging(FetchAnswer(index, 0, committed, UNKNOWN, log.start), epoch_held, end)
        if not log.start <= offset <= log.end:
            return FetchAnswer(index, errors.OffsetOutOfRange.code, committed, UNKNOWN, log.start)
        if offset < log.local_start:
            # The last stable offset, which means nothing to a follower, says where the local log starts.
            code = errors.OffsetMovedToTieredStorage.code
            return FetchAnswer(index, code, committed, log.local_start, log.start)
        services = self._services
        partition.follower_fetched(node, Offset(offset), services.clock.monotonic_ms())
        if partition.state.caught_up(node):
            services.in_sync.caught_up(partition, node, self._ask.replica_epoch)
        committed = partition.state.committed
        records = None
        if bytes_max == CHECK_IT:
            log.suspect(offset)
        if offset < log.end and (left > 0 or first):
            allowed = self._allowed(partition, node)
            if allowed > 0:
                records = log.fetch(offset, max(min(bytes_max, left, allowed), 0), log.end, first)
        if partition.throttled_out and records is not None and not isinstance(records, NotHereYet):
            services.outbound.took(records.size, services.clock.monotonic_ms())
        return fetch_answer(index, committed, UNKNOWN, log.start, records)

    def _allowed(self, partition: HostedPartition, node: NodeId) -> int:
        """Bytes that the throttle leaves a follower.  Producers wait for those that are in sync: only the others are
        ever held back."""
        if not partition.throttled_out or node in partition.state.in_sync:
            return NO_LIMIT
        services = self._services
        allowed = services.outbound.left(services.clock.monotonic_ms())
        self._put_off = self._put_off or allowed <= 0
        return allowed

    def _count_taken(self) -> None:
        counters, ask = self._services.counters, self._ask
        if ask.replica_id >= 0:
            counters.replicated_out += sum([records.size for _, _, records in self._taken])
            return
        now_ms = self._services.clock.now_ms()
        for partition, offset, records in self._taken:
            bound = partition.readable_end(ask.read_committed)
            end = partition.log.reader.end_of(records, offset, bound)
            partition.fetched(counters.requests, offset, end, records.size, now_ms)

    def _encode(self, answers: Found) -> list[Any]:
        throttle_ms = 0
        if self._taken:
            self._count_taken()
            quotas = self._services.gate.quotas
            if quotas.active and self._ask.replica_id < 0:
                taken = sum([records.size for _, _, records in self._taken])
                throttle_ms = quotas.charge_fetch(self._caller, taken)
                if throttle_ms:
                    self._connection.throttle(throttle_ms)
        session = self._session
        session_id = NO_SESSION
        if session is not None:
            session_id = session.session_id
            news = session.news(answers)
            # The first answer of a session names every partition: the client learns which ones it holds.
            answers = answers if self._ask.session_epoch == 0 else news
        topics: dict[str | bytes, list[FetchAnswer]] = {}
        for topic, answer in answers:
            topics.setdefault(topic, []).append(answer)
        rows = list(topics.items())
        leaders = {answer.leader[0] for _, answer in answers if answer.leader is not None}
        endpoints = endpoints_of(sorted(leaders), self._services, self._caller.listener) if leaders else ()
        return encode_fetch(self._version, self._correlation_id, throttle_ms, 0, session_id, rows, endpoints)


def _all_wanted(ask: FetchAsk) -> Iterator[tuple[Key, Wanted]]:
    for topic, parts in ask.topics:
        for index, *wanted in parts:
            yield (topic, index), tuple(wanted)  # type: ignore[misc]


def _read_partition(
    partition: HostedPartition, wanted: Wanted, read_committed: bool, left: int, first: bool
) -> FetchAnswer:
    epoch, offset, fetched_epoch, _, bytes_max = wanted
    partition.check_epoch(epoch, leading=False)
    log = partition.log
    index = partition.index
    committed = partition.state.committed
    stable = partition.last_stable
    if fetched_epoch >= 0:
        epoch_held, end = log.epochs.end_of(fetched_epoch, log.end)
        if epoch_held < fetched_epoch or end < offset:
            return _diverging(FetchAnswer(index, 0, committed, stable, log.start), epoch_held, end)
    if not log.start <= offset <= log.end:
        if offset > log.end and partition.leader != partition.state.node:
            # A consumer that is told of a range starts anew somewhere else.  Where the log ends is the leader's to say.
            raise errors.NotLeaderOrFollower(f"{partition.name} ends at {log.end} here, and does not lead")
        raise errors.OffsetOutOfRange(f"{partition.name} has offsets {log.start} to {log.end}, not {offset}")
    bound = stable if read_committed else committed
    records = None
    if offset < bound and (left > 0 or first):
        records = log.fetch(offset, max(min(bytes_max, left), 0), bound, first)
    answer = fetch_answer(index, committed, stable, log.start, records)
    if read_committed:
        # (producer, first offset) of every transaction that was aborted and has records among these.
        answer.aborted = (
            []
            if records is None or isinstance(records, NotHereYet)
            else [aborted[:2] for aborted in log.aborted(offset, bound, records)]
        )
    return answer


def _diverging(answer: FetchAnswer, epoch: int, end: int) -> FetchAnswer:
    answer.diverging = epoch, end
    return answer
