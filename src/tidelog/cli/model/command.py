"""`tidelog model`: Little's law, M/M/c and the universal scalability law on figures that are given, measured
here, or watched in a running group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from tidelog.cli.session import CommandSession, Failure, Finite, broker_options, command_help

if TYPE_CHECKING:
    from tidelog.model.advice import Prediction
    from tidelog.model.figures import Figure

F = TypeVar("F", bound=Callable[..., Any])

PREDICTIONS_SHAPE = """
"predictions": [{"consumers", "capacity", "utilisation", "waiting", "depth", "queued",
                 "latency_ms", "latency_p95_ms", "latency_p99_ms"}],
"best": {"consumers", "reason"}
rates are records a second; utilisation and what follows are null where more arrives than is served
"""
RATE = Finite(min=0, min_open=True)


@click.group(help="Predict queue depth, latency and the best number of consumers.")
def model() -> None:
    pass


def plot_options(command: F) -> F:
    command = click.option("--no-plot", is_flag=True, help="Print only the tables.")(command)
    command = click.option(
        "--svg",
        type=click.File("w", lazy=True),
        metavar="FILE",
        help="Also draw the plot into this SVG file.",
    )(command)
    return click.option("--latency-ms", type=RATE, help="Target for the 99th percentile of the latency.")(
        command
    )


@model.command(
    help=command_help(
        "M/M/c: records that arrive at random, and consumers that take a random time each.",
        """
tidelog model queue --arrival 900 --service-ms 5
tidelog model queue --arrival 900 --service-ms 5 --consumers 6
tidelog model queue --arrival 900 --service-ms 5 --latency-ms 50 --svg queue.svg
""",
        '{"law", ' + PREDICTIONS_SHAPE.strip().replace("\n", "\n ", 3) + "}",
    )
)
@click.option("--arrival", type=RATE, required=True, help="Arrival rate in records per second.")
@click.option("--service-ms", type=RATE, required=True, help="Mean processing time of a record.")
@click.option(
    "--consumers",
    type=click.IntRange(1, 512),
    help="Only this number of consumers; by default all useful numbers.",
)
@plot_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def queue(
    arrival: float,
    service_ms: float,
    consumers: int | None,
    latency_ms: float | None,
    svg: IO[str] | None,
    no_plot: bool,
    as_json: bool,
) -> None:
    from tidelog.cli.model.report import ModelReport
    from tidelog.model.advice import CONSUMERS_SHOWN_MAX, predict
    from tidelog.model.scalability import Scalability

    law = Scalability(1000 / service_ms, 0.0, 0.0)
    enough = int(arrival / law.rate) + 1
    if enough > CONSUMERS_SHOWN_MAX:
        raise Failure(
            f"the load needs {enough} consumers, more than the {CONSUMERS_SHOWN_MAX} that the model supports"
        )
    predictions = predict(law, arrival, consumers or min(CONSUMERS_SHOWN_MAX, enough * 2 + 2))
    if consumers is not None:
        predictions = predictions[-1:]
    ModelReport(law, (), arrival, predictions, latency_ms).show(as_json, svg, no_plot)


@model.command(
    help=command_help(
        "Fit the laws to measured figures: a CSV file with a header line, or JSON; `-` is standard input.  "
        "Columns: consumers, throughput (records/s), and where known arrival (records/s), latency_ms, depth.",
        """
