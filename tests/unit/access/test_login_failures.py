from __future__ import annotations

from tidelog.access.login_failures import ADDRESSES_MAX, FACTOR_MAX, LoginFailures


def test_refusals_wait_longer_and_longer_until_a_minute_has_passed() -> None:
    failures = LoginFailures()
    factors = [failures.failed("a", now_ms) for now_ms in range(12)]
    assert factors == [1, 1, 1, 1, 1, 2, 4, 8, 16, FACTOR_MAX, FACTOR_MAX, FACTOR_MAX]
    assert failures.failed("b", 12) == 1
    assert failures.failed("a", 60_100) == 1


def test_the_table_is_bounded() -> None:
    failures = LoginFailures()
    for number in range(ADDRESSES_MAX + 10):
        failures.failed(str(number), 0)
    assert len(failures._times) == ADDRESSES_MAX
