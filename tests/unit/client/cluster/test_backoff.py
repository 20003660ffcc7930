from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.cluster.backoff import JITTER, Backoff


class Middle:
    """A chance without surprises."""

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2


def test_waits_double_up_to_the_bound_and_start_over_after_success() -> None:
    backoff = Backoff(100, 1000, Middle())
    assert [backoff.failed() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]
    backoff.succeeded()
    assert backoff.failed() == 100


@given(
    first=st.integers(1, 10_000), most=st.integers(1, 100_000), times=st.integers(1, 200), seed=st.integers()
)
def test_a_wait_is_never_far_from_its_bounds(first: int, most: int, times: int, seed: int) -> None:
    backoff = Backoff(first, most, Random(seed))
    for _ in range(times):
        wait = backoff.failed()
        assert first * (1 - JITTER) <= wait <= max(first, most) * (1 + JITTER)
