"""When a token is renewed, and when a provider is asked again."""

from __future__ import annotations

import pytest

from tidelog.config.oauth import LoginRefresh
from tidelog.net.login_refresh import refresh_after_s, retry_after_s


@pytest.mark.parametrize(
    ("life_s", "chance", "refresh", "after_s"),
    [
        (3600, 0.0, LoginRefresh(), 2880),
        (3600, 1.0, LoginRefresh(), 3060),
        (1000, 1.0, LoginRefresh(), 700),  # the buffer of 300 s begins then
        (1000, 0.0, LoginRefresh(window_factor=0.01), 60),  # the least period
        (120, 0.0, LoginRefresh(), 96),  # shorter than least period and buffer together: neither counts
        (120, 0.0, LoginRefresh(min_period_s=30, buffer_s=60), 60),
        (0, 1.0, LoginRefresh(), 0),
        (100, 0.0, LoginRefresh(window_factor=-1), 0),
    ],
)
def test_a_token_is_renewed_after_its_share_of_life(
    life_s: float, chance: float, refresh: LoginRefresh, after_s: float
) -> None:
    assert refresh_after_s(life_s, refresh, chance) == pytest.approx(after_s)


def test_a_provider_that_fails_is_asked_less_and_less_often() -> None:
    refresh = LoginRefresh(retry_ms=100, retry_ms_max=1000)
    assert [retry_after_s(failures, refresh) for failures in (1, 2, 3, 4, 5, 1000)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.0,
        1.0,
    ]
