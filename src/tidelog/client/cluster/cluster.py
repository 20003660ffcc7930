"""The cluster as a client sees it: where to ask, who leads what, and when to ask again.

Owns the topology and the connections.  The first contact fails at once when no bootstrap address answers;
after it, failures are retried until the caller's time is up.  Producer, consumer and admin are built on this.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Protocol, TypeVar

from tidelog import errors
from tidelog.client.cluster.addresses import Address
from tidelog.client.cluster.backoff import Backoff
from tidelog.client.cluster.connections import Connections
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.cluster.response_errors import problem_of
from tidelog.client.cluster.topology import NO_LEADER, Node, Topic, Topology
from tidelog.client.environment import Environment
from tidelog.client.telemetry.connection_times import ConnectionTimes
from tidelog.net.requester import Requester, Unreachable
from tidelog.types import TopicPartition
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")

# How long one address has for itself before the next is tried beside it.
STAGGER_MS = 300


class _Leader(Protocol):
    leader_id: int
    leader_epoch: int


class _Endpoint(Protocol):
    """Answers to Produce and to Fetch have them alike."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Cluster:
    def __init__(
        self, bootstrap: tuple[Address, ...], options: ConnectionOptions, environment: Environment
    ) -> None:
        self.topology = Topology()
        self.options = options
        self.environment = environment
        self._bootstrap = bootstrap
        self.times = ConnectionTimes()
        self._connections = Connections(environment, options, self.times)
        self._tracked: dict[str, bool] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_ms = -float("inf")
        self._age_timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """The first contact: nodes and controller.  Raises `Unreachable` after one round of the addresses."""
        await self.refresh(())

    async def close(self) -> None:
        if self._age_timer is not None:
            self._age_timer.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self._connections.close()

    # Where to ask

    async def any(self) -> Requester:
        """The least busy open connection; without one, the first of the known nodes, in random order, and the
        bootstrap addresses that answers.  An address that does not answer soon does not hold up the next."""
        connection = self.open_connection()
        if connection is not None:
            return connection
        nodes = [Address(node.host, node.port) for node in self.topology.nodes.values()]
        self.environment.random.shuffle(nodes)
        addresses = list(dict.fromkeys([*nodes, *self._bootstrap]))
        addresses.sort(key=self._connections.failing)
        failures: dict[Address, Unreachable] = {}
        dialling: dict[asyncio.Task[Requester], Address] = {}
        while addresses or dialling:
            if addresses:
                address = addresses.pop(0)
                dialling[self._connections.dial(address)] = address
            stagger_s = STAGGER_MS / 1000 if addresses else None
            done, _ = await asyncio.wait(dialling, timeout=stagger_s, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in dialling if task in done]:
                address = dialling.pop(task)
                problem = task.exception()
                if problem is None:
                    return task.result()
                if not isinstance(problem, Unreachable):
                    raise problem
                failures[address] = problem
        raise _unreachable(failures)

    def open_connection(self) -> Requester | None:
        """The least busy of the open connections; None: there is none now."""
        return self._connections.least_busy()

    async def node(self, node: int) -> Requester:
        return await self._connections.get(self.address(node))

    def channel(self) -> Connections:
        """Connections of their own, for requests that wait at the broker (fetches, joins): a broker answers in
        order, so they would hold up everything behind them.  The caller closes them."""
        return Connections(self.environment, self.options, self.times)

    def address(self, node: int) -> Address:
        broker = self.topology.nodes.get(node)
        if broker is None:
            raise errors.LeaderNotAvailable(f"the address of broker {node} is not known: is it running?")
        return Address(broker.host, broker.port)

    def ready(self, node: int) -> Requester | None:
        """The open connection to a node; None when there is none yet: `dial` it."""
        return self._connections.ready(self.address(node))

    def dial(self, node: int) -> asyncio.Task[Requester]:
        return self._connections.dial(self.address(node))

    async def at(self, address: Address) -> Requester:
        return await self._connections.get(address)

    async def controller(self) -> Requester:
        if self.topology.controller not in self.topology.nodes:
            await self.refresh(())
        if self.topology.controller not in self.topology.nodes:
            return await self.any()
        try:
            return await self.node(self.topology.controller)
        except Unreachable:
            # Another broker may be the controller by now: the next attempt goes there.
            await self.refresh(())
            raise

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by leader; refreshes the metadata of partitions without a known leader."""
        wanted = list(partitions)
        missing = {partition.topic for partition in wanted if self.topology.leader(partition) is None}
        if missing:
            await self.refresh(missing)
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            leader = self.topology.leader(partition)
            if leader is None:
                raise self.missing(partition)
            by_node.setdefault(leader, []).append(partition)
        return by_node

    def missing(self, of: TopicPartition) -> errors.TidelogError:
        """Why no leader is known for a partition."""
        topic = self.topology.topics.get(of.topic)
        if topic is None or topic.error:
            return self._topic_problem(of.topic, topic)
        if topic.partition(of.partition) is None:
            last = len(topic.partitions) - 1
            return errors.UnknownTopicOrPartition(
                f"topic {of.topic!r} has no partition {of.partition}: it has 0 to {last}"
            )
        return errors.LeaderNotAvailable(f"{of} has no leader right now: are its brokers running?")

    # What is where

    async def refresh(self, topics: Collection[str] | None, auto_create: bool = False) -> Topology:
        """Refreshes the metadata of these topics, or of all with None."""
        connection = await self.any()
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=auto_create,
        )
        answer = await connection.ask(request, MetadataResponse)
        before = Topology() if topics is None else self.topology
        self.topology = before.answered(answer)
        return self.topology

    def leader_reported(
        self, of: TopicPartition, by: int, leader: _Leader, endpoints: Iterable[_Endpoint]
    ) -> bool:
        """Node `by`, which does not lead the partition, has named its leader.  True if another broker should be asked
        at once: false when `by` lags behind the metadata here, or will lead in a moment."""
        nodes = [
            Node(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) for endpoint in endpoints
        ]
        self.topology = self.topology.led(of, leader.leader_id, leader.leader_epoch, nodes)
        partition, epoch = self.topology.partition(of), leader.leader_epoch
        return (
            partition is not None
            and partition.leader_epoch == epoch >= 0
            and partition.leader not in (by, NO_LEADER)
        )

    async def refresh_ids(self, ids: Collection[uuid.UUID]) -> Topology:
        """Refreshes topics by id; topics that do not exist stay unknown."""
        connection = await self.any()
        request = MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids],
            allow_auto_topic_creation=False,
        )
        self.topology = self.topology.answered(await connection.ask(request, MetadataResponse))
        return self.topology

    async def topic(self, name: str, timeout_ms: int, auto_create: bool = False) -> Topic:
        """The topic with its partitions; refreshes its metadata if needed, and with `auto_create` waits until the
        broker has created it."""

        async def look() -> Topic:
            topic = self.topology.topics.get(name)
            if topic is None or topic.error or not topic.partitions:
                topic = (await self.refresh([name], auto_create)).topics.get(name)
            if topic is not None and not topic.error and topic.partitions:
                return topic
            raise self._topic_problem(name, topic)

        final = () if auto_create else (errors.UnknownTopicOrPartition,)
        return await self.retrying(f"the metadata of topic {name!r}", look, timeout_ms, final)

    def _topic_problem(self, name: str, topic: Topic | None) -> errors.TidelogError:
        if topic is None or topic.error == errors.UnknownTopicOrPartition.code:
            where = ", ".join(map(str, self._bootstrap))
            return errors.UnknownTopicOrPartition(
                f"there is no topic {name!r} on {where}: check the name, or create it"
            )
        if not topic.error:
            return errors.LeaderNotAvailable(f"topic {name!r} has no partitions yet")
        return problem_of(topic.error, f"topic {name!r}")

    def track(self, topic: str, auto_create: bool = False) -> None:
        """Keeps the topic's metadata fresh from now on."""
        self._tracked[topic] = auto_create
        if self._age_timer is None:
            self._schedule_refresh()

    def refresh_soon(self) -> asyncio.Task[None]:
        """For callers that have met a broker that is not the leader: one shared refresh of the tracked topics, not
        more often than the retry backoff.  The task never fails; the next refresh may learn what this one could not."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(
                self._refresh_tracked(), name="metadata"
            )
        return self._refreshing

    async def _refresh_tracked(self) -> None:
        clock = self.environment.clock
        wait_ms = self._refreshed_ms + self.options.retry_backoff_ms - clock.monotonic_ms()
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)
        try:
            for auto_create in (False, True):
                topics = [name for name, create in self._tracked.items() if create == auto_create]
                if topics:
                    await self.refresh(topics, auto_create)
        except errors.TidelogError:
            pass
        finally:
            self._refreshed_ms = clock.monotonic_ms()
            self._schedule_refresh()

    def _schedule_refresh(self) -> None:
        if self._age_timer is not None:
            self._age_timer.cancel()
        self._age_timer = asyncio.get_running_loop().call_later(
            self.options.metadata_max_age_ms / 1000, self.refresh_soon
        )

    # Trying again

    def backoff(self) -> Backoff:
        options = self.options
        return Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, self.environment.random)

    async def retrying(
        self,
        purpose: str,
        attempt: Callable[[], Awaitable[T]],
        timeout_ms: int,
        final: tuple[type[errors.TidelogError], ...] = (),
    ) -> T:
        """Repeats `attempt` until it succeeds or raises an error that is not retriable, or is one of `final`; when
        the time is up, raises the last error."""
        backoff = self.backoff()
        last: errors.TidelogError | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    try:
                        return await attempt()
                    except errors.TidelogError as problem:
                        if not problem.retriable or isinstance(problem, final):
                            raise
                        last = problem
                    await asyncio.sleep(backoff.failed() / 1000)
        except TimeoutError:
            raise last or errors.RequestTimedOut(f"{purpose} took longer than {timeout_ms} ms") from None


def _unreachable(failures: dict[Address, Unreachable]) -> Unreachable:
    if len(failures) == 1:
        return next(iter(failures.values()))
    reasons = ", ".join(f"{address} ({problem.reason})" for address, problem in failures.items())
    return Unreachable(f"cannot reach any broker: {reasons}; is one of them running?")
