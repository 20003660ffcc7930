"""`tidelog bench`: produce, consume, latency, against a cluster of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tidelog.cli.bench.load import LoadFigures, Records, Writing, bench_topic, read, round_trip, write
from tidelog.cli.completion import complete_topics
from tidelog.cli.output import bytes_text, print_json, print_table
from tidelog.cli.session import CommandSession, Finite, broker_options, command_help, run

F = TypeVar("F", bound=Callable[..., Any])

RECORDS_MAX = 1_000_000_000
SIZE_MAX = 16 << 20
RATE_MAX = 1e7
LATENCY_SHAPE = '"latency": {"mean_ms", "p50_ms", "p95_ms", "p99_ms", "p99.9_ms", "max_ms"}'
SHAPE = '{"records", "bytes", "seconds", "records_per_sec", "bytes_per_sec"'
OWN = "  Without --topic, a topic is created for the run and deleted afterwards."


@click.group(help="Measure how fast your own cluster writes, reads, and passes records on.")
def bench() -> None:
    pass


def topic_options(command: F) -> F:
    for option in (
        click.option(
            "--replication-factor",
            type=click.IntRange(1),
            metavar="N",
            help="Of the topic that is created; the broker's default otherwise.",
        ),
        click.option(
            "--partitions",
            type=click.IntRange(1, 10_000),
            default=6,
            show_default=True,
            metavar="N",
            help="Of the topic that is created.",
        ),
        click.option(
            "--topic", shell_complete=complete_topics, metavar="NAME", help="Use this topic; it is kept."
        ),
    ):
        command = option(command)
    return command


def writing_options(linger_ms: int, rate: float) -> Callable[[F], F]:
    def add(command: F) -> F:
        for option in (
            click.option(
                "--batch-bytes",
                type=click.IntRange(1, SIZE_MAX),
                default=65_536,
                show_default=True,
                metavar="N",
                help="Largest batch of records (batch.size).",
            ),
            click.option(
                "--linger",
                type=click.IntRange(0, 10_000),
                default=linger_ms,
                show_default=True,
                metavar="MS",
                help="How long a batch waits for more records (linger.ms).",
            ),
            click.option(
                "--compression",
                type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
                default="none",
                show_default=True,
            ),
            click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True),
            click.option(
                "--rate",
                type=Finite(min=0, max=RATE_MAX),
                default=rate,
                show_default=True,
                metavar="N",
                help="Records per second; 0 is as fast as possible.",
            ),
        ):
            command = option(command)
        return command

    return add


def size_options(records: int, size: int) -> Callable[[F], F]:
    def add(command: F) -> F:
        for option in (
            click.option(
                "--size",
                type=click.IntRange(1, SIZE_MAX),
                default=size,
                show_default=True,
                metavar="BYTES",
                help="Size of each value.",
            ),
            click.option(
                "--records",
                type=click.IntRange(1, RECORDS_MAX),
                default=records,
                show_default=True,
                metavar="N",
            ),
        ):
            command = option(command)
        return command

    return add


@bench.command(
    help=command_help(
        "Write records, and show the throughput and the time from sending each record until it is acknowledged."
        + OWN,
        """
tidelog bench produce
tidelog bench produce --records 1000000 --size 1000 --compression lz4 --acks 1
tidelog bench produce --topic orders-test --rate 5000 --linger 0
""",
        f"{SHAPE},\n {LATENCY_SHAPE}}}",
    )
)
@topic_options
@size_options(100_000, 100)
@writing_options(5, 0)
@broker_options
def produce(
    session: CommandSession,
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    size: int,
    **writing: Any,
) -> None:
    async def measure() -> LoadFigures:
        async with bench_topic(session, topic, partitions, replication_factor) as target:
            return await write(session, target, *_load(records, size, writing))

    _show(session, run(measure()))


@bench.command(
    help=command_help(
        "Read a topic from its beginning to its present end with one consumer, and show the throughput.  Without --topic, a "
        "topic is created, filled, read, and deleted.",
        """
tidelog bench consume
tidelog bench consume --topic orders --records 1000000
""",
        SHAPE + "}",
    )
)
@topic_options
@size_options(100_000, 100)
@broker_options
def consume(
    session: CommandSession,
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    size: int,
) -> None:
    async def measure() -> LoadFigures:
        async with bench_topic(session, topic, partitions, replication_factor) as source:
            if topic is None:
                await write(session, source, Records(records, size, 0), Writing("all", "none", 5, 65_536))
            return await read(session, source, records)

    _show(session, run(measure()))


@bench.command(
    help=command_help(
        "Write records at a steady rate, read them at the same time, and show each record's time from one to the other."
        + OWN,
        """
tidelog bench latency
tidelog bench latency --rate 5000 --records 100000 --size 1000
tidelog bench latency --topic orders-test --json
""",
        f"{SHAPE},\n {LATENCY_SHAPE}}}",
    )
)
@topic_options
@size_options(5_000, 100)
@writing_options(0, 1000)
@broker_options
def latency(
    session: CommandSession,
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    size: int,
    **writing: Any,
) -> None:
    async def measure() -> LoadFigures:
        async with bench_topic(session, topic, partitions, replication_factor) as target:
            return await round_trip(session, target, *_load(records, size, writing))

    _show(session, run(measure()))


def _load(records: int, size: int, writing: dict[str, Any]) -> tuple[Records, Writing]:
    how = Writing(writing["acks"], writing["compression"], writing["linger"], writing["batch_bytes"])
    return Records(records, size, writing["rate"]), how


def _show(session: CommandSession, measured: LoadFigures) -> None:
    seconds = measured.seconds or 1e-9
    latency = measured.latencies.figures()
    figures = {
        "records": measured.records,
        "bytes": measured.bytes,
        "seconds": round(measured.seconds, 3),
        "records_per_sec": round(measured.records / seconds, 1),
        "bytes_per_sec": round(measured.bytes / seconds, 1),
    }
    if session.json:
        print_json({**figures, **({"latency": latency} if latency else {})})
        return
    click.echo(
        f"{measured.records:,} records, {bytes_text(measured.bytes)} in {measured.seconds:.2f} s: "
        f"{measured.records / seconds:,.0f} records/s, {bytes_text(int(measured.bytes / seconds))}/s"
    )
    if latency:
        names = [name.removesuffix("_ms") for name in latency]
        print_table(
            ("MILLISECONDS", *names), [("", *(f"{value:.2f}" for value in latency.values()))], right=names
        )
