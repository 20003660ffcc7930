"""Rebalances: joins the group for the subscribed topics; between two polls gives up and takes partitions as the group
says, and calls the rebalance listener.  `ConsumerRuntime` has the only instance; a consumer without a group has one,
too, which assigns all partitions to it.
"""

from __future__ import annotations

import asyncio
import random
import re
import uuid
from collections.abc import Callable, Collection

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.coordinator import CoordinatorLookup, CoordinatorType
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.consumer.commits import Commits
from tidelog.client.consumer.fetch.fetcher import Fetcher
from tidelog.client.consumer.offset_store import Call, call_here
from tidelog.client.groups.classic_membership import ClassicMembership
from tidelog.client.groups.consumer_membership import ConsumerMembership
from tidelog.client.groups.membership import AssignmentChange, Membership
from tidelog.client.groups.membership_task import MembershipTask
from tidelog.client.groups.metadata import GroupMetadata
from tidelog.client.groups.options import GroupOptions
from tidelog.client.groups.rebalance_listener import RebalanceListener
from tidelog.client.groups.solo_membership import SoloMembership
from tidelog.client.telemetry.recent_times import RecentTimes

# How often a reader without a group looks for a topic that is not there yet.
MISSING_TOPIC_MS = 1_000


def new_membership(
    group: GroupOptions, connection: ConnectionOptions, rack: str | None, chance: random.Random
) -> Membership:
    if group.group_id is None:
        return SoloMembership(connection.metadata_max_age_ms, MISSING_TOPIC_MS)
    if group.group_protocol == "consumer":
        return ConsumerMembership(
            group.group_id,
            new_member_id(chance),
            rebalance_timeout_ms=group.max_poll_interval_ms,
            instance_id=group.group_instance_id,
            rack=rack,
            server_assignor=group.group_remote_assignor,
        )
    return ClassicMembership(
        group.group_id,
        group.assignors,
        session_timeout_ms=group.session_timeout_ms,
        rebalance_timeout_ms=group.max_poll_interval_ms,
        heartbeat_interval_ms=group.heartbeat_interval_ms,
        instance_id=group.group_instance_id,
        rack=rack,
    )


def new_member_id(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


class Rebalancer:
    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        commits: Commits | None,
        membership: Membership,
        group: GroupOptions,
        *,
        notify: Callable[[], None],
        progress: Callable[[], object],
        call: Call,
    ) -> None:
        """`call` calls the listener's methods, on the thread that they belong to."""
        self.latencies = RecentTimes()
        self._cluster = cluster
        self._fetcher = fetcher
        self._commits = commits
        self._membership = membership
        self._by_coordinator = group.group_id is not None and group.group_protocol == "consumer"
        self._call = call
        self.listener: RebalanceListener | None = None
        # A join is held at the coordinator until all have joined: it must not hold up commits.
        self._channel = cluster.channel()
        self._task = MembershipTask(
            cluster,
            CoordinatorLookup(cluster, CoordinatorType.GROUP, group.group_id or "", self._channel),
            membership,
            poll_interval_ms_max=group.max_poll_interval_ms,
            notify=notify,
            progress=progress,
        )

    @property
    def identity(self) -> GroupMetadata:
        return self._membership.identity

    @property
    def in_group(self) -> bool:
        return self._membership.in_group

    @property
    def settled_in(self) -> bool:
        """The member has all partitions that the group has for it, which may be none."""
        has_target = (
            self._membership.looked if isinstance(self._membership, SoloMembership) else self.in_group
        )
        return has_target and self._membership.change is None

    @property
    def rebalances(self) -> int:
        return self._membership.rebalances

    @property
    def problem(self) -> errors.TidelogError | None:
        """The error that has ended the membership for good."""
        return self._membership.problem

    def subscribe(
        self, topics: Collection[str], pattern: re.Pattern[str] | None, listener: RebalanceListener | None
    ) -> None:
        for topic in topics:
            self._cluster.track(topic)
        self.listener = listener
        self._task.subscribe(topics, pattern, regex_here=not self._by_coordinator)

    def poll_began(self) -> None:
        self._task.poll_began()

    def poll_ended(self) -> None:
        self._task.poll_ended()

    async def attend(self) -> None:
        applied = False
        while (change := self._membership.change) is not None:
            await self._apply(change)
            applied = True
        if applied:
            took_ms = self._task.rebalance_ended()
            if self._membership.rebalances:
                self.latencies.add(asyncio.get_running_loop().time(), took_ms)

    async def _apply(self, change: AssignmentChange) -> None:
        commits, listener = self._commits, self.listener
        call = self._call if listener is None or not listener._own else call_here
        if change.revoked:
            if commits is not None:
                await commits.auto_now(change.revoked)
            if listener is not None:
                await call(listener.on_partitions_revoked, change.revoked)
        if change.lost and listener is not None:
            await call(listener.on_partitions_lost, change.lost)
        if self._membership.change is not change:
            return  # The group went on without us meanwhile: there is another change to apply.
        for topic in {partition.topic for partition in change.added}:
            self._cluster.track(topic)
        if commits is not None:
            commits.dropped((*change.revoked, *change.lost))
        self._fetcher.assign(change.owned)
        self._membership.applied()
        self._task.wake()
        if change.added and listener is not None:
            await call(listener.on_partitions_assigned, change.added)

    async def close(self) -> None:
        try:
            await self._task.close()
        finally:
            await self._channel.close()
