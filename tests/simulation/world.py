"""A broker on a simulated machine, with its metadata in a store that outlives it, and clients on another host."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Protocol

from tests.simulation.history import PartitionHistory
from tidelog import errors
from tidelog.app.environment import BrokerEnvironment
from tidelog.app.lifecycle import Broker
from tidelog.config import BrokerConfig
from tidelog.errors import NONE
from tidelog.metadata.sqlite.store import SqliteStore, connect
from tidelog.metadata.store import MetadataStore
from tidelog.net.requester import R, Request, Requester, dial
from tidelog.storage.compaction.runner import InlineRunner
from tidelog.testing import Machine, VirtualClock, VirtualNetwork
from tidelog.types import TopicPartition
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

BROKER = "broker"
CLIENT = "client"
PORT = 9092
TRAVEL_MS = 100
"""Nothing is longer on a line that passes."""
REQUEST_TIMEOUT_MS = 3_000


class Meeting(Protocol):
    """Where a client of one partition finds its broker."""

    clock: VirtualClock

    async def connect(self, client_id: str) -> Requester: ...


class World:
    def __init__(self, random: Random, settings: Mapping[str, str] | None = None) -> None:
        self.random = random
        self.network = VirtualNetwork(random)
        self.clock = VirtualClock()
        self.machine = Machine(self.network, BROKER, random)
        self.broker: Broker | None = None
        self.partitions: dict[TopicPartition, PartitionHistory] = {}
        self._metadata = connect(":memory:")
        self._config = BrokerConfig.of(
            {"listeners": f"PLAINTEXT://{BROKER}:{PORT}", "log.dirs": "/data", **(settings or {})}
        )

    # The broker.

    async def start(self) -> None:
        """`Crashed` if the machine goes down meanwhile."""
        self.broker = await self.machine.process.run(self._start())

    async def stop(self) -> None:
        assert self.broker is not None
        await self.machine.process.run(self.broker.stop())
        self.broker = None

    async def _start(self) -> Broker:
        broker = Broker(self._config, self._surroundings())
        await broker.start()
        return broker

    def _surroundings(self) -> BrokerEnvironment:
        machine = self.machine

        async def store(folder: str) -> MetadataStore:
            return await SqliteStore.over(self._metadata, None, machine.clock)  # type: ignore[arg-type]

        return BrokerEnvironment(
            clock=machine.clock,
            network=machine.host,
            random=self.random,
            disk=lambda path: machine.disk,
            store=store,
            runner=InlineRunner,
            host_name=lambda: BROKER,
            http=False,
            descriptors_max=1024,
        )

    def kill(self) -> None:
        self.machine.kill()
        self.broker = None

    def lose_power(self) -> None:
        self.machine.lose_power()
        self.broker = None

    def went_down(self, power: bool) -> None:
        """To be called once for every end of the machine, before it is restarted."""
        if power:
            for history in self.partitions.values():
                history.power_lost()

    # Clients.

    async def connect(self, client_id: str) -> Requester:
        return await dial(
            self.network.host(CLIENT),
            BROKER,
            PORT,
            client_id,
            "1",
            connect_timeout_ms=REQUEST_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )

    async def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        problem = await self.ask_to_create(name, partitions, settings)
        if problem != NONE:
            raise errors.by_code(problem)()
        for index in range(partitions):
            partition = TopicPartition(name, index)
            self.partitions[partition] = PartitionHistory(
                partition,
                synced=settings.get("flush.messages") == "1",
                compacted=settings.get("cleanup.policy") == "compact",
            )

    async def ask_to_create(self, name: str, partitions: int, settings: Mapping[str, str]) -> int:
        """The error code."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(key, value) for key, value in settings.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS)
        return (await self._ask(request, CreateTopicsResponse)).topics[0].error_code

    async def ask_to_delete(self, name: str) -> int:
        """The error code."""
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=REQUEST_TIMEOUT_MS)
        return (await self._ask(request, DeleteTopicsResponse, version=5)).responses[0].error_code

    async def _ask(self, request: Request, response: type[R], version: int | None = None) -> R:
        requester = await self.connect("admin")
        try:
            return await requester.ask(request, response, version=version)
        finally:
            requester.close()
