"""Mistakes that can be planted into the running code, each by one rule that is broken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.app.known_revision import KnownRevision
from tidelog.app.replica_condition import ReplicaConditions
from tidelog.broker import router
from tidelog.broker.handlers.produce import in_transaction, produce
from tidelog.groups.offsets import commits as offset_commits
from tidelog.metadata import active_controller, in_sync_changes
from tidelog.metadata.access.access_controller import Swap
from tidelog.metadata.controller import Controller
from tidelog.metadata.elections import elections, replica_doubts
from tidelog.metadata.elections.elections import NextState
from tidelog.metadata.elections.replica_doubts import NO_LOG, ReplicaCondition
from tidelog.metadata.image.image import Image, PartitionImage
from tidelog.metadata.records import PARTITIONS, Cause, PartitionRecord
from tidelog.metadata.registration import Registration
from tidelog.replication import in_sync, replica_fetcher
from tidelog.replication.repair import Repair
from tidelog.replication.replica_state import ReplicaState
from tidelog.storage.dirs import volume
from tidelog.storage.log import is_offline
from tidelog.types import NodeId

Plant = Callable[[pytest.MonkeyPatch], None]


def a_leader_leads_on_after_a_power_cut(patch: pytest.MonkeyPatch) -> None:
    """It takes a new epoch before it reports its doubt."""
    in_doubt = replica_doubts.in_doubt

    def leads_on(partition: PartitionImage, node: NodeId, cause: Cause, reach: Any) -> PartitionRecord | None:
        if partition.leader == node:
            return elections.next_epoch(partition, node)
        return in_doubt(partition, node, cause, reach)

    patch.setattr(replica_doubts, "in_doubt", leads_on)


def doubts_of_others_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Each broker that comes back wipes what others have reported."""
    in_doubt = replica_doubts.in_doubt

    def alone(partition: PartitionImage, node: NodeId, cause: Cause, reach: Any) -> PartitionRecord | None:
        return in_doubt(partition._replace(doubts=()), node, cause, reach)

    patch.setattr(replica_doubts, "in_doubt", alone)


def the_best_log_is_chosen_before_all_have_reported(patch: pytest.MonkeyPatch) -> None:
    def best(partition: PartitionImage) -> NodeId | None:
        logs = [tail for tail in partition.doubts if tail.has_log and tail.node in partition.holders]
        return max(logs, key=lambda tail: (tail.epoch, tail.end)).node if logs else None

    patch.setattr(elections, "_sure", lambda partition: ())
    patch.setattr(elections, "best_in_doubt", best)


def the_last_that_reports_leads(patch: pytest.MonkeyPatch) -> None:
    """And not the longest log."""
    patch.setattr(elections, "_reach", lambda tail: (0, 0, False))


def _unless_missing(patch: pytest.MonkeyPatch, cause: Cause) -> None:
    look = ReplicaConditions.look

    def silent(self: ReplicaConditions, topic: Any, partition: PartitionImage) -> ReplicaCondition:
        condition = look(self, topic, partition)
        return ReplicaCondition(None, lambda: NO_LOG) if condition.cause is cause else condition

    patch.setattr(ReplicaConditions, "look", silent)


def a_missing_log_is_not_reported(patch: pytest.MonkeyPatch) -> None:
    _unless_missing(patch, Cause.MISSING)


def a_new_directory_is_as_good_as_the_old_one(patch: pytest.MonkeyPatch) -> None:
    _unless_missing(patch, Cause.NEW_DIRECTORY)


def a_log_made_anew_passes_for_the_one_that_was_missing(patch: pytest.MonkeyPatch) -> None:
    """When the broker is started once more, there is a log again: an empty one."""
    restarted = replica_doubts.restarted

    def forgotten(
        partition: PartitionImage, node: NodeId, condition: ReplicaCondition, unclean: bool
    ) -> PartitionRecord | None:
        before = [tail for tail in partition.doubts if tail.node == node and not tail.has_log]
        if before and condition.cause is None:
            kept = tuple(tail for tail in partition.doubts if tail.node != node)
            return partition.record._replace(doubts=kept, partition_epoch=partition.partition_epoch + 1)
        return restarted(partition, node, condition, unclean)

    patch.setattr(replica_doubts, "restarted", forgotten)


