"""The command: live on a terminal, one picture with --once or where there is no terminal, JSON with --json."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.output import hush_stdout, print_json, print_table, time_text
from tidelog.cli.session import CommandSession, Finite, broker_options, command_help, run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tidelog.cli.top.cluster_watch import WatchSelection
    from tidelog.cli.top.window import Picture

INTERVAL_S_MIN = 0.2
PATIENCE_S_MIN = 1.0
VIEWS = ("topics", "groups", "brokers")


@click.command(
    help=command_help(
        """
A live view of topics, groups and brokers: throughput, lag, and problems.
It uses only the Kafka protocol, so it works on Apache Kafka, too.

If the output is not a terminal, or with --once, it prints one snapshot of all three views after one interval, which
the rates need.  Press ? for keys and for the meaning of the columns.
""",
        """
tidelog top
tidelog top --view groups --group 'billing-*'
tidelog top --once --topic orders --topic 'orders-*'
tidelog top --json --interval 10
""",
        """
{"time_ms", "cluster", "controller", "problems": [TEXT...],
 "topics": [{"name", "internal", "partitions", "replication_factor", "records_in_per_sec",
             "bytes_in_per_sec", "records_out_per_sec", "bytes_out_per_sec", "records",
             "size_bytes", "groups", "lag", "under_replicated", "offline"}],
 "groups": [{"name", "type", "state", "members", "topics", "partitions", "lag", "lag_per_sec",
             "records_out_per_sec", "caught_up_sec", "coordinator", "lags"}],
 "brokers": [{"id", "address", "rack", "controller", "leaders", "replicas", "under_replicated",
              "out_of_sync", "groups", "records_in_per_sec", "bytes_in_per_sec", "size_bytes",
              "disk_bytes", "disk_free_bytes", "problem"}]}
one line for each poll, until Ctrl-C; with --once one line.  null where a value is unknown
""",
    )
)
@click.option(
    "--interval",
    type=Finite(min=INTERVAL_S_MIN, max=3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two polls.  A cluster that answers slowly is polled less often.",
)
@click.option("--once", is_flag=True, help="Print one snapshot and exit.")
@click.option("--view", type=click.Choice(VIEWS), default="topics", show_default=True, help="The first view.")
@click.option(
    "--topic", "topics", multiple=True, metavar="PATTERN", help="Only these topics, as in 'a-*'; repeat."
)
@click.option("--group", "groups", multiple=True, metavar="PATTERN", help="Only these groups; repeat.")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@broker_options
def top(
    session: CommandSession,
    interval: float,
    once: bool,
    view: str,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    internal: bool,
) -> None:
    from tidelog.cli.top.cluster_watch import WatchSelection

    chosen = WatchSelection(topics, groups)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal has bars and arrows
    try:
        if session.json:
            run(_lines(session, chosen, interval, once, internal))
        elif once or not _is_terminal():
            run(_once(session, chosen, interval, internal))
        else:
            run(_live(session, chosen, interval, view, internal))
    except KeyboardInterrupt:
        pass  # The usual way to stop looking.
    except BrokenPipeError:
        hush_stdout()


def _is_terminal() -> bool:
    import os

    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


async def _pictures(
    session: CommandSession, chosen: WatchSelection, interval: float, patient: bool
) -> AsyncGenerator[Picture, None]:
    """Again and again; `patient`: each waits for all brokers, as long as the timeout says."""
    import asyncio

    from tidelog.cli.top.cluster_watch import ClusterWatch
    from tidelog.cli.top.window import FrameWindow
    from tidelog.clock import SystemClock

    clock, window = SystemClock(), FrameWindow()
    timeout_s = session.timeout_ms / 1000
    patience_s = timeout_s if patient else min(timeout_s, max(interval, PATIENCE_S_MIN))
    async with session.admin() as admin:
        look = ClusterWatch(admin, clock, chosen, patience_s)
        try:
            while True:
                begun_ms = clock.monotonic_ms()
                picture = window.add(await look.take())
                took_s = (clock.monotonic_ms() - begun_ms) / 1000
                yield picture
                await asyncio.sleep(max(interval - took_s, min(took_s, patience_s)))
        finally:
            await look.close()


async def _lines(
    session: CommandSession, chosen: WatchSelection, interval: float, once: bool, internal: bool
) -> None:
    from contextlib import aclosing

    async with aclosing(_pictures(session, chosen, interval, once)) as pictures:
        first = True
        async for picture in pictures:
            if not (first and once):
                print_json(_json(picture, internal))
                sys.stdout.flush()
                if once:
                    return
            first = False


async def _once(session: CommandSession, chosen: WatchSelection, interval: float, internal: bool) -> None:
    import shutil
    from contextlib import aclosing

    from tidelog.cli.top.columns import fitting
    from tidelog.cli.top.screen import problems
    from tidelog.cli.top.view import PLACES, View

    async with aclosing(_pictures(session, chosen, interval, True)) as pictures:
        await anext(pictures)
        picture = await anext(pictures)
    frame = picture.frame
    click.echo(f"cluster {frame.cluster_id}, controller {frame.controller}, {time_text(frame.time_ms)}")
    for problem in problems(picture):
        click.echo(problem)
    for place in PLACES:
        view = View(place, internal)
        rows = view.rows(picture)
        columns = [column for column in view.columns if column.heading != "LAG, LATELY"]
        if sys.stdout.isatty():
            longest = max((len(columns[0].text(row)) for row in rows), default=0)
            columns = fitting(tuple(columns), shutil.get_terminal_size().columns - len(columns), longest)
        click.echo()
        print_table(
            [column.heading for column in columns],
            [[_cell(column.text(row)) for column in columns] for row in rows],
            right=[column.heading for column in columns if not column.left],
        )


def _cell(text: str) -> str | None:
    from tidelog.gateways.console.parts.amounts import NOTHING

    return None if text == NOTHING else text


def _json(picture: Picture, internal: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from tidelog.cli.top.screen import problems

    frame = picture.frame
    return {
        "time_ms": frame.time_ms,
        "cluster": frame.cluster_id,
        "controller": frame.controller,
        "problems": problems(picture),
        "topics": [asdict(topic) for topic in picture.topics if internal or not topic.internal],
        "groups": [asdict(group) for group in picture.groups],
        "brokers": [asdict(broker) for broker in picture.brokers],
    }


async def _live(
    session: CommandSession, chosen: WatchSelection, interval: float, place: str, internal: bool
) -> None:
    from tidelog.cli.top.live import LiveView

    live = LiveView(place, internal)
    await live.run(_pictures(session, chosen, interval, False))
