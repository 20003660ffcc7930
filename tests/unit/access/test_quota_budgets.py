"""Budgets that sessions share: grants to hot paths, what waits they bring, and that few are kept."""

from __future__ import annotations

import pytest

from tidelog.access.quota_budgets import ByteBudget, MutationBudget, QuotaUses, TimeBudget
from tidelog.access.quotas import QuotaLimit, QuotaWindows

WINDOWS = QuotaWindows()
SPAN_MS = WINDOWS.number * WINDOWS.size_ms


class Holder:
    def __init__(self) -> None:
        self.produce_bytes_left = 0


def test_a_grant_is_used_without_asking_and_settled_with_the_next_charge() -> None:
    budget, holder = ByteBudget(10_000, WINDOWS), Holder()
    budget.charge_holder(holder, 100, 0)
    granted = holder.produce_bytes_left
    assert 0 < granted <= 1000
    holder.produce_bytes_left -= granted  # on the hot path
    assert budget.charge_holder(holder, 0, 0) == 0
    # All windows hold 100,000 bytes: what was granted counts as used.
    assert budget.charge_holder(holder, 100_000 - 100 - granted, 0) == 0
    assert budget.charge_holder(holder, 10_000, 0) == pytest.approx(1000, abs=1)


def test_grants_that_are_not_used_come_back_when_others_need_them() -> None:
    budget, holders = ByteBudget(8_000, WINDOWS), [Holder() for _ in range(5)]
    for holder in holders:
        budget.charge_holder(holder, 1, 0)
    assert any(holder.produce_bytes_left for holder in holders)
    other = Holder()
    assert budget.charge_holder(other, 80_000 - 5, 0) == 0
    assert [holder.produce_bytes_left for holder in holders] == [0] * 5
    assert budget.charge_holder(other, 8_000, 0) == pytest.approx(1000, abs=1)


def test_a_holder_that_leaves_gives_back_what_it_has_left() -> None:
    budget, holder = ByteBudget(8_000, WINDOWS), Holder()
    budget.charge_holder(holder, 1, 0)
    assert holder.produce_bytes_left > 0
    budget.leave(holder)
    assert holder.produce_bytes_left == 0
    budget.leave(holder)  # nothing twice
    assert budget.charge(79_999, 0) == 0
    assert budget.charge(80, 0) > 0


def test_above_the_quota_nothing_is_granted_until_the_wait_is_over() -> None:
    budget, holder = ByteBudget(1_000, WINDOWS), Holder()
    wait_ms = budget.charge_holder(holder, 12_000, 0)
    assert wait_ms == pytest.approx(2000, abs=1)
    assert holder.produce_bytes_left == 0
    # As in Kafka, empty windows before the first record count: the burst is forgotten with its window.
    assert budget.over_ms(SPAN_MS - 1) > 0
    assert budget.over_ms(SPAN_MS) == 0


def test_another_quota_holds_at_once_and_forgives_nothing() -> None:
    budget, holder = ByteBudget(1_000, WINDOWS), Holder()
    assert budget.charge_holder(holder, 9_000, 0) == 0
    assert holder.produce_bytes_left > 0
    budget.change(100, 0)
    assert holder.produce_bytes_left == 0
    assert budget.over_ms(0) > 10_000


def test_time_is_measured_in_percent_of_a_thread_and_waits_are_one_window_at_most() -> None:
    budget = TimeBudget(50, WINDOWS)
    assert budget.charge(5_000_000_000, 0) == 0  # 50% of all windows
    assert budget.charge(100_000_000, 0) == pytest.approx(200, abs=1)
    assert budget.charge(60_000_000_000, 0) == WINDOWS.size_ms


def test_mutations_are_refused_or_overdrawn() -> None:
    budget = MutationBudget(1, WINDOWS, 0)
    assert budget.charge(12, True, 0) == 0  # 11 are there, and one change may overdraw
    assert budget.charge(1, True, 0) == 1000
    assert budget.charge(1, False, 0) == 2000
    assert budget.charge(1, True, 2000) == 0


def test_all_that_share_a_quota_have_one_budget() -> None:
    uses = QuotaUses(lambda rate, _: ByteBudget(rate, WINDOWS))
    ann = uses.of(QuotaLimit(10, ("ann", "")), 0, SPAN_MS)
    assert uses.of(QuotaLimit(10, ("ann", "")), 5, SPAN_MS) is ann
    assert uses.of(QuotaLimit(10, ("bob", "")), 5, SPAN_MS) is not ann
    assert ann.charge(100, 5) == 0
    assert uses.of(QuotaLimit(1, ("ann", "")), 5, SPAN_MS) is ann
    assert ann.over_ms(5) > 0


def test_ids_by_the_thousand_share_one_budget_when_there_is_no_room() -> None:
    uses = QuotaUses(lambda rate, _: ByteBudget(rate, WINDOWS), budgets_max=3)
    first = [uses.of(QuotaLimit(10, ("", str(n))), 0, SPAN_MS) for n in range(3)]
    others = [uses.of(QuotaLimit(10, ("", str(n))), 1, SPAN_MS) for n in range(3, 50)]
    assert len(uses) <= 4
    assert len({id(budget) for budget in others}) == 1
    # What was not used for as long as rates look back is as good as new.
    later = uses.of(QuotaLimit(10, ("", "x")), SPAN_MS + 1, SPAN_MS)
    assert later not in first
    assert len(uses) == 1
