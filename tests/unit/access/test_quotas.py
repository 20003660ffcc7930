"""Quotas: precedence, validation, rates and waits, with figures worked out from Kafka's formulas."""

from __future__ import annotations

import math

import pytest

from tidelog.access.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT_ENTITY,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaBudget,
    QuotaEntity,
    QuotaRate,
    Quotas,
    QuotaWindows,
    TokenBucket,
    check_entity,
    check_quota,
)
from tidelog.errors import InvalidRequest

ANYONE = DEFAULT_ENTITY
# The most specific first; what a quota is shared by.
LEVELS = {
    QuotaEntity("ann", "app"): ("ann", "app"),
    QuotaEntity("ann", ANYONE): ("ann", "app"),
    QuotaEntity("ann"): ("ann", ""),
    QuotaEntity(ANYONE, "app"): ("ann", "app"),
    QuotaEntity(ANYONE, ANYONE): ("ann", "app"),
    QuotaEntity(ANYONE): ("ann", ""),
    QuotaEntity(None, "app"): ("", "app"),
    QuotaEntity(None, ANYONE): ("", "app"),
}


def test_the_most_specific_quota_holds() -> None:
    entities = list(LEVELS)
    for at, entity in enumerate(entities):
        quotas = Quotas({one: {PRODUCER_BYTE_RATE: float(n)} for n, one in enumerate(entities) if n >= at})
        assert quotas.limit(PRODUCER_BYTE_RATE, "ann", "app") == (at, LEVELS[entity])
        assert quotas.limit(CONSUMER_BYTE_RATE, "ann", "app") is None


def test_a_quota_of_another_key_does_not_hide_a_less_specific_one() -> None:
    quotas = Quotas(
        {QuotaEntity("ann"): {REQUEST_PERCENTAGE: 5.0}, QuotaEntity(ANYONE): {PRODUCER_BYTE_RATE: 9.0}}
    )
    assert quotas.limit(PRODUCER_BYTE_RATE, "ann", "app") == (9.0, ("ann", ""))


def test_the_brokers_defaults_come_last() -> None:
    quotas = Quotas({QuotaEntity("ann"): {PRODUCER_BYTE_RATE: 5.0}}, producer_default=7.0)
    assert quotas.limit(PRODUCER_BYTE_RATE, "ann", "app") == (5.0, ("ann", ""))
    assert quotas.limit(PRODUCER_BYTE_RATE, "bob", "app") == (7.0, ("", "app"))
    assert quotas.limit(CONSUMER_BYTE_RATE, "bob", "app") is None


