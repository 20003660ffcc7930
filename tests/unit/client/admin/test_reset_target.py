from __future__ import annotations

import pytest

from tidelog.client.admin.reset_target import LogBounds, NothingToShift, ResetTarget, placed
from tidelog.types import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOUNDS = {P0: LogBounds(10, 100), P1: LogBounds(0, 5)}


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (ResetTarget("earliest"), {P0: 10, P1: 0}),
        (ResetTarget("latest"), {P0: 100, P1: 5}),
        (ResetTarget("offset", 50), {P0: 50, P1: 5}),
        (ResetTarget("offset", 3), {P0: 10, P1: 3}),
        (ResetTarget("shift", -7), {P0: 43, P1: 0}),
        (ResetTarget("shift", 1000), {P0: 100, P1: 5}),
        (ResetTarget("time", 1), {P0: 77, P1: 5}),
    ],
)
def test_a_reset_stays_within_the_logs(target: ResetTarget, after: dict[TopicPartition, int]) -> None:
    assert placed(target, [P0, P1], {P0: 50, P1: 4}, BOUNDS, {P0: 77, P1: -1}) == after


def test_what_was_never_committed_cannot_be_shifted() -> None:
    with pytest.raises(NothingToShift, match="t-1"):
        placed(ResetTarget("shift", 1), [P0, P1], {P0: 50}, BOUNDS, {})
