"""`tidelog dev`: a whole cluster on this machine, to develop and test with."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.output import counted
from tidelog.cli.session import Failure, command_help, pairs

if TYPE_CHECKING:
    from tidelog.cli.dev.cluster import DevCluster

LOOK_SECONDS = 0.2
RESTART_SECONDS_MIN = 1.0  # between two starts of the metadata store; doubled after each
RESTART_SECONDS_MAX = 60.0

_data = click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("dev-data"),
    show_default=True,
    metavar="DIR",
    help="Folder for all data of the cluster.",
)


@click.group(
    invoke_without_command=True,
    help=command_help(
        "Run several brokers and their metadata store on this machine until Ctrl-C or SIGTERM.  Brokers have the ids 1, 2, "
        "... and the ports PORT, PORT+1, ...; HTTP is on each port plus 1000.  When all are ready, the command prints "
        "`ready kafka=HOST:PORT,HOST:PORT,...`.  DIR/dev.json has the processes, DIR/broker-N.log their logs.  "
        "A broker that dies stays dead until it is restarted.\n\n"
        "The metadata store is a process of Tidelog; with --etcd, one or three members of etcd, as a cluster on several "
        "machines has them.",
        """
tidelog dev
tidelog dev --brokers 3 --data cluster --port 9092 --etcd 3
tidelog dev --set num.partitions=6 --set min.insync.replicas=2
tidelog dev restart 2 --data cluster
""",
    ),
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    metavar="N",
    help="Number of brokers.",
)
@_data
@click.option(
    "--port",
    type=click.IntRange(1, 64_000),
    default=9092,
    show_default=True,
    metavar="P",
    help="Port of the first broker.",
)
@click.option(
    "--etcd",
    type=click.Choice(["0", "1", "3"]),
    default="0",
    show_default=True,
    help="Number of etcd members that hold the metadata; 0: a metadata store of Tidelog, and no etcd.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help="A setting of all brokers; repeat.",
)
@click.option(
    "--add-scram",
    "add_scram",
    multiple=True,
    metavar="ENTRY",
    help="A user to add before the brokers take connections, as for `tidelog serve`; repeat.",
)
@click.pass_context
def dev(
    ctx: click.Context,
    brokers: int,
    data: Path,
    port: int,
    etcd: str,
    settings: dict[str, str],
    add_scram: tuple[str, ...],
) -> None:
    if ctx.invoked_subcommand is not None:
        return
    from tidelog.cli.dev.cluster import DevCluster, DevRefused

    cluster, signals = DevCluster(data), Signals()
    try:
        with cluster.looked_after():
            try:
                addresses = cluster.start(
                    brokers, port, int(etcd), settings, add_scram, lambda: not signals.count
                )
                click.echo(
                    f"Running {counted(brokers, 'broker')} and {_metadata(int(etcd))} in {data}; Ctrl-C stops them.",
                    err=True,
                )
                click.echo(f"ready kafka={','.join(addresses)}")
                _look_after(cluster, signals)
            finally:
                cluster.stop(lambda: signals.count < 2)
    except (DevRefused, OSError) as problem:
        if not signals.count:
            raise Failure(str(problem)) from None


def _metadata(etcd: int) -> str:
    return counted(etcd, "etcd member") if etcd else "a metadata store"


class Signals:
    """How often somebody has asked us to end."""

    def __init__(self) -> None:
        self.count = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._came)

    def _came(self, *_: Any) -> None:
        self.count += 1


def _look_after(cluster: DevCluster, signals: Signals) -> None:
    """Says what has died, once for each process, and starts the metadata store again."""
    from tidelog.cli.dev.cluster import STORE, DevRefused

    told: set[int] = set()
    next_start, wait_seconds = 0.0, RESTART_SECONDS_MIN
    while not signals.count:
        ended = cluster.ended()
        for name, (pid, hint) in ended.items():
            if pid not in told:
                told.add(pid)
                click.echo(f"{name} (process {pid}) has ended: {hint}", err=True)
        if STORE in ended and time.monotonic() >= next_start:
            next_start = time.monotonic() + wait_seconds
            wait_seconds = min(2 * wait_seconds, RESTART_SECONDS_MAX)
            try:
                cluster.restart_store(lambda: not signals.count)
            except DevRefused as problem:
                click.echo(str(problem), err=True)
        time.sleep(LOOK_SECONDS)


@dev.command(
    help=command_help(
        "Restart a broker of a running `tidelog dev`.  When the broker is ready, the command "
        "prints the broker's own line: `ready kafka=HOST:PORT http=HOST:PORT id=N`.",
        "tidelog dev restart 2 --data cluster",
    )
)
@click.argument("broker", type=click.IntRange(1), metavar="ID")
@_data
def restart(broker: int, data: Path) -> None:
    from tidelog.cli.dev.cluster import DevCluster, DevRefused

    try:
        click.echo(DevCluster(data).restart(broker))
    except (DevRefused, OSError) as problem:
        raise Failure(str(problem)) from None
