from __future__ import annotations

import heapq
import math
import random

import pytest

from tidelog.model.queueing import (
    Overloaded,
    Queue,
    depth,
    fitted_service,
    time_in_system,
    waiting_probability,
)


def simulated(arrival: float, service: float, servers: int, records: int) -> list[float]:
    """Latencies of a queue that is played through, record by record."""
    dice, now, latencies = random.Random(7), 0.0, []
    free = [0.0] * servers
    for _ in range(records):
        now += dice.expovariate(arrival)
        begun = max(now, heapq.heappop(free))
        ended = begun + dice.expovariate(service)
        heapq.heappush(free, ended)
        latencies.append(ended - now)
    return latencies


def test_littles_law_both_ways() -> None:
    assert depth(200.0, 0.25) == 50
    assert time_in_system(50, 200.0) == 0.25
    assert time_in_system(3, 0) == math.inf
    assert time_in_system(0, 0) == 0


def test_one_server_has_the_textbook_answers() -> None:
    queue = Queue.of(arrival=8, service=10, servers=1)
    assert queue.utilisation == pytest.approx(0.8)
    assert queue.latency_s == pytest.approx(1 / (10 - 8))
    assert queue.depth == pytest.approx(0.8 / 0.2)
    assert queue.queued == pytest.approx(0.8**2 / 0.2)
    assert queue.latency_percentile_s(0.5) == pytest.approx(math.log(2) / 2)


@pytest.mark.parametrize(("load", "servers"), [(0.5, 1), (4.5, 5), (8.0, 10), (30.0, 31)])
def test_waiting_agrees_with_erlangs_sum(load: float, servers: int) -> None:
    full = load**servers / math.factorial(servers) * servers / (servers - load)
    others = sum(load**k / math.factorial(k) for k in range(servers))
    assert waiting_probability(load, servers) == pytest.approx(full / (others + full))


def test_many_servers_do_not_overflow() -> None:
    assert 0 < waiting_probability(950.0, 1000) < 1


@pytest.mark.parametrize(("arrival", "service", "servers"), [(3.0, 1.0, 4), (0.9, 1.0, 1), (9.0, 10.0, 2)])
def test_a_queue_that_is_played_through_behaves_as_the_model_says(
    arrival: float, service: float, servers: int
) -> None:
    latencies = sorted(simulated(arrival, service, servers, 200_000))
    queue = Queue.of(arrival, service, servers)
    assert sum(latencies) / len(latencies) == pytest.approx(queue.latency_s, rel=0.1)
    for share in (0.5, 0.95):
        at = latencies[int(share * len(latencies))]
        assert at == pytest.approx(queue.latency_percentile_s(share), rel=0.1)


def test_equal_rates_of_service_and_of_what_is_to_spare() -> None:
    near = Queue.of(arrival=10.001, service=10, servers=2)
    same = Queue.of(arrival=10, service=10, servers=2)
    assert same.later_than(0.1) == pytest.approx(near.later_than(0.1), rel=1e-3)


def test_an_overloaded_queue_says_what_would_be_enough() -> None:
    with pytest.raises(Overloaded, match="at least 5") as caught:
        Queue.of(arrival=900, service=200, servers=4)
    assert caught.value.servers_min == 5
    with pytest.raises(Overloaded, match="at least 2"):
        Queue.of(arrival=200, service=200, servers=1)


def test_the_service_rate_is_found_again_from_latencies() -> None:
    measured = [
        (arrival, c, Queue.of(arrival, 120.0, c).latency_s) for arrival, c in ((50, 1), (300, 3), (110, 1))
    ]
    assert fitted_service(measured) == pytest.approx(120, rel=1e-3)
    with pytest.raises(ValueError, match="above 0"):
        fitted_service([(1.0, 1, 0.0)])
