"""The simulator finds what it is there for: each mistake, planted into the broker, breaks a run within a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.invariants import Violated
from tests.simulation.play import Profile, play
from tests.simulation.producers import StateForgotten
from tests.simulation.readers import Unreadable
from tests.simulation.trouble import End
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.disk import Disk
from tidelog.storage.flush.flusher import Flusher
from tidelog.storage.integrity import scan
from tidelog.storage.producer_state import snapshots
from tidelog.storage.producer_state.producers import CorruptSnapshot, Producers
from tidelog.storage.recovery.recovery import Recovery
from tidelog.storage.segments.segment import Segment
from tidelog.testing import VirtualDisk

SEEDS = range(60)
POWER = Profile(ends=(End.POWER, End.POWER_IN_WRITE), topics=("cached", "sometimes"))
TORN = Profile(ends=(End.POWER_IN_WRITE,), topics=("cached",))
BOTH = Profile(ends=(End.KILL, End.POWER), topics=("cached",))
KILLS = Profile(ends=(End.KILL, End.KILL_IN_WRITE))
PAUSES = Profile(ends=(End.POWER,), topics=("cached",), pause_chance=1)

Plant = Callable[[pytest.MonkeyPatch], None]


def no_sync_before_the_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flusher, "_sync", lambda self, plans: None)


def folders_are_never_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VirtualDisk, "sync_folder", lambda self, path: None)


def recovery_does_not_check_crcs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan, "crc_ok", lambda data, at=0: True)
    patch.setattr(scan, "large_crc_ok", lambda file, position, header: True)


def recovery_keeps_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    def keep(self: Recovery, segment: Segment, position: int) -> None:
        segment.size = segment.reserved = segment.file.size()

    patch.setattr(Recovery, "_cut", keep)


def recovery_overlooks_what_was_never_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "_gap", lambda self, segment, expected: False)


def recovery_forgets_to_sync_what_it_trusts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VirtualDisk, "sync_all", lambda self, path: None)


def a_checkpoint_runs_ahead_of_the_data(patch: pytest.MonkeyPatch) -> None:
    def gather(self: LogDirectory) -> None:
        for name, log in self.logs.items():
            self.volume.recovery_points.offsets[name] = log.end

    patch.setattr(LogDirectory, "gather", gather)


def any_producer_snapshot_is_believed(patch: pytest.MonkeyPatch) -> None:
    def load(
        disk: Disk, folder: str, names: Any, start: int, end: int, newest: int | None = None
    ) -> tuple[Producers, int]:
        for offset in reversed(snapshots.offsets_in(names)):
            producers = Producers()
            try:
                producers.restore(disk.read_file(snapshots.path_of(folder, offset)))
            except CorruptSnapshot:
                continue
            return producers, end
        return Producers(), end

    patch.setattr(snapshots, "load", load)


def repeated_batches_are_appended_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producers, "check", lambda self, header: None)


LOST = {"AcknowledgedSurvives", "ShownStays", "CommittedNeverBack"}
PLANTED: dict[Plant, tuple[Profile, set[str]]] = {
    no_sync_before_the_answer: (POWER, LOST),
    folders_are_never_synced: (POWER, {*LOST, "Unreadable"}),
    recovery_does_not_check_crcs: (TORN, {"Restarts", "Unreadable", "NoCorruptServed"}),
    recovery_keeps_a_torn_tail: (POWER, {"Restarts", "Unreadable", "NoCorruptServed", "OffsetsDense"}),
    recovery_overlooks_what_was_never_written: (KILLS, {"Unreadable", "OffsetsDense"}),
    recovery_forgets_to_sync_what_it_trusts: (BOTH, {*LOST, "Restarts", "Unreadable"}),
    a_checkpoint_runs_ahead_of_the_data: (PAUSES, {"Restarts", "Unreadable", "OffsetsDense"}),
    any_producer_snapshot_is_believed: (POWER, {"StateForgotten", "IdempotentOnce", "PrefixOfHistory"}),
    repeated_batches_are_appended_again: (KILLS, {"IdempotentOnce", "PrefixOfHistory"}),
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_mistake_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    profile, expected = PLANTED[plant]
    for seed in SEEDS:
        try:
            play(seed, profile)
        except (Violated, Unreadable, StateForgotten) as problem:
            names = problem.names if isinstance(problem, Violated) else {type(problem).__name__}
            assert names & expected, f"found as {names}"
            return
    pytest.fail(f"not found in {len(SEEDS)} seeds")
