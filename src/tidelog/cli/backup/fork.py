"""`tidelog fork`: a second cluster out of the files of a running one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.backup.command import cluster_of
from tidelog.cli.backup.store_options import run_on_store
from tidelog.cli.output import ProgressMeter, bytes_text, counted, print_json
from tidelog.cli.session import CommandSession, broker_options, command_help

if TYPE_CHECKING:
    from tidelog.backup.forking import ForkedPartition


@click.command(
    help=command_help(
        "Make a second cluster out of a running one whose files are on this machine: of now, or of an earlier moment by the "
        "timestamps of the records.  Sealed segments are shared as hard links, so that it takes seconds and hardly any "
        "space if DIR is on the same file system.  Both clusters go their own ways.  Start the fork with `tidelog serve "
        "--data DIR`.",
        """
tidelog fork --data /var/lib/tidelog-fork
tidelog fork --data yesterday --at 2026-01-31T14:02:59Z
tidelog fork --data trial --topic orders --topic payments
""",
        '{"data", "partitions", "linked_bytes", "copied_bytes", "left_out": offsets behind the point, "not_here": offsets '
        'in remote storage, "seconds"}',
    )
)
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The data directory of the new cluster.",
)
@click.option("--at", metavar="TIME|OFFSETS", help="A time (ISO 8601, UTC), or TOPIC-PARTITION:OFFSET,...")
@click.option(
    "--topic", "topics", multiple=True, help="Only this topic, without groups and users; repeatable."
)
@click.option("--id", "node", type=click.IntRange(0), default=1, show_default=True, help="The broker's id.")
@broker_options
def fork(session: CommandSession, data: Path, at: str | None, topics: tuple[str, ...], node: int) -> None:
    began = time.monotonic()
    forked = run_on_store(_fork(session, data, at, topics, node))
    seconds = time.monotonic() - began
    sums = {
        "linked_bytes": sum(each.linked_bytes for each in forked),
        "copied_bytes": sum(each.copied_bytes for each in forked),
        "left_out": sum(each.left_out for each in forked),
        "not_here": sum(each.not_here for each in forked),
    }
    if session.json:
        print_json({"data": str(data), "partitions": len(forked), **sums, "seconds": round(seconds, 3)})
        return
    click.echo(
        f"{counted(len(forked), 'partition')} in {seconds:.1f} s: {bytes_text(sums['linked_bytes'])} shared, "
        f"{bytes_text(sums['copied_bytes'])} copied"
    )
    for each in forked:
        if each.not_here:
            click.echo(
                f"  {each.name} begins at {each.start}: {counted(each.not_here, 'older offset')} are in remote storage only"
            )
    click.echo(f"Start it: tidelog serve --data {data} --id {node}")


async def _fork(
    session: CommandSession, data: Path, at: str | None, topics: tuple[str, ...], node: int
) -> list[ForkedPartition]:
    from tidelog.backup.data_directory import NewDataDirectory
    from tidelog.backup.local_cluster import ClusterFork
    from tidelog.backup.point import parse_point
    from tidelog.types import NodeId

    point = parse_point(at, time.time_ns() // 1_000_000)
    directory = NewDataDirectory(str(data), NodeId(node))
    progress = ProgressMeter("partition")
    try:
        async with cluster_of(session) as cluster:

            def show(done: int, total: int) -> None:
                progress.update(done, more=f" of {total}")

            return await ClusterFork(cluster, session.timeout_ms, show).run(directory, point, topics or None)
    finally:
        progress.clear()
        directory.close()
