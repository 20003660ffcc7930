"""What `tidelog model` prints: the law, the measured figures beside it, predictions, advice and plots."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import click

from tidelog.cli.output import print_json, print_table
from tidelog.model.advice import Advice, Prediction, best
from tidelog.model.figures import Figure
from tidelog.model.plot import Chart, Curve, svg, terminal
from tidelog.model.scalability import Scalability

if TYPE_CHECKING:
    from tidelog.cli.model.measure import Watched

ROWS_MAX = 24


@dataclass(frozen=True)
class ModelReport:
    law: Scalability
    figures: Sequence[Figure]
    arrival: float
    predictions: Sequence[Prediction]
    latency_ms_max: float | None
    watched: Watched | None = None

    def show(self, as_json: bool, file: IO[str] | None, no_plot: bool) -> None:
        seconds_max = None if self.latency_ms_max is None else self.latency_ms_max / 1000
        advice = best(self.predictions, seconds_max)
        charts = self._charts(advice)
        if file is not None:
            file.write(svg(charts))
        if as_json:
            print_json(self._json(advice))
            return
        self._print_law()
        self._print_figures()
        self._print_predictions(advice)
        if not no_plot and len(self.predictions) > 1:
            for chart in charts:
                click.echo()
                click.echo(_drawn(chart))

    def _print_law(self) -> None:
        if self.watched is not None:
            click.echo(self.watched.text())
        law = self.law
        text = f"one consumer serves {law.rate:,.1f} records/s"
        if self.figures and self.watched is None:
            text += (
                f", contention {law.contention:.4f}, coherence {law.coherence:.6f}, R² {law.explained:.3f}"
            )
            if law.peak is not None:
                text += f"; the most is {law.limit:,.0f} records/s with {law.peak}"
            elif math.isfinite(law.limit):
                text += f"; no number serves more than {law.limit:,.0f} records/s"
        click.echo(text)

    def _print_figures(self) -> None:
        if not self.figures or self.watched is not None:
            return
        rows = []
        for figure in self.figures:
            fitted = self.law.throughput(figure.consumers)
            off = None if not figure.throughput else f"{(fitted / figure.throughput - 1) * 100:+.1f}%"
            little = None if figure.little is None else f"{figure.little:.2f}"
            rows.append(
                (
                    figure.consumers,
                    _short(figure.throughput),
                    _short(fitted),
                    off,
                    _short(figure.latency_ms),
                    little,
                )
            )
        columns = ("CONSUMERS", "MEASURED/S", "FITTED/S", "OFF", "LATENCY-MS", "L/λW")
        click.echo()
        print_table(columns, rows, right=columns)

    def _print_predictions(self, advice: Advice) -> None:
        shown = list(self.predictions)
        if len(shown) > ROWS_MAX:
            step = math.ceil(len(shown) / ROWS_MAX)
            shown = [
                prediction
                for prediction in shown
                if prediction.consumers % step == 0 or prediction.consumers == advice.consumers
            ]
        click.echo(f"\n{self.arrival:,.1f} records/s arrive:")
        rows = []
        for prediction in shown:
            queue = prediction.queue
            cells: tuple[str | None, ...] = (None, None, None, None, "grows without end")
            if queue is not None:
                cells = (
                    f"{queue.utilisation * 100:.0f}%",
                    _short(queue.latency_s * 1000),
                    _short(queue.latency_percentile_s(0.99) * 1000),
                    _short(queue.depth),
                    "<- best" if prediction.consumers == advice.consumers else "",
                )
            rows.append((prediction.consumers, _short(prediction.capacity), *cells))
        columns = ("CONSUMERS", "CAPACITY/S", "BUSY", "LATENCY-MS", "P99-MS", "DEPTH", "")
        print_table(columns, rows, right=columns[:-1])
        verdict = (
            "no number of consumers will do" if advice.consumers is None else f"best: {advice.consumers}"
        )
        click.echo(f"\n{verdict}: {advice.reason}")

    def _charts(self, advice: Advice) -> list[Chart]:
        numbers = [prediction.consumers for prediction in self.predictions]
        measured = [
            (float(figure.consumers), figure.throughput) for figure in self.figures if figure.throughput
        ]
        curves = [Curve("capacity", [(float(n), self.law.throughput(n)) for n in numbers])]
        if measured:
            curves.append(Curve("measured", measured, dots=True))
        mark = None if advice.consumers is None else float(advice.consumers)
        charts = [Chart("Throughput", "consumers", "records/s", curves, mark)]
        latencies = [
            (float(prediction.consumers), prediction.queue.latency_s * 1000)
            for prediction in self.predictions
            if prediction.queue is not None
        ]
        if latencies:
            lowest = min(latency for _, latency in latencies)
            title = f"Mean latency at {self.arrival:,.0f} records/s"
            curve = Curve("M/M/c", latencies)
            charts.append(Chart(title, "consumers", "ms", [curve], mark, up_max=lowest * 10))
        return charts

    def _json(self, advice: Advice) -> dict[str, Any]:
        law = self.law
        limit = law.limit if math.isfinite(law.limit) else None
        shown: dict[str, Any] = {} if self.watched is None else self.watched.json()
        shown["law"] = {
            "rate": law.rate,
            "contention": law.contention,
            "coherence": law.coherence,
            "explained": law.explained,
            "peak": law.peak,
            "limit": limit,
        }
        if self.figures and self.watched is None:
            shown["figures"] = [
                {
                    "consumers": figure.consumers,
                    "throughput": figure.throughput,
                    "fitted": law.throughput(figure.consumers),
                    "arrival": figure.arrival,
                    "latency_ms": figure.latency_ms,
                    "depth": figure.depth,
                    "little": figure.little,
                }
                for figure in self.figures
            ]
        shown["arrival"] = self.arrival
        shown["predictions"] = [_prediction_json(prediction) for prediction in self.predictions]
        shown["best"] = {"consumers": advice.consumers, "reason": advice.reason}
        return shown


def _prediction_json(prediction: Prediction) -> dict[str, Any]:
    queue = prediction.queue
    return {
        "consumers": prediction.consumers,
        "capacity": prediction.capacity,
        "utilisation": queue and queue.utilisation,
        "waiting": queue and queue.waiting,
        "depth": queue and queue.depth,
        "queued": queue and queue.queued,
        "latency_ms": queue and queue.latency_s * 1000,
        "latency_p95_ms": queue and queue.latency_percentile_s(0.95) * 1000,
        "latency_p99_ms": queue and queue.latency_percentile_s(0.99) * 1000,
    }


def _short(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _drawn(chart: Chart) -> str:
    text = terminal(chart)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        # A terminal without braille: every cell with a dot becomes a star.
        text = "".join("*" if 0x2800 < ord(character) <= 0x28FF else character for character in text)
        text = text.encode("ascii", "replace").decode()
    return text
