"""The concurrent play finds what it is there for: each mistake, planted into the running code, breaks a run within the
number of seeds stated here.  `test_planted_mistakes` has those that one trouble after the other finds."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from tests.simulation.cluster.concurrent import plants
from tests.simulation.cluster.concurrent.joins import (
    follower_loses_power_while_it_joins,
    leader_is_late_to_learn_of_a_join,
)
from tests.simulation.cluster.concurrent.machines import (
    broker_is_restarted,
    brokers_are_restarted_in_turn,
    some_brokers_are_killed,
)
from tests.simulation.cluster.concurrent.plants import Plant
from tests.simulation.cluster.concurrent.play import Profile, play
from tests.simulation.cluster.concurrent.surroundings import (
    disk_is_replaced,
    leader_is_alone_with_its_clients,
    lines_hang,
    store_is_restored,
)
from tests.simulation.cluster.concurrent.troubles import ALL, LINES, POWER, PROCESSES, ROT, STORE
from tests.simulation.cluster.trouble import Trouble, disk_is_full
from tests.simulation.history import OneValuePerOffset
from tests.simulation.invariants import Violated
from tests.simulation.producers import StateForgotten
from tests.simulation.readers import Unreadable
from tidelog.testing import seeds

LOST = {
    "AcknowledgedSurvives",
    "CommittedNeverBack",
    "NoStaleEnd",
    "OneValuePerOffset",
    "PrefixOfHistory",
    "ShownStays",
    "StateForgotten",
    "Unreadable",
}
ELECTED = {"DoubtedNeverLead", "DoubtedNeverServe", "AllHoldersReport", "LongestLogLeads", "OnlyHoldersLead"}


class Found(NamedTuple):
    """By which invariants, within how many seeds, and by which kinds of trouble."""

    by: set[str]
    seeds: int
    troubles: tuple[tuple[Trouble, ...], ...] = ALL
    clients: tuple[str, ...] = ()


RESTARTS = (some_brokers_are_killed, broker_is_restarted, brokers_are_restarted_in_turn)
FULL = ((disk_is_full,), PROCESSES)
RESTORED = ((store_is_restored,), POWER, PROCESSES)
PLANTED: dict[Plant, Found] = {
    plants.a_leader_leads_on_after_a_power_cut: Found(LOST | ELECTED, 20),
    plants.a_doubt_is_not_stored: Found(LOST | ELECTED, 20),
    plants.doubts_of_others_are_forgotten: Found(LOST | ELECTED, 20),
    plants.the_best_log_is_chosen_before_all_have_reported: Found(LOST | ELECTED, 20),
    plants.the_last_that_reports_leads: Found(LOST | ELECTED, 20),
    plants.a_missing_log_is_not_reported: Found(LOST | ELECTED, 40, (POWER, PROCESSES)),
    plants.a_new_directory_is_as_good_as_the_old_one: Found(LOST | ELECTED, 40, (POWER, (disk_is_replaced,))),
    plants.a_log_made_anew_passes_for_the_one_that_was_missing: Found(
        LOST | ELECTED, 40, ((disk_is_replaced,), RESTARTS)
    ),
    plants.the_controller_shrinks_in_sync_sets: Found({"OnlyTheLeaderShrinks", *LOST}, 20),
    plants.members_stay_eligible_while_more_is_committed: Found({"StandsStillWhileEligible", *LOST}, 20),
    plants.restored_metadata_are_taken_for_new: Found(LOST, 40, RESTORED),
    plants.offsets_go_by_the_name_of_their_topic: Found(
        {"OffsetsStayWithTheirTopic"}, 30, (POWER, PROCESSES), ("fleeting",)
    ),
    plants.offsets_behind_the_end_of_their_transaction_are_taken: Found(
        {"AbortedOffsetsStayAway"}, 120, ((lines_hang,),), ("offsets",)
    ),
    plants.a_lease_need_not_be_proven: Found({"NothingLostWithoutLease"}, 60, (STORE, LINES)),
    plants.a_lease_is_proven_at_the_append_alone: Found(
        {"NothingLostWithoutLease"}, 60, ((leader_is_alone_with_its_clients,),)
    ),
    plants.a_change_is_over_before_it_is_applied: Found(
        {"CommittedIsHeldByAll", *LOST}, 20, ((leader_is_late_to_learn_of_a_join,),)
    ),
    plants.a_join_does_not_compare_the_registration: Found(
        {"CommittedIsHeldByAll", *LOST}, 60, ((follower_loses_power_while_it_joins,),)
    ),
    plants.a_full_disk_counts_as_a_failed_one: Found({"FullDisksStayOnline"}, 20, FULL, ("transactions",)),
    plants.a_damaged_replica_goes_on: Found({"DamagedNotInSync", *LOST}, 20, (ROT, PROCESSES)),
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_mistake_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    expected = PLANTED[plant]
    profile = _profile(expected)
    others: Counter[str] = Counter()
    for seed in range(expected.seeds):
        try:
            play(seed, profile)
        except (Violated, Unreadable, StateForgotten, OneValuePerOffset) as problem:
            names = problem.names if isinstance(problem, Violated) else {type(problem).__name__}
            if names & expected.by:
                return
            others.update(names)
    pytest.fail(f"not found in {expected.seeds} seeds, which found {dict(others)}")


@pytest.mark.parametrize("seed", seeds(10))
def test_without_the_mistake_full_disks_stay_online(seed: int) -> None:
    play(seed, _profile(PLANTED[plants.a_full_disk_counts_as_a_failed_one]))


def _profile(expected: Found) -> Profile:
    return Profile(
        clients=expected.clients,
        client_chance=1.0,
        troubles=expected.troubles,
        judge_full_disks="FullDisksStayOnline" in expected.by,
    )
