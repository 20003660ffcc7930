"""The groups that this broker coordinates: one state machine for each partition of `__consumer_offsets` it leads.

`Groups` is what the drivers of all group types share: shards, timers, settings, the cluster's metadata.  A driver of
another type of group (consumer, share, streams) takes the `Groups` at construction (in `app.lifecycle`) and
- finds the shard of a group with `groups.shard(group_id)`, decides, appends, awaits `shard.committed(...)`;
- names its deadlines `(type, group id, ...)` in `groups.timers`, so that names of different types do not collide;
- adds callbacks to `groups.coordinator.opened` and `.closed`: the first arms its timers after a load, the second drops
  its soft state and answers waiting requests when the shard moves away;
- adds to `groups.updated` a callback that follows the metadata (topics that are created, grow or are deleted)."""

from __future__ import annotations

from collections.abc import Callable

from tidelog import errors
from tidelog.clock import Clock
from tidelog.config import BrokerConfig, GroupConfig
from tidelog.coordination.internal_topic import InternalTopic, TopicShape
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.coordination.shard import Shard
from tidelog.coordination.timers import Timers
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.group import Group
from tidelog.groups.rebalance_times import RebalanceTimes
from tidelog.groups.record_replay import new_machine
from tidelog.groups.record_types import KINDS
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image
from tidelog.replication.partitions import Partitions
from tidelog.types import NodeId

OFFSETS_TOPIC = "__consumer_offsets"

GroupShard = Shard[GroupStateMachine]


class Groups:
    def __init__(self, node: NodeId, controller: Controller, partitions: Partitions, clock: Clock) -> None:
        self._controller = controller
        self.clock = clock
        self.topic = InternalTopic(OFFSETS_TOPIC, controller, self._shape)
        self.coordinator: CoordinatorRuntime[GroupStateMachine] = CoordinatorRuntime(
            self.topic,
            node,
            partitions,
            clock,
            KINDS,
            new_machine,
            lambda: self.config.offsets_topic_compression_codec,
        )
        self.timers = Timers(clock)
        self.rebalances = RebalanceTimes()
        self.coordinator.closed.append(self._closed)
        self.updated: list[Callable[[Update], None]] = []
        """Called with every metadata update, after the shards have applied it."""
        self._plain: tuple[BrokerConfig, GroupConfig] | None = None

    # For drivers

    @property
    def config(self) -> BrokerConfig:
        return self._controller.config()

    @property
    def image(self) -> Image:
        return self._controller.image

    @property
    def commit_timeout_ms(self) -> int:
        return self.config.offsets_commit_timeout_ms

    def group_config(self, group_id: str) -> GroupConfig:
        """The group's settings; cached for groups without settings of their own, because every heartbeat needs them."""
        broker = self.config
        if self._plain is None or self._plain[0] is not broker:
            self._plain = (broker, GroupConfig.of({}, broker))
        overrides = self.image.group_overrides(group_id)
        return GroupConfig.of(overrides, broker) if overrides else self._plain[1]

    def changed(self, group: Group) -> None:
        """Drivers call it after a change, for the times of rebalances."""
        self.rebalances.observe(group.id, group.state_name, self.clock.monotonic_ms())

    def _closed(self, shard: GroupShard) -> None:
        for group_id in shard.machine.groups:
            self.rebalances.forget(group_id)

    def shard(self, group_id: str) -> GroupShard:
        """The shard that holds the group's state; raises the protocol's error if another broker leads the shard, or if
        it is loading or does not exist yet."""
        return self.coordinator.shard(group_id)

    def has_had_members(self, group_id: str) -> bool:
        """False also where another broker knows."""
        try:
            group = self.shard(group_id).machine.groups.get(group_id)
        except errors.TidelogError:
            return False
        return group is not None and not (isinstance(group, ClassicGroup) and group.is_simple)

    def _shape(self) -> TopicShape:
        config = self.config
        return TopicShape(
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )

    # Life

    def start(self) -> None:
        self.coordinator.start(self.image)

    def apply(self, update: Update) -> None:
        self.coordinator.apply(update)
        for tell in self.updated:
            tell(update)

    async def stop(self) -> None:
        await self.coordinator.stop()
        self.timers.clear()
