"""Several brokers on machines of their own, one metadata store, and clients that find leaders as real ones do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from random import Random

from tests.simulation.cluster.survivors import Survivors
from tests.simulation.history import PartitionHistory
from tests.simulation.world import TRAVEL_MS
from tidelog import errors
from tidelog.app.environment import BrokerEnvironment
from tidelog.app.lifecycle import Broker
from tidelog.config import BrokerConfig
from tidelog.metadata.image.image import PartitionImage
from tidelog.metadata.store import Changes, MetadataStore
from tidelog.net.requester import R, Request, Requester, dial
from tidelog.replication.partition import HostedPartition
from tidelog.storage.compaction.runner import InlineRunner
from tidelog.testing import Crashed, Machine, VirtualClock, VirtualNetwork
from tidelog.testing.metadata import Backup, VirtualMetadata, Weather
from tidelog.types import TopicPartition
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

CLIENT = "client"
PORT = 9092
REPLICATION_MAX = 3
REQUEST_TIMEOUT_MS = 3_000
WEATHER = Weather(delay_ms_max=5, patience_ms=2_000)


class Cluster:
    def __init__(self, random: Random, size: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self.random = random
        self.clock = VirtualClock()
        self.network = VirtualNetwork(random)
        self.metadata = VirtualMetadata(random, WEATHER)
        self.machines = {node: Machine(self.network, host(node), random) for node in range(1, size + 1)}
        self.brokers: dict[int, Broker] = {}
        self.partitions: dict[TopicPartition, PartitionHistory] = {}
        self.failing: set[int] = set()
        """Machines whose disks did not do what was asked of them since the broker there was last started."""
        self.told_restored: set[int] = set()
        """Brokers that have not been started since a backup of the metadata was restored.  They are told when they are."""
        self.directories_lost: set[int] = set()
        """Brokers that have not been started since one of their directories was lost for good.  They are told, too."""
        self.restorations = 0
        self._settings = settings or {}
        self.survivors = Survivors(self.machines, self.partitions, self._committed)
        self.metadata.observers.append(self._stored)

    # Brokers

    async def start(self, node: int) -> None:
        """`Crashed` if the machine goes down meanwhile."""
        machine, restorations = self.machines[node], self.restorations
        self.brokers[node] = await machine.process.run(self._start(node))
        self.directories_lost.discard(node)
        if restorations == self.restorations:
            self.told_restored.discard(node)

    async def start_all(self) -> None:
        """Returns when each of them knows all others."""
        await asyncio.gather(*(self.start(node) for node in self.machines))
        while any(
            len(broker._controller.image.brokers) < len(self.machines) for broker in self.brokers.values()
        ):
            await asyncio.sleep(0.01)

    async def stop(self, node: int) -> None:
        broker = self.brokers.pop(node)
        self.machines[node].go_on()
        await self.machines[node].process.run(broker.stop())
        self.machines[node].kill()  # what is left of the process

    def kill(self, node: int, power: bool = False) -> None:
        machine = self.machines[node]
        if machine.is_down:
            return
        if power:
            self.survivors.power_lost(node)
            machine.lose_power()
        else:
            machine.kill()
        self.brokers.pop(node, None)

    async def restart(self, node: int) -> None:
        self.machines[node].restart()
        self.survivors.power_on(node)
        await self.start(node)

    def disks_failed(self, node: int) -> bool:
        """The broker there has put a directory aside, and needs a restart once the disk is well again."""
        return any(one.problem is not None for one in self.brokers[node]._dirs.dirs)

    def restore(self, backup: Backup) -> None:
        """The metadata are what they were when `backup` was made; every broker has to be started anew, and is told."""
        backup.restore()
        self.restorations += 1
        self.told_restored = set(self.machines)
        self.survivors.restored(self.metadata.select(""))

    def _committed(self, name: TopicPartition) -> int:
        return max((int(held.state.committed) for _, held in self.replicas(name)), default=0)

    async def _start(self, node: int) -> Broker:
        given = {"listeners": f"PLAINTEXT://{host(node)}:{PORT}", "log.dirs": "/data", "node.id": str(node)}
        if node in self.told_restored:
            given["tidelog.metadata.restored"] = "true"
        if node in self.directories_lost:
            given["tidelog.log.dirs.forget.missing"] = "true"
        broker = Broker(BrokerConfig.of({**given, **self._settings}), self._surroundings(node))
        await broker.start()
        return broker

    def _surroundings(self, node: int) -> BrokerEnvironment:
        machine = self.machines[node]

        async def store(folder: str) -> MetadataStore:
            return self.metadata.connect(host(node))

        return BrokerEnvironment(
            clock=machine.clock,
            network=machine.host,
            random=self.random,
            disk=lambda path: machine.disk,
            store=store,
            runner=InlineRunner,
            host_name=lambda: host(node),
            http=False,
            descriptors_max=1024,
        )

    # What can be seen from above

    def _stored(self, happened: Changes) -> None:
        self.survivors.stored(happened, self.metadata.author)

    def stored(self, name: TopicPartition) -> PartitionImage | None:
        """The partition's state in the metadata, whoever knows of it."""
        return self.survivors.image.partition(*name)

    def replicas(self, name: TopicPartition) -> Iterator[tuple[int, HostedPartition]]:
        """Those that are open now."""
        for node, broker in self.brokers.items():
            held = broker._partitions.held.get(name)
            if held is not None:
                yield node, held

    # Clients

    async def connect(
        self, node: int, client_id: str, request_timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> Requester:
        return await dial(
            self.network.host(CLIENT),
            host(node),
            PORT,
            client_id,
            "1",
            connect_timeout_ms=REQUEST_TIMEOUT_MS,
            request_timeout_ms=request_timeout_ms,
        )

    async def connect_any(self, client_id: str, only_up: bool = False) -> Requester:
        """`only_up`: not to a machine that is down, which would not answer."""
        nodes = [node for node, machine in self.machines.items() if not (only_up and machine.is_down)]
        return await self.connect(self.random.choice(nodes), client_id)

    async def connect_leader(self, name: TopicPartition, client_id: str) -> Requester:
        return await self.connect(await self.find_leader(name, client_id), client_id)

    async def find_leader(self, name: TopicPartition, client_id: str, only_up: bool = False) -> int:
        """Asks any broker, or any that is up, who leads; an error of the network or the protocol when that fails."""
        requester = await self.connect_any(client_id, only_up)
        try:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name.topic)])
            answer = await requester.ask(request, MetadataResponse)
        finally:
            requester.close()
        for part in answer.topics[0].partitions:
            if part.partition_index == name.partition and part.leader_id >= 0:
                return part.leader_id
        raise errors.LeaderNotAvailable(f"{name} has no leader now")

    async def ask(self, request: Request, response: type[R], version: int | None = None) -> R:
        requester = await self.connect_any("admin")
        try:
            return await requester.ask(request, response, version=version)
        finally:
            requester.close()

    async def create_topic(
        self, name: str, partitions: int, settings: Mapping[str, str], watched: bool = True
    ) -> None:
        """`watched`: what is written to it, and read, is noted in `partitions`."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=min(len(self.machines), REPLICATION_MAX),
            configs=[CreatableTopicConfig(key, value) for key, value in settings.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS)
        code = (await self.ask(request, CreateTopicsResponse)).topics[0].error_code
        if code != errors.NONE:
            raise errors.by_code(code)()
        for index in range(partitions if watched else 0):
            partition = TopicPartition(name, index)
            self.partitions[partition] = PartitionHistory(
                partition,
                synced=settings.get("flush.messages") == "1",
                compacted=settings.get("cleanup.policy") == "compact",
            )


class LeaderOf:
    """Where clients of one partition meet its leader.  `only_up`: they ask no machine that is down who leads."""

    def __init__(self, cluster: Cluster, name: TopicPartition, only_up: bool = False) -> None:
        self.clock = cluster.clock
        self.node = 0
        """The broker that was last met."""
        self._cluster = cluster
        self._name = name
        self._only_up = only_up

    async def connect(self, client_id: str) -> Requester:
        self.node = await self._cluster.find_leader(self._name, client_id, self._only_up)
        return await self._cluster.connect(self.node, client_id)

    def lease_is_over(self, for_ms: int = 0) -> bool:
        """The broker that was last met had not renewed its lease in time: it cannot know that it still leads."""
        ended_ms = self._cluster.metadata.lease_ended_ms(host(self.node))
        return ended_ms is not None and self.clock.monotonic_ms() - for_ms > ended_ms

    def lease_was_over(self) -> bool:
        """When it sent what arrives now.  What a cut line held back was sent long ago, perhaps."""
        passed_ms = self.clock.monotonic_ms() - self._cluster.network.mended_ms
        return passed_ms > TRAVEL_MS and self.lease_is_over(TRAVEL_MS)


def host(node: int) -> str:
    return f"broker-{node}"


__all__ = ["Cluster", "Crashed", "LeaderOf"]
