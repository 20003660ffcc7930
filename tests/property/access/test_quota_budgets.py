"""Whatever many sessions do, together they stay within their quota."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.access.quota_budgets import ByteBudget
from tidelog.access.quotas import QuotaWindows

REQUEST_MAX = 3_000
SESSIONS = 4

# (session, bytes, milliseconds until the next request)
steps = st.lists(
    st.tuples(st.integers(0, SESSIONS - 1), st.integers(1, REQUEST_MAX), st.integers(0, 400)),
    max_size=200,
)


class Client:
    def __init__(self) -> None:
        self.produce_bytes_left = 0
        self.muted_until_ms = 0


@given(
    st.integers(200, 50_000), st.integers(2, 12), st.sampled_from([100, 500, 1000]), st.integers(0, 10), steps
)
def test_a_rate_exceeds_the_quota_by_no_more_than_the_burst(
    per_second: int, number: int, size_ms: int, start_s: int, asked: list[tuple[int, int, int]]
) -> None:
    """In any time T, at most what T and all windows hold is taken, and the requests that overdrew."""
    windows = QuotaWindows(number, size_ms)
    budget, clients = ByteBudget(per_second, windows), [Client() for _ in range(SESSIONS)]
    now_ms = start_s * 1000
    taken: list[tuple[int, int]] = []
    for at, size, wait_ms in asked:
        now_ms += wait_ms
        client = clients[at]
        if now_ms < client.muted_until_ms:
            continue
        taken.append((now_ms, size))
        if client.produce_bytes_left >= size:
            client.produce_bytes_left -= size
        else:
            client.muted_until_ms = now_ms + budget.charge_holder(client, size, now_ms)
    held_ms = number * size_ms
    # Each session may overdraw once, and a tenth of a second is granted ahead.
    overdrawn = SESSIONS * REQUEST_MAX + per_second / 10 + SESSIONS
    for first in range(0, len(taken), 7):
        total = 0
        for when_ms, size in taken[first:]:
            total += size
            span_ms = when_ms - taken[first][0]
            assert total <= per_second * (span_ms + held_ms) / 1000 + overdrawn


@given(steps)
def test_what_is_granted_is_neither_lost_nor_made(asked: list[tuple[int, int, int]]) -> None:
    windows = QuotaWindows()
    shared, plain = ByteBudget(20_000, windows), ByteBudget(20_000, windows)
    clients = [Client() for _ in range(SESSIONS)]
    for at, size, _ in asked:
        client = clients[at]
        plain.charge(size, 0)
        if client.produce_bytes_left >= size:
            client.produce_bytes_left -= size
        else:
            shared.charge_holder(client, size, 0)
    for client in clients:
        shared.leave(client)
    # At one instant, both have the same left: one byte more than that throttles.
    assert shared.charge(1_000_000, 0) == plain.charge(1_000_000, 0)
