"""The simulated cluster finds what it is there for: each mistake, planted into replication, breaks a run within a few
seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.cluster.play import Profile, play
from tests.simulation.cluster.trouble import (
    broker_is_cut_off,
    broker_is_killed,
    broker_stops_in_order,
    brokers_are_cut_apart,
    machine_loses_power,
    store_is_cut_off,
)
from tests.simulation.history import OneValuePerOffset
from tests.simulation.invariants import Violated
from tests.simulation.producers import StateForgotten
from tests.simulation.readers import Unreadable
from tidelog.app import replica_condition
from tidelog.metadata import active_controller
from tidelog.metadata.elections import elections
from tidelog.replication import replica_fetcher
from tidelog.replication.follower_fetch import Wanted
from tidelog.replication.partition import HostedPartition
from tidelog.replication.replica_state import ReplicaState
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.leader_epochs import Epochs
from tidelog.storage.recovery import loading, recovery
from tidelog.types import Epoch, NodeId

SEEDS = range(240)
NO_EPOCH = -1
CUTS = Profile(
    troubles=(broker_is_cut_off, brokers_are_cut_apart, store_is_cut_off, broker_is_killed), topics=("plain",)
)
STOPS = Profile(troubles=(broker_is_killed, broker_stops_in_order), topics=("plain",))
POWER = Profile(troubles=(machine_loses_power,), topics=("plain",))
# With a record to a batch, what a follower has too much never ends in the middle of a leader's batch: it is not stopped
# by that, and goes on behind records that nobody else has.
LONELY = Profile(troubles=(broker_is_cut_off, broker_is_killed), topics=("plain",), batch_sizes=(1,))
KILLED = Profile(troubles=(broker_is_killed,), topics=("plain",), batch_sizes=(1,))

Plant = Callable[[pytest.MonkeyPatch], None]


def a_write_is_acknowledged_before_it_is_replicated(patch: pytest.MonkeyPatch) -> None:
    def count(self: ReplicaState) -> bool:
        return self.count(frozenset((self.node,)), True)

    patch.setattr(ReplicaState, "_count", count)


def epochs_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    """Neither the one a follower asks in, nor that of the last record it has."""
    patch.setattr(HostedPartition, "check_epoch", lambda self, epoch, leading=True: None)
    patch.setattr(
        replica_fetcher,
        "Wanted",
        lambda epoch, offset, last_epoch, start: Wanted(epoch, offset, NO_EPOCH, start),
    )


def a_follower_cuts_its_log_to_what_it_knows_to_be_committed(patch: pytest.MonkeyPatch) -> None:
    led = HostedPartition.led

    def cut(self: HostedPartition, leader: Any, epoch: Epoch, *others: Any) -> None:
        led(self, leader, epoch, *others)
        if leader != self.state.node and self.log.next == self.log.end:
            self.truncate_to(self.state.committed)

    patch.setattr(HostedPartition, "led", cut)


def a_follower_joins_the_in_sync_set_before_it_has_caught_up(patch: pytest.MonkeyPatch) -> None:
    def soon(self: ReplicaState, node: NodeId) -> bool:
        return node not in self.in_sync and self.follower_end(node) is not None

    patch.setattr(ReplicaState, "caught_up", soon)


def an_election_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    due = elections.due

    def kept(image: Any, topics: Any, unclean: Any) -> Any:
        for state in due(image, topics, unclean):
            topic = image.topic_by_id(state.topic_id)
            epoch = topic.partitions[state.index].leader_epoch
            yield state._replace(record=state.record._replace(leader_epoch=epoch))

    patch.setattr(active_controller, "due", kept)


def an_epoch_is_not_persisted(patch: pytest.MonkeyPatch) -> None:
    """A broker that starts again does not know in which epochs its records were written."""
    for module in (loading, recovery):
        patch.setattr(module, "read_epochs", lambda disk, folder: Epochs())


def a_power_cut_is_not_owned_up_to(patch: pytest.MonkeyPatch) -> None:
    """Nor does the broker wait for the lease of its last life, as a machine that went down should."""
    patch.setattr(replica_condition, "_cause_of", lambda where, known: None)
    patch.setattr(LogDirs, "home_id", "the same")


LOST = {"AcknowledgedSurvives", "ShownStays", "CommittedNeverBack", "CommittedIsHeldByAll", "Unreadable"}
PARTED = {*LOST, "LogsAgree", "OneValuePerOffset", "IdempotentOnce", "PrefixOfHistory", "OffsetsDense"}
PLANTED: dict[Plant, tuple[Profile, set[str]]] = {
    a_write_is_acknowledged_before_it_is_replicated: (CUTS, PARTED),
    epochs_are_not_checked: (LONELY, PARTED),
    a_follower_cuts_its_log_to_what_it_knows_to_be_committed: (STOPS, LOST),
    a_follower_joins_the_in_sync_set_before_it_has_caught_up: (CUTS, PARTED),
    an_election_keeps_the_epoch: (STOPS, {*PARTED, "OneLeaderPerEpoch"}),
    an_epoch_is_not_persisted: (KILLED, PARTED),
    a_power_cut_is_not_owned_up_to: (POWER, {*PARTED, "StateForgotten"}),
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_mistake_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it breaks: a cluster that only stands still has kept its promises."""
    plant(monkeypatch)
    profile, expected = PLANTED[plant]
    others: Counter[str] = Counter()
    for seed in SEEDS:
        try:
            play(seed, profile)
        except (Violated, Unreadable, StateForgotten, OneValuePerOffset) as problem:
            names = problem.names if isinstance(problem, Violated) else {type(problem).__name__}
            if names & expected:
                return
            others.update(names)
    pytest.fail(f"not found in {len(SEEDS)} seeds, which found {dict(others)}")