def test_connections_are_counted_by_address() -> None:
    quotas = Quotas({QuotaEntity(ip="10.0.0.1"): {CONNECTION_CREATION_RATE: 5.0}})
    assert quotas.connection_rate("10.0.0.1") == 5 and quotas.connection_rate("10.0.0.2") is None
    quotas = Quotas({QuotaEntity(ip=ANYONE): {CONNECTION_CREATION_RATE: 6.0}})
    assert quotas.connection_rate("10.0.0.1") == 6
    assert Quotas({}).connection_rate("10.0.0.1") is None


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"planet": "x"}, "Unhandled client quota entity type: planet"),
        ({"user": ""}, "Empty user not supported"),
        ({"ip": "10.0.0.1", "user": "ann"}, "IP entity shouldnot be combined"),
        ({"ip": "no such host"}, "no such host is not a valid IP"),
    ],
)
def test_entities_that_are_none(parts: dict[str, str | None], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        check_entity(parts)


def test_entities() -> None:
    assert check_entity({"user": "ann", "client-id": None}) == QuotaEntity("ann", ANYONE)
    assert check_entity({"ip": None}) == QuotaEntity(ip=ANYONE)
    assert str(check_entity({"user": "ann", "client-id": None})) == "user ann, client-id <default>"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("bogus", 1, "Invalid configuration key bogus"),
        (CONNECTION_CREATION_RATE, 1, "Invalid configuration key"),
        (PRODUCER_BYTE_RATE, 0, "must be greater than 0"),
        (PRODUCER_BYTE_RATE, -1, "must be greater than 0"),
        (PRODUCER_BYTE_RATE, 1.5, "cannot be a fractional value"),
        (PRODUCER_BYTE_RATE, 1e30, "too large for a LONG"),
        (PRODUCER_BYTE_RATE, math.inf, "too large for a LONG"),
        (PRODUCER_BYTE_RATE, math.nan, "must be a number"),
        (REQUEST_PERCENTAGE, math.nan, "must be a number"),
        (REQUEST_PERCENTAGE, math.inf, "must be a number"),
        (CONTROLLER_MUTATION_RATE, 0, "must be greater than 0"),
    ],
)
def test_values_that_are_none(key: str, value: float, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        check_quota(QuotaEntity("ann"), key, value)


def test_values() -> None:
    for key in (REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE):
        check_quota(QuotaEntity("ann"), key, 0.5)
    check_quota(QuotaEntity(ip="10.0.0.1"), CONNECTION_CREATION_RATE, 10)
    with pytest.raises(InvalidRequest, match="too large for an INT"):
        check_quota(QuotaEntity(ip="10.0.0.1"), CONNECTION_CREATION_RATE, 1e12)
    with pytest.raises(InvalidRequest, match="Invalid configuration key"):
        check_quota(QuotaEntity(ip="10.0.0.1"), PRODUCER_BYTE_RATE, 1)


def test_a_rate_is_over_all_full_windows_from_the_start() -> None:
    rate = QuotaRate(QuotaWindows(11, 1000))
    rate.record(5_000, 100_000)
    # Ten full windows before the first count as empty.
    assert rate.per_second(100_000) == 500
    assert rate.per_second(100_500) == 5_000 / 10.5
    rate.record(5_000, 101_000)
    assert rate.per_second(101_000) == 10_000 / 10
    for second in range(102, 120):
        rate.record(1_000, second * 1000)
    assert rate.per_second(119_000) == 11_000 / 10


def test_the_wait_brings_the_average_back_to_the_quota() -> None:
    rate = QuotaRate(QuotaWindows(11, 1000))
    rate.record(20_000, 0)
    # 2,000 a second over 10 s, against 1,000: the average is there after 10 s more.
    assert rate.throttle_ms(1_000, 0) == 10_000
    assert rate.throttle_ms(2_000, 0) == 0 and rate.throttle_ms(1_000, 0, most_ms=1_000) == 1_000
    assert rate.room(3_000, 0) == 10_000 and rate.room(1_000, 0) == -10_000
    assert rate.per_second(10_999) == 20_000 / 10.999
    assert rate.per_second(11_000) == 0  # nothing of it is left


def test_one_window_alone() -> None:
    rate = QuotaRate(QuotaWindows(1, 1000))
    rate.record(10, 0)
    assert rate.per_second(0) == 10_000 and rate.per_second(500) == 20


def run(budget: QuotaBudget, size: int, seconds: int, step_ms: int = 10) -> int:
    """A client that sends whenever it is not muted; how much it got through."""
    sent, muted_until = 0, 0
    for now_ms in range(0, seconds * 1000, step_ms):
        if now_ms < muted_until:
            continue
        sent += size
        budget.left -= size
        if budget.left < 0:
            muted_until = now_ms + budget.settle(now_ms)
    return sent


@pytest.mark.parametrize("size", [100, 10_000, 200_000])
def test_a_budget_keeps_to_the_quota_in_the_long_run(size: int) -> None:
    limit, seconds = 1_000_000, 120
    sent = run(QuotaBudget(limit), size, seconds)
    most = min(size * seconds * 100, limit * seconds)
    # A first burst of ten windows is allowed, as in Kafka.
    assert most * 0.9 <= sent <= most + limit * 11 + size


def test_a_budget_without_a_limit_never_settles() -> None:
    budget = QuotaBudget(None)
    run(budget, 1 << 20, 10)
    assert budget.left > 1 << 60 and budget.settle(0) == 0


def test_a_changed_quota_holds_from_then_on() -> None:
    budget = QuotaBudget(None)
    budget.change(1_000, 0)
    budget.left -= 100_000
    assert budget.left < 0 and budget.settle(0) == 90_000
    budget.change(None, 1)
    assert budget.left > 1 << 60
    budget.change(100_000, 2)
    assert budget.limit == 100_000 and 0 < budget.left <= 10_000


def test_changes_are_paid_from_a_bucket() -> None:
    bucket = TokenBucket(5, 0, QuotaWindows(100, 1000))
    assert bucket.take(560, 0) == 0  # the burst is 500: overdrawn by 60
    assert bucket.throttle_ms(0) == 12_000
    assert bucket.take(1, 11_000) == 1_000
    assert bucket.take(1, 12_000) == 0 and bucket.throttle_ms(12_000) == 200
    assert bucket.take_anyway(10, 12_000) == 2_200
    bucket.change(10, 12_000)
    assert bucket.throttle_ms(12_000) == 1_100
    assert bucket.throttle_ms(10**9) == 0 and bucket.take(1_001, 10**9) == 0
