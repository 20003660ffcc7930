"""What must hold at every moment of a run in which several troubles strike at once, and at every change of what is stored.

`look` is called again and again; `stored` at the instant of each change of a partition's stored state."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

from tests.simulation.cluster.survivors import Problems, doubted_nodes, holders
from tests.simulation.cluster.world import Cluster, host
from tidelog.metadata.image.image import PartitionImage
from tidelog.types import TopicPartition


class AtEveryMoment(Protocol):
    def look(self, cluster: Cluster) -> Problems: ...


class AtEveryChange(Protocol):
    def stored(
        self, cluster: Cluster, name: TopicPartition, before: PartitionImage, after: PartitionImage
    ) -> Problems: ...


class BrokersGoOn:
    """No broker ends by itself, unless its metadata were restored from a backup."""

    def look(self, cluster: Cluster) -> Problems:
        return [
            (type(self).__name__, f"broker {node}: {broker.ended.exception()}")
            for node, broker in cluster.brokers.items()
            if broker.ended.done()
            and broker.ended.exception() is not None
            and node not in cluster.told_restored
        ]


class FullDisksStayOnline:
    """A disk that is only full refuses writes, and its directory stays online.  Not one of ALWAYS: a log that was cut
    half-way on a full disk may take its directory offline."""

    def look(self, cluster: Cluster) -> Problems:
        return [
            (type(self).__name__, f"broker {node}: {directory.path} is offline: {directory.problem}")
            for node, broker in cluster.brokers.items()
            for directory in broker._dirs.dirs
            if isinstance(directory.problem, OSError) and directory.problem.errno == errno.ENOSPC
        ]


class DoubtedNeverServe:
    """A broker whose machine was without power acts as leader only where it was elected after it had said so."""

    def look(self, cluster: Cluster) -> Problems:
        problems = []
        for name in cluster.partitions:
            stored = cluster.stored(name)
            if cluster.survivors.is_restored(name):
                continue
            for node in cluster.survivors.doubted(name):
                broker = cluster.brokers.get(node)
                held = None if broker is None else broker._partitions.held.get(name)
                if held is None or stored is None or held.leader != node:
                    continue
                if stored.leader == node and stored.leader_epoch == held.state.epoch:
                    text = f"{name}: broker {node} leads in epoch {held.state.epoch} after a power cut"
                    problems.append((type(self).__name__, text))
        return problems


class DoubtedNeverLeadInTheStore:
    """What is stored never names a leader that is in doubt."""

    def stored(
        self, cluster: Cluster, name: TopicPartition, before: PartitionImage, after: PartitionImage
    ) -> Problems:
        if after.leader is not None and after.leader in doubted_nodes(after):
            return [(type(self).__name__, f"{name}: broker {after.leader} is in doubt and leads: {after}")]
        return []


class OnlyTheLeaderShrinks:
    """Nobody but the leader takes others out of the in-sync set, so that it cannot shrink while nobody can write.  A broker
    may leave by itself; a move that ends takes the old replicas with it; who was in sync in a backup says nothing."""

    def stored(
        self, cluster: Cluster, name: TopicPartition, before: PartitionImage, after: PartitionImage
    ) -> Problems:
        gone = {node for node in set(before.in_sync) - set(after.in_sync) if node in after.replicas}
        author = cluster.metadata.author
        by_leader = before.leader is not None and author == host(before.leader)
        by_itself = author in {host(node) for node in gone}
        if not gone or by_leader or by_itself or before.rolled_back:
            return []
        return [(type(self).__name__, f"{name}: {author or 'the end of a lease'} took out {gone}: {before}")]


class EpochsAscend:
    """A stored change never takes an epoch back, and a new leader always has a new one."""

    def stored(
        self, cluster: Cluster, name: TopicPartition, before: PartitionImage, after: PartitionImage
    ) -> Problems:
        kept = after.leader == before.leader or after.leader_epoch > before.leader_epoch
        if (
            kept
            and after.leader_epoch >= before.leader_epoch
            and after.partition_epoch > before.partition_epoch
        ):
            return []
        return [(type(self).__name__, f"{name}: {before} became {after}")]


class StandsStillWhileEligible:
    """While members that left are eligible, nothing is committed: whoever of them leads next has all there is."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, tuple[int, int, int]] = {}

    def look(self, cluster: Cluster) -> Problems:
        problems = []
        for name in cluster.partitions:
            stored = cluster.stored(name)
            before = self._seen.pop(name, None)
            if stored is None or stored.leader is None or not stored.eligible:
                continue
            if cluster.survivors.is_restored(name):
                continue
            held = dict(cluster.replicas(name)).get(stored.leader)
            if held is None or held.leader != stored.leader or held.state.epoch != stored.leader_epoch:
                continue
            # Until the leader knows what is stored, the members that are eligible now count for it as before.
            if cluster.brokers[stored.leader]._controller.image.partition(*name) != stored:
                continue
            now = stored.leader_epoch, stored.partition_epoch, int(held.state.committed)
            if before is not None and before[:2] == now[:2] and now[2] > before[2]:
                text = f"{name}: the high watermark went from {before[2]} to {now[2]} with {stored}"
                problems.append((type(self).__name__, text))
            self._seen[name] = now
        return problems


ALWAYS: tuple[Callable[[], AtEveryMoment], ...] = (
    BrokersGoOn,
    DoubtedNeverServe,
    StandsStillWhileEligible,
)
CHANGES: tuple[Callable[[], AtEveryChange], ...] = (
    DoubtedNeverLeadInTheStore,
    OnlyTheLeaderShrinks,
    EpochsAscend,
)

__all__ = ["ALWAYS", "CHANGES", "doubted_nodes", "holders"]
