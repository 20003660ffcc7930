"""The replication of one broker, wired together: followers, ISR changes, the active controller, and the handover of
leadership before the broker stops.  `lifecycle` builds and stops it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidelog import errors
from tidelog.app.environment import BrokerEnvironment
from tidelog.app.peer_security import ListenerPeers
from tidelog.metadata.active_controller import ActiveController
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image
from tidelog.metadata.registration import Registration
from tidelog.metadata.store import MetadataStore
from tidelog.replication.in_sync import InSync
from tidelog.replication.leader_fetchers import LeaderFetchers
from tidelog.replication.leaderless_logs import LeaderlessLogs
from tidelog.replication.metadata_rollback import MetadataRollback
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.replication.peer_liveness import PeerLiveness
from tidelog.replication.peers import Peers
from tidelog.replication.repair import Repair
from tidelog.replication.replica_fetcher import ReplicaFetcher
from tidelog.replication.replica_fetchers import ReplicaFetchers
from tidelog.replication.throttle import Throttle
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog")

HAND_OVER_S_MAX = 10.0


class BrokerReplication:
    def __init__(
        self,
        node: NodeId,
        controller: Controller,
        partitions: Partitions,
        dirs: LogDirs,
        around: BrokerEnvironment,
        listener: str,
        truncated: Callable[[HostedPartition], None],
    ) -> None:
        self._node = node
        self._controller = controller
        self._clock = around.clock
        self._truncated = truncated
        self._partitions = partitions
        self._registration: Registration | None = None
        self._active_controller: ActiveController | None = None
        self._peer_liveness: PeerLiveness | None = None
        self._moved = asyncio.Event()
        security = ListenerPeers(controller.config)
        security.login()  # a login that is missing stops the start
        timeout_ms = controller.config().request_timeout_ms
        self.peers = Peers(node, around.network, lambda: controller.image, listener, security, timeout_ms)
        self.in_sync = InSync(
            node,
            partitions,
            controller,
            around.clock,
            lambda: controller.config().replica_lag_time_max_ms,
            lambda topic: controller.topic_config(topic).min_insync_replicas,
        )
        self._inbound = Throttle(lambda: controller.config().follower_replication_throttled_rate)
        self.outbound = Throttle(lambda: controller.config().leader_replication_throttled_rate)
        self._followers = ReplicaFetchers(node, partitions, self._follower)
        self.rollback = MetadataRollback(node, partitions, dirs, controller)
        self.leaderless = LeaderlessLogs(node, dirs, controller)

    def _follower(self, leader: NodeId) -> LeaderFetchers:
        def fetcher(bytes_max: int, unwritten_max: int) -> ReplicaFetcher:
            return ReplicaFetcher(
                leader,
                self._node,
                self.peers,
                self._clock,
                self._controller.config,
                lambda: -1 if self._registration is None else self._registration.epoch,
                self._truncated,
                self._inbound,
                bytes_max,
                unwritten_max,
            )

        return LeaderFetchers(fetcher)

    def active_controller(self, store: MetadataStore, registration: Registration) -> ActiveController:
        """Builds the active controller, which works while this broker holds the controller's key."""
        self._registration = registration
        self._peer_liveness = PeerLiveness(self._node, self.peers, store)
        controller = self._controller
        self._active_controller = ActiveController(
            store,
            self._node,
            registration,
            lambda: controller.image,
            controller.config,
            lambda topic: controller.topic_config(topic).unclean_leader_election_enable,
            self._clock,
        )
        return self._active_controller

    def repair(self, dirs: LogDirs, repaired: Callable[[TopicPartition], None]) -> Repair:
        """Builds the repair of damaged logs."""
        return Repair(
            self._node, dirs, self._partitions, self._controller, self.peers, self._truncated, repaired
        )

    def lease_is_proven(self) -> bool:
        return self._registration is not None and self._registration.is_proven()

    async def start(self) -> None:
        await self._followers.start(self._controller.image)
        self.rollback.started(self._controller.image)
        self.leaderless.started(self._controller.image)
        self._brokers_changed(self._controller.image)

    def _brokers_changed(self, image: Image) -> None:
        """Raises DuplicateBrokerRegistration if another process is registered as this broker."""
        if self._registration is not None and self._peer_liveness is not None:
            self._registration.learned(image)
            self._peer_liveness.learned(image)

    async def apply(self, update: Update) -> None:
        await self._followers.apply(update)

    def applied(self, update: Update) -> None:
        """Called when all parts of the broker have applied the update."""
        if self._active_controller is not None:
            self._active_controller.learned(update)
            self.in_sync.learned(update)
            self.rollback.learned(update)
            self.leaderless.learned(update)
        if update.brokers:
            self._brokers_changed(update.image)
        self._moved.set()
        self._moved = asyncio.Event()

    async def hand_over(self) -> None:
        """Hands leadership over to other brokers before this broker stops.  Gives up after a while, or if the metadata
        cannot be changed: then the others wait until the lease ends, as after a crash."""
        image = self._controller.image
        if self._registration is None or len(image.live_brokers) < 2:
            return
        try:
            async with asyncio.timeout(HAND_OVER_S_MAX):
                await self._registration.leave()
                while self._leads_what_others_could():
                    await self._moved.wait()
        except TimeoutError:
            log.warning("Some partitions have no other broker that could lead them: the broker stops anyway.")
        except errors.TidelogError as problem:
            log.warning("Leadership cannot be handed over, the broker stops anyway: %s", problem)

    def _leads_what_others_could(self) -> bool:
        image, node = self._controller.image, self._node
        live = {broker.node_id for broker in image.live_brokers} - {node}
        return any(
            partition.leader == node and not live.isdisjoint(partition.in_sync)
            for topic in image.topics.values()
            for partition in topic.partitions
        )

    async def stop(self) -> None:
        await self.in_sync.stop()
        if self._peer_liveness is not None:
            await self._peer_liveness.stop()
        await self._followers.stop()
        self.peers.close()