def the_controller_shrinks_in_sync_sets(patch: pytest.MonkeyPatch) -> None:
    """To those that run, whoever they are, and gives them a leader."""
    due = elections.due

    def shrunk(image: Image, topics: Any, unclean: Any) -> Any:
        live = {broker.node_id for broker in image.live_brokers}
        for state in due(image, topics, unclean):
            record = state.record
            in_sync = tuple(node for node in record.in_sync if node in live) or record.in_sync
            yield NextState(
                state.topic_id,
                state.index,
                record._replace(in_sync=in_sync, eligible=(), doubts=()),
                state.revision,
            )

    patch.setattr(active_controller, "due", shrunk)


def members_stay_eligible_while_more_is_committed(patch: pytest.MonkeyPatch) -> None:
    def with_members(
        partition: PartitionImage, members: frozenset[NodeId], in_sync_min: int
    ) -> PartitionRecord:
        gone = frozenset(partition.holders) - partition.doubted - members
        return partition.record._replace(
            in_sync=tuple(node for node in partition.replicas if node in members),
            eligible=tuple(node for node in partition.replicas if node in gone),
            doubts=(),
        )

    def out_of_date(partition: PartitionImage, leader: NodeId, live: Any, in_sync_min: int) -> bool:
        return bool(partition.doubts or in_sync_changes.leaving(partition, leader, live))

    patch.setattr(in_sync_changes, "_with_members", with_members)
    patch.setattr(in_sync, "out_of_date", out_of_date)
    patch.setattr(
        ReplicaState,
        "_has_enough_members",
        lambda self: len(self.in_sync - self._doubted) >= self._members_min,
    )


def a_lease_need_not_be_proven(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registration, "is_proven", lambda self: True)


def a_lease_is_proven_at_the_append_alone(patch: pytest.MonkeyPatch) -> None:
    """And not when the records are on disk, long after it."""
    shortcut = router.ProduceShortcut
    patch.setattr(
        router, "ProduceShortcut", lambda held, *rest: shortcut({}, *rest)
    )  # all through the handler
    patch.setattr(produce, "_leads_for_certain", lambda *_: True)


def a_doubt_is_not_stored(patch: pytest.MonkeyPatch) -> None:
    async def silent(*_: Any) -> None:
        pass

    patch.setattr("tidelog.app.lifecycle.report", silent)


def offsets_behind_the_end_of_their_transaction_are_taken(patch: pytest.MonkeyPatch) -> None:
    """What was verified may have been aborted by the time it is written."""
    patch.setattr(in_transaction, "verification_guard", lambda *_, **__: 0)


def offsets_go_by_the_name_of_their_topic(patch: pytest.MonkeyPatch) -> None:
    """Those of a topic that was deleted while nobody had the group's state are told of the next one of its name."""
    patch.setattr(offset_commits, "of_replaced_topics", lambda machine, present: [])
    patch.setattr(offset_commits, "is_of", lambda known, topic_id: True)


def restored_metadata_are_taken_for_new(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KnownRevision, "was_rolled_back", lambda self, told: False)


def a_change_is_over_before_it_is_applied(patch: pytest.MonkeyPatch) -> None:
    """The leader goes by the in-sync set that it knew before, while another one is stored."""
    change_in_sync, reached = Controller.change_in_sync, Controller.reached
    hurried: set[asyncio.Task[Any] | None] = set()

    async def change(self: Controller, changes: Any) -> None:
        hurried.add(task := asyncio.current_task())
        try:
            await change_in_sync(self, changes)
        finally:
            hurried.discard(task)

    async def not_waited_for(self: Controller, revision: int) -> None:
        if asyncio.current_task() not in hurried:
            await reached(self, revision)

    patch.setattr(Controller, "change_in_sync", change)
    patch.setattr(Controller, "reached", not_waited_for)


def a_join_does_not_compare_the_registration(patch: pytest.MonkeyPatch) -> None:
    """A request for an earlier process of the follower lets this one join."""
    change_in_sync = Controller._change_in_sync

    def whoever(self: Controller, changes: Any, image: Image) -> tuple[None, Swap]:
        _, swap = change_in_sync(self, changes, image)
        return None, Swap([one for one in swap.compare if one.key.startswith(PARTITIONS)], swap.then)

    patch.setattr(Controller, "_change_in_sync", whoever)


def a_full_disk_counts_as_a_failed_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(volume, "FULL", frozenset())


def a_damaged_replica_goes_on(patch: pytest.MonkeyPatch) -> None:
    """It stays in sync, may be elected, is fetched into, and nobody repairs it."""

    async def kept(*_: Any) -> bool:
        return False

    patch.setattr(Controller, "give_up", kept)
    patch.setattr(replica_fetcher, "is_unfit", is_offline)
    patch.setattr(Repair, "look", kept)
