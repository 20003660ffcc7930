"""The universal scalability law: how throughput grows, flattens and falls as consumers are added.

    X(n) = rate * n / (1 + contention * (n - 1) + coherence * n * (n - 1))

`contention` is the share of work that is done one at a time, `coherence` the cost of each pair keeping in step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, product

CONSUMERS_MIN = 3  # as many unknowns as the law has


@dataclass(frozen=True, slots=True)
class Scalability:
    rate: float  # of one consumer alone
    contention: float
    coherence: float
    explained: float = 1.0  # R², the share of the variance that the law explains

    def throughput(self, consumers: float) -> float:
        pairs = consumers * (consumers - 1)
        return self.rate * consumers / (1 + self.contention * (consumers - 1) + self.coherence * pairs)

    def service(self, consumers: int) -> float:
        """What each of `consumers` serves, slowed down by the others."""
        return self.throughput(consumers) / consumers

    @property
    def peak(self) -> int | None:
        """The number of consumers with the highest throughput; None when more is always more."""
        if self.coherence <= 0:
            return None
        around = math.sqrt(max(0.0, 1 - self.contention) / self.coherence)
        low = max(1, math.floor(around))
        return low if self.throughput(low) >= self.throughput(low + 1) else low + 1

    @property
    def limit(self) -> float:
        """Throughput that no number of consumers exceeds."""
        if self.peak is not None:
            return self.throughput(self.peak)
        return self.rate / self.contention if self.contention > 0 else math.inf

    def efficiency(self, consumers: int) -> float:
        return self.throughput(consumers) / (self.rate * consumers)


def fit(measured: Sequence[tuple[int, float]]) -> Scalability:
    """The law that comes nearest to measured (consumers, throughput), with contention and coherence of 0 or more."""
    if any(consumers < 1 or throughput <= 0 for consumers, throughput in measured):
        raise ValueError("measured figures have 1 consumer or more and a throughput above 0")
    different = len({consumers for consumers, _ in measured})
    if different < CONSUMERS_MIN:
        raise ValueError(
            f"the law has three unknowns: measure with at least {CONSUMERS_MIN} different numbers of consumers, "
            f"not {different}"
        )
    # n/X is linear in 1/rate, contention/rate and coherence/rate.  Weighted by X * X_fitted / n its distances
    # become distances of throughput; the fitted X of one round are the weights of the next.
    fitted = [throughput for _, throughput in measured]
    law = Scalability(1.0, 0.0, 0.0)
    for _ in range(50):
        law = _linear_fit(measured, fitted)
        fitted = [law.throughput(consumers) for consumers, _ in measured]
    mean = sum(throughput for _, throughput in measured) / len(measured)
    total = sum((throughput - mean) ** 2 for _, throughput in measured)
    missed = sum(
        (throughput - expected) ** 2 for (_, throughput), expected in zip(measured, fitted, strict=True)
    )
    explained = 1.0 if total == 0 else 1 - missed / total
    return Scalability(law.rate, law.contention, law.coherence, explained)


def _linear_fit(measured: Sequence[tuple[int, float]], fitted: Sequence[float]) -> Scalability:
    rows = []
    for (n, throughput), near in zip(measured, fitted, strict=True):
        weight = throughput * near / n
        rows.append(([weight, weight * (n - 1), weight * n * (n - 1)], weight * n / throughput))
    best: tuple[float, list[float]] | None = None
    # Negative costs make no sense: where the best fit has them, the best without that cost is on the boundary.
    for kept in product((True, False), repeat=2):
        used = [True, *kept]
        try:
            coefficients = iter(_least_squares([(list(compress(x, used)), y) for x, y in rows]))
        except ZeroDivisionError:
            continue
        values = [next(coefficients) if is_used else 0.0 for is_used in used]
        if values[0] <= 0 or min(values) < 0:
            continue
        missed = sum((sum(v * x for v, x in zip(values, xs, strict=True)) - y) ** 2 for xs, y in rows)
        if best is None or missed < best[0]:
            best = (missed, values)
    assert best is not None  # the fit with 1/rate alone is always there
    first, contention, coherence = best[1]
    return Scalability(1 / first, contention / first, coherence / first)


def _least_squares(rows: list[tuple[list[float], float]]) -> list[float]:
    """Normal equations, solved by elimination with pivots; columns are scaled first."""
    width = len(rows[0][0])
    scale = [math.sqrt(sum(x[at] ** 2 for x, _ in rows)) or 1.0 for at in range(width)]
    table = [
        [sum(x[i] / scale[i] * x[j] / scale[j] for x, _ in rows) for j in range(width)]
        + [sum(x[i] / scale[i] * y for x, y in rows)]
        for i in range(width)
    ]
    for at in range(width):
        pivot = max(range(at, width), key=lambda row: abs(table[row][at]))
        if abs(table[pivot][at]) < 1e-12:
            raise ZeroDivisionError("the figures do not determine these")
        table[at], table[pivot] = table[pivot], table[at]
        for row in range(width):
            if row != at:
                factor = table[row][at] / table[at][at]
                table[row] = [a - factor * b for a, b in zip(table[row], table[at], strict=True)]
    return [table[at][width] / table[at][at] / scale[at] for at in range(width)]
