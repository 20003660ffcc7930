"""What the laws say together: depth, latency and load for each number of consumers, and which number is best.

The universal scalability law says what one of n consumers serves; M/M/c says how long records then wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.model.figures import Figure
from tidelog.model.queueing import Overloaded, Queue, fitted_service
from tidelog.model.scalability import CONSUMERS_MIN, Scalability, fit

CONSUMERS_SHOWN_MAX = 512
# Latencies this near to the best are as good: more consumers would only cost more.
ENOUGH = 1.05


@dataclass(frozen=True, slots=True)
class Prediction:
    consumers: int
    capacity: float  # records a second
    queue: Queue | None  # None where more arrives than is served


@dataclass(frozen=True, slots=True)
class Advice:
    consumers: int | None
    reason: str


def law_of(figures: Sequence[Figure]) -> Scalability:
    """Fitted to throughputs where there are enough; else one service rate for all, from latencies."""
    measured = [(figure.consumers, figure.throughput) for figure in figures if figure.throughput]
    if len({consumers for consumers, _ in measured}) >= CONSUMERS_MIN:
        return fit(measured)
    latencies = [
        (figure.arrival, figure.consumers, figure.latency_ms / 1000)
        for figure in figures
        if figure.arrival and figure.latency_ms
    ]
    if latencies:
        return Scalability(fitted_service(latencies), 0.0, 0.0)
    return fit(measured)  # which says what is missing


def predict(law: Scalability, arrival: float, consumers_max: int) -> list[Prediction]:
    predictions = []
    for consumers in range(1, consumers_max + 1):
        try:
            queue = Queue.of(arrival, law.service(consumers), consumers)
        except Overloaded:
            queue = None
        predictions.append(Prediction(consumers, law.throughput(consumers), queue))
    return predictions


def consumers_worth_showing(law: Scalability, figures: Sequence[Figure], arrival: float | None) -> int:
    """Past the peak, past what was measured, and past what the arrivals need."""
    most = max((figure.consumers for figure in figures), default=1) * 2
    if law.peak is not None:
        most = max(most, law.peak + 2)
    if arrival is not None and arrival < law.limit:
        while most < CONSUMERS_SHOWN_MAX and law.throughput(most) <= arrival:
            most += 1
        most += 2
    return min(most, CONSUMERS_SHOWN_MAX)


def best(predictions: Sequence[Prediction], latency_s_max: float | None = None) -> Advice:
    """The fewest consumers that keep the latency asked for; without one, the fewest about as good as the best."""
    steady = [
        (prediction.consumers, prediction.queue) for prediction in predictions if prediction.queue is not None
    ]
    if not steady:
        most = max(predictions, key=lambda prediction: prediction.capacity)
        return Advice(
            None,
            f"no number of consumers keeps up: {most.consumers} serve the most, {most.capacity:,.0f} records/s",
        )
    if latency_s_max is not None:
        for consumers, queue in steady:
            if queue.latency_percentile_s(0.99) <= latency_s_max:
                return Advice(
                    consumers, f"the fewest with 99% of records done within {latency_s_max * 1000:g} ms"
                )
        lowest = min(queue.latency_percentile_s(0.99) for _, queue in steady)
        return Advice(
            None,
            f"no number of consumers has 99% done within {latency_s_max * 1000:g} ms; "
            f"the least is {lowest * 1000:.3g} ms",
        )
    shortest = min(queue.latency_s for _, queue in steady)
    consumers, _ = next(candidate for candidate in steady if candidate[1].latency_s <= shortest * ENOUGH)
    return Advice(
        consumers, f"the fewest with a mean latency within 5% of the best, {shortest * 1000:.3g} ms"
    )
