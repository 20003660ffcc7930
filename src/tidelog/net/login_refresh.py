"""When a token is renewed, and when a provider that failed is asked again.  Pure: time and chance are passed in."""

from __future__ import annotations

from tidelog.config.oauth import LoginRefresh


def refresh_after_s(life_s: float, refresh: LoginRefresh, chance: float) -> float:
    """How long a fresh token is used before the next one is asked for; `chance`: from 0 to 1.

    Least period and buffer count only for tokens that live longer than both, as in Kafka: a token of 2 minutes is
    renewed after its share of them."""
    after_s = life_s * (refresh.window_factor + refresh.window_jitter * chance)
    if life_s < refresh.min_period_s + refresh.buffer_s:
        return max(0.0, after_s)
    return max(min(after_s, life_s - refresh.buffer_s), refresh.min_period_s)


def retry_after_s(failures: int, refresh: LoginRefresh) -> float:
    """`failures`: how many there were one after the other, at least 1."""
    return min(refresh.retry_ms << min(failures - 1, 30), refresh.retry_ms_max) / 1000
