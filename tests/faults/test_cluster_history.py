"""The checker of histories finds every anomaly that is planted in a history that had none."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from tests.faults.cluster_history import (
    ABORTED,
    COMMITTED,
    COMMITTED_ONLY,
    UNCOMMITTED_TOO,
    UNKNOWN,
    History,
    LateRead,
    OffsetCommit,
    OffsetRead,
    ShareDeliveries,
    Shown,
    Transaction,
    Written,
)


def sound() -> History:
    """Two partitions: a producer wrote 0a, 0b and 1a, one transaction was committed, one aborted, one is unknown."""
    everything = {0: [(0, b"0a"), (1, b"c0"), (3, b"0b"), (4, b"no")], 1: [(0, b"1a"), (1, b"c1")]}
    visible = {0: [(0, b"0a"), (1, b"c0"), (3, b"0b")], 1: [(0, b"1a"), (1, b"c1")]}
    acknowledged = {(0, 0): b"0a", (0, 3): b"0b", (1, 0): b"1a"}
    return History(
        [Written("w", {0: [b"0a", b"0b"], 1: [b"1a"]}, acknowledged)],
        [
            Transaction(COMMITTED, [b"c0", b"c1"], {(0, 1): b"c0", (1, 1): b"c1"}),
            Transaction(ABORTED, [b"no"], {(0, 4): b"no"}),
            Transaction(UNKNOWN, [b"u0", b"u1"]),
        ],
        [
            Shown(COMMITTED_ONLY, copy.deepcopy(visible)),
            Shown(UNCOMMITTED_TOO, copy.deepcopy(everything)),
        ],
        {COMMITTED_ONLY: visible, UNCOMMITTED_TOO: everything},
        [LateRead(UNCOMMITTED_TOO, {(0, 0): b"0a"}, {(0, 0): b"0a", (0, 1): b"c0"})],
        [
            OffsetCommit(0, 5, 1.0, 2.0),
            OffsetCommit(0, 6, 3.0, None),
            OffsetCommit(1, 3, 1.0, 6.0, repeated=True),
            OffsetCommit(1, 4, 7.0, 7.1),
        ],
        [
            OffsetRead(0, -1, 0.0, 0.5),
            OffsetRead(0, 5, 2.5, 2.6),
            OffsetRead(0, 6, 3.5, 3.6),
            OffsetRead(1, 3, 8.0, 8.1),
        ],
        ShareDeliveries({(0, 0), (0, 3), (1, 0)}),
        {0: {1: b"log", 2: b"log", 3: b"log"}},
    )


def lost_write(history: History) -> None:
    for records in history.found.values():
        records[0].remove((3, b"0b"))
    history.shown = ()


def lost_write_without_an_offset(history: History) -> None:
    history.written[0].somewhere = [(0, b"0c")]


def given_up(history: History) -> None:
    history.written[0].failed = ["timed out"]


def moved_write(history: History) -> None:
    for records in history.found.values():
        records[1][:] = [(2, b"1a"), (3, b"c1")]
    history.shown = ()


def lost_write_of_a_transaction(history: History) -> None:
    history.found[UNCOMMITTED_TOO][0].remove((4, b"no"))
    history.shown = ()


def duplicate(history: History) -> None:
    for records in history.found.values():
        records[1].append((2, b"c1"))
    history.shown = ()


def reordering(history: History) -> None:
    history.written[0].sent = {0: [b"0b", b"0a"], 1: [b"1a"]}


def hole_in_what_was_sent(history: History) -> None:
    history.written[0].sent = {0: [b"0a", b"0x", b"0b"], 1: [b"1a"]}


def two_values_at_an_offset(history: History) -> None:
    history.shown = [Shown(UNCOMMITTED_TOO, {**history.found[UNCOMMITTED_TOO], 1: [(0, b"1x"), (1, b"c1")]})]


def step_over(history: History) -> None:
    history.shown = [Shown(COMMITTED_ONLY, {**history.found[COMMITTED_ONLY], 1: [(1, b"c1")]})]


def step_back(history: History) -> None:
    seen = history.found[UNCOMMITTED_TOO]
    history.shown = [Shown(UNCOMMITTED_TOO, {**seen, 1: [*seen[1], *seen[1]]})]


def differing_replicas(history: History) -> None:
    history.logs = {0: {1: b"log", 2: b"log", 3: b"lo"}}


def aborted_read(history: History) -> None:
    history.found[COMMITTED_ONLY][0].append((4, b"no"))
    history.shown = ()


def aborted_read_meanwhile(history: History) -> None:
    seen = history.found[COMMITTED_ONLY]
    history.shown = [Shown(COMMITTED_ONLY, {**seen, 0: [*seen[0], (4, b"no")]})]


def torn_transaction(history: History) -> None:
    history.found[COMMITTED_ONLY][1].remove((1, b"c1"))
    history.shown = ()


def torn_transaction_of_unknown_outcome(history: History) -> None:
    for records in history.found.values():
        records[1].append((3, b"u0"))
    history.shown = ()


def stale_read(history: History) -> None:
    history.late_reads = [LateRead(UNCOMMITTED_TOO, {(0, 3): b"0b"}, {(0, 0): b"0a"})]


def stale_offset(history: History) -> None:
    history.offset_reads = [OffsetRead(0, 4, 2.5, 2.6)]


def forgotten_offset(history: History) -> None:
    history.offset_reads = [OffsetRead(0, -1, 2.5, 2.6)]


def offset_of_nobody(history: History) -> None:
    history.offset_reads = [OffsetRead(0, 6, 2.5, 2.6)]


def undelivered(history: History) -> None:
    history.share = ShareDeliveries({(0, 0), (0, 3)})


def delivered_after_its_acknowledgement(history: History) -> None:
    history.share = ShareDeliveries({(0, 0), (0, 3), (1, 0)}, [(1, 0)])


def broken_client(history: History) -> None:
    history.broken = ["t0 broke"]


PLANTED: list[tuple[Callable[[History], None], str]] = [
    (lost_write, "(0, 3) was acknowledged as b'0b' and is None"),
    (lost_write_without_an_offset, "b'0c' was acknowledged and cannot be read"),
    (given_up, "a record was given up: timed out"),
    (moved_write, "(1, 0) was acknowledged as b'1a' and is None"),
    (lost_write_of_a_transaction, "(0, 4) was acknowledged as b'no' and is None"),
    (duplicate, "b'c1' is at [(1, 1), (1, 2)]"),
    (reordering, "partition 0: records of w are missing or out of order"),
    (hole_in_what_was_sent, "partition 0: records of w are missing or out of order"),
    (two_values_at_an_offset, "first difference: [(0, b'1x'), (1, b'c1')] for [(0, b'1a'), (1, b'c1')]"),
    (step_over, "partition 1, read_committed: shown 1 records, 2 are there"),
    (step_back, "partition 1, read_uncommitted: shown 4 records, 2 are there"),
    (differing_replicas, "partition 0: the replicas' files differ (bytes: {1: 3, 2: 3, 3: 2})"),
    (aborted_read, "was aborted and has been read"),
    (aborted_read_meanwhile, "was aborted and has been read"),
    (torn_transaction, "was committed and 1 of its records can be read"),
    (torn_transaction_of_unknown_outcome, "is half there"),
    (stale_read, "a read_uncommitted reader that began after that came upon None"),
    (stale_offset, "was read as 4; 5 had been committed"),
    (forgotten_offset, "was read as -1; 5 had been committed"),
    (offset_of_nobody, "was read as 6; 5 had been committed, 5 was the last"),
    (undelivered, "1 records of w were not delivered, the first is (1, 0)"),
    (delivered_after_its_acknowledgement, "(1, 0) was delivered after its acknowledgement"),
    (broken_client, "t0 broke"),
]


def test_a_sound_history_has_no_anomaly() -> None:
    assert sound().anomalies() == []


@pytest.mark.parametrize(("plant", "words"), PLANTED, ids=lambda each: getattr(each, "__name__", ""))
def test_a_planted_anomaly_is_found(plant: Callable[[History], None], words: str) -> None:
    history = sound()
    plant(history)
    assert any(words in anomaly for anomaly in history.anomalies()), history.anomalies()