tidelog model fit figures.csv
tidelog model fit figures.csv --arrival 12000 --latency-ms 100 --svg scaling.svg
tidelog model fit figures.json --json
""",
        '{"law": {"rate", "contention", "coherence", "explained", "peak", "limit"},\n "figures": [{"consumers", '
        '"throughput", "fitted", "arrival", "latency_ms", "depth", "little"}],\n '
        + PREDICTIONS_SHAPE.strip().replace("\n", "\n ", 3)
        + "}",
    )
)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--arrival", type=RATE, help="Arrival rate in records per second; 80% of the best throughput by default."
)
@plot_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def fit(
    file: str,
    arrival: float | None,
    latency_ms: float | None,
    svg: IO[str] | None,
    no_plot: bool,
    as_json: bool,
) -> None:
    from tidelog.model.figures import BadFigures, read

    try:
        with click.open_file(file, encoding="utf-8") as opened:
            figures = read(opened.read())
    except OSError as problem:
        raise Failure(f"cannot read {file}: {problem.strerror}") from None
    except (BadFigures, UnicodeDecodeError) as problem:
        raise Failure(f"{file}: {problem}") from None
    _fitted(figures, arrival, latency_ms).show(as_json, svg, no_plot)


def _fitted(figures: Sequence[Figure], arrival: float | None, latency_ms: float | None) -> Any:
    from tidelog.cli.model.report import ModelReport
    from tidelog.model.advice import consumers_worth_showing, law_of, predict

    try:
        law = law_of(figures)
    except ValueError as problem:
        raise Failure(str(problem)) from None
    if arrival is None:
        arrivals = [figure.arrival for figure in figures if figure.arrival]
        highest = max((figure.throughput or 0.0 for figure in figures), default=0.0)
        arrival = max(arrivals) if arrivals else 0.8 * highest
    predictions: list[Prediction] = predict(law, arrival, consumers_worth_showing(law, figures, arrival))
    return ModelReport(law, figures, arrival, predictions, latency_ms)


@model.command(
    help=command_help(
        "Measure how consumers scale on this machine and broker, then fit the laws.  Records are written to a topic "
        "of its own, read by more and more consumer processes, and the topic is deleted.",
        """
tidelog model measure --work-ms 1
tidelog model measure --consumers 1,2,4,8 --records 200000 --size 200 --work-ms 0
""",
        "as `tidelog model fit --json`",
    )
)
@click.option(
    "--consumers",
    default="1,2,3,4",
    show_default=True,
    metavar="N,N,...",
    help="Numbers of consumers to measure.",
)
@click.option(
    "--records",
    type=click.IntRange(1, 100_000_000),
    default=5_000,
    show_default=True,
    help="Records for each measurement.",
)
@click.option(
    "--size",
    type=click.IntRange(1, 1_000_000),
    default=100,
    show_default=True,
    help="Size of a record in bytes.",
)
@click.option(
    "--work-ms",
    type=Finite(min=0),
    default=1.0,
    show_default=True,
    help="Simulated work per record, such as a database call.",
)
@click.option(
    "--arrival", type=RATE, help="Arrival rate in records per second; 80% of the best throughput by default."
)
@plot_options
@broker_options
def measure(
    session: CommandSession,
    consumers: str,
    records: int,
    size: int,
    work_ms: float,
    arrival: float | None,
    latency_ms: float | None,
    svg: IO[str] | None,
    no_plot: bool,
) -> None:
    from tidelog.cli.model.measure import measured

    try:
        numbers = sorted({int(text) for text in consumers.split(",")})
    except ValueError:
        numbers = []
    if not numbers or not 1 <= numbers[0] <= numbers[-1] <= 64:
        raise click.BadParameter(
            f"{consumers!r} is not a list of numbers from 1 to 64", param_hint="--consumers"
        )
    if len(numbers) < 3:
        raise click.BadParameter(
            "the law has three unknowns: give at least three numbers", param_hint="--consumers"
        )
    figures = measured(session, numbers, records, size, work_ms / 1000)
    _fitted(figures, arrival, latency_ms).show(session.json, svg, no_plot)


@model.command(
    help=command_help(
        "Watch a running consumer GROUP and predict its performance with more or fewer members.  Arrivals, throughput and "
        "lag come from the broker.  A record counts as done when its offset is committed, so latencies include the "
        "time until the group commits.",
        """
tidelog model group billing
tidelog model group billing --seconds 60 --latency-ms 500
""",
        '{"group", "members", "arrival", "throughput", "depth", "latency_ms", "saturated", "law",\n '
        + PREDICTIONS_SHAPE.strip().replace("\n", "\n ", 3)
        + "}",
    )
)
@click.argument("name", metavar="GROUP")
@click.option("--seconds", type=RATE, default=10.0, show_default=True, help="How long to watch.")
@plot_options
@broker_options
def group(
    session: CommandSession,
    name: str,
    seconds: float,
    latency_ms: float | None,
    svg: IO[str] | None,
    no_plot: bool,
) -> None:
    from tidelog.cli.model.measure import watched
    from tidelog.cli.model.report import ModelReport
    from tidelog.model.advice import consumers_worth_showing, predict

    seen = watched(session, name, seconds)
    law = seen.law()
    arrival = max(seen.arrival, 1e-9)
    figures = (seen.figure(),)
    predictions = predict(law, arrival, consumers_worth_showing(law, figures, arrival))
    ModelReport(law, figures, arrival, predictions, latency_ms, seen).show(session.json, svg, no_plot)
