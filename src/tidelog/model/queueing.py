"""A queue with several servers: Little's law and the M/M/c model (random arrivals, random service times).

Rates are records a second, times are seconds.  A queue whose arrivals exceed its capacity has no steady state:
`Queue.of` refuses it with `Overloaded`, which says what would be enough."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Adding servers beyond this says more about the figures than about the queue.
SERVERS_MAX = 100_000


class Overloaded(ValueError):
    def __init__(self, arrival: float, service: float, servers: int) -> None:
        self.servers_min = math.floor(arrival / service) + 1
        super().__init__(
            f"{arrival:g} records/s arrive and {servers} consumers serve {servers * service:g}: the queue grows "
            f"without end; it takes at least {self.servers_min}"
        )


def depth(arrival: float, time_s: float) -> float:
    """Little's law, L = λW: how many records are in a system that each spends `time_s` in."""
    return arrival * time_s


def time_in_system(depth: float, throughput: float) -> float:
    """Little's law the other way round, W = L/λ: how old the lag is."""
    if throughput <= 0:
        return math.inf if depth > 0 else 0.0
    return depth / throughput


def waiting_probability(load: float, servers: int) -> float:
    """Erlang's C: that an arriving record finds all `servers` busy.  `load` is arrival / service, below `servers`."""
    # Erlang's B by recurrence: factorials overflow from 170 servers on.
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked / (1 - (load / servers) * (1 - blocked))


@dataclass(frozen=True, slots=True)
class Queue:
    """M/M/c in its steady state."""

    arrival: float
    service: float  # of one server
    servers: int
    waiting: float  # the probability that a record waits

    @classmethod
    def of(cls, arrival: float, service: float, servers: int) -> Queue:
        if not (arrival >= 0 and service > 0 and 1 <= servers <= SERVERS_MAX):
            raise ValueError(
                f"a queue needs arrivals of 0 or more, a service rate above 0 and 1 to {SERVERS_MAX} consumers, "
                f"not {arrival:g}, {service:g} and {servers}"
            )
        if arrival >= servers * service:
            raise Overloaded(arrival, service, servers)
        return cls(arrival, service, servers, waiting_probability(arrival / service, servers))

    @property
    def utilisation(self) -> float:
        return self.arrival / (self.servers * self.service)

    @property
    def wait_s(self) -> float:
        """The mean time before service begins."""
        return self.waiting / (self.servers * self.service - self.arrival)

    @property
    def latency_s(self) -> float:
        """The mean time from arrival to the end of service."""
        return self.wait_s + 1 / self.service

    @property
    def queued(self) -> float:
        """The mean number that waits."""
        return depth(self.arrival, self.wait_s)

    @property
    def depth(self) -> float:
        """The mean number that waits or is in service."""
        return depth(self.arrival, self.latency_s)

    def later_than(self, time_s: float) -> float:
        """The share of records that take longer than `time_s`."""
        rate, spare = self.service, self.servers * self.service - self.arrival
        served = math.exp(-rate * time_s)
        if math.isclose(spare, rate, rel_tol=1e-9):
            return served * (1 + self.waiting * rate * time_s)
        both = (math.exp(-spare * time_s) - served) * rate / (rate - spare)
        return served + self.waiting * both

    def latency_percentile_s(self, share: float) -> float:
        """The time within which `share` of the records (0.99) are done."""
        if not 0 < share < 1:
            raise ValueError(f"a percentile is a share between 0 and 1, not {share:g}")
        low, high = 0.0, 1 / self.service
        while self.later_than(high) > 1 - share:
            high *= 2
        for _ in range(100):
            middle = (low + high) / 2
            if self.later_than(middle) > 1 - share:
                low = middle
            else:
                high = middle
        return high


def fitted_service(measured: list[tuple[float, int, float]]) -> float:
    """The service rate for which M/M/c comes nearest to measured (arrival, servers, mean latency in seconds).

    Nearest by the logarithm of the latencies, so that one point near saturation does not outweigh the rest."""
    if not measured:
        raise ValueError("no latencies to fit a service rate to")
    if any(latency <= 0 or arrival < 0 for arrival, _, latency in measured):
        raise ValueError("latencies are above 0 and arrivals 0 or more")

    def distance(service: float) -> float:
        return sum(
            (math.log(Queue.of(arrival, service, servers).latency_s) - math.log(latency)) ** 2
            for arrival, servers, latency in measured
        )

    slowest = max(arrival / servers for arrival, servers, _ in measured) * (1 + 1e-9)
    low = math.log(max(slowest, min(1 / latency for _, _, latency in measured) * 1e-3))
    high = math.log(max(1 / latency for _, _, latency in measured) * 10 + slowest)
    ratio = (math.sqrt(5) - 1) / 2  # golden section: the distance has one valley in the service rate
    for _ in range(200):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if distance(math.exp(left)) < distance(math.exp(right)):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2)
