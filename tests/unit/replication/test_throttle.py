from __future__ import annotations

import pytest

from tidelog.replication.throttle import NO_LIMIT, WAIT_MS_MAX, Throttle, throttled


@pytest.mark.parametrize(
    ("listed", "index", "node", "expected"),
    [
        ((), 0, 1, False),
        (("*",), 7, 3, True),
        (("0:1", "1:2"), 1, 2, True),
        (("0:1", "1:2"), 1, 1, False),
        (("10:1",), 0, 1, False),
    ],
)
def test_a_replica_is_throttled_when_its_topic_lists_it(
    listed: tuple[str, ...], index: int, node: int, expected: bool
) -> None:
    assert throttled(listed, index, node) is expected


def test_without_a_rate_nothing_is_held_back() -> None:
    throttle = Throttle(lambda: NO_LIMIT)
    throttle.took(1 << 40, 0)
    assert throttle.left(0) == NO_LIMIT
    assert throttle.wait_ms(0) == 0


def test_what_was_taken_at_once_is_paid_for_by_waiting() -> None:
    throttle = Throttle(lambda: 1000)
    assert throttle.left(0) == 1000
    throttle.took(1500, 0)
    assert throttle.left(0) == -500
    assert throttle.wait_ms(0) == 502
    assert throttle.wait_ms(490) == 12
    assert throttle.left(502) > 0


def test_no_more_than_a_seconds_worth_is_saved_up() -> None:
    throttle = Throttle(lambda: 1000)
    throttle.took(1000, 0)
    assert throttle.left(60_000) == 1000


def test_over_time_the_rate_is_kept_whatever_is_taken_at_once() -> None:
    throttle, now_ms, taken = Throttle(lambda: 10_000), 0, 0
    for size in (1, 30_000, 999, 12_345, 7) * 20:
        now_ms += throttle.wait_ms(now_ms)
        while throttle.left(now_ms) <= 0:
            now_ms += throttle.wait_ms(now_ms)
        throttle.took(size, now_ms)
        taken += size
    assert taken - 40_000 <= now_ms * 10 <= taken


def test_a_new_rate_holds_at_once() -> None:
    rate = 1000
    throttle = Throttle(lambda: rate)
    throttle.took(2000, 0)
    rate = 100_000
    assert throttle.left(20) == 1000
    rate = NO_LIMIT
    assert throttle.left(20) == NO_LIMIT
    rate = 500
    assert throttle.left(30) == 500


def test_a_rate_of_zero_stops_and_is_asked_for_again() -> None:
    throttle = Throttle(lambda: 0)
    assert throttle.left(0) == 0
    assert throttle.wait_ms(10_000) == WAIT_MS_MAX
