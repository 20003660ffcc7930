"""`tidelog backup from-tiers`: a new cluster out of what lost brokers had copied to remote storage."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.backup.command import backup
from tidelog.cli.backup.store_options import BytesProgress, run_on_store, store_option
from tidelog.cli.output import bytes_text, print_json, print_table, time_text
from tidelog.cli.session import command_help

if TYPE_CHECKING:
    from tidelog.backup.tier_recovery import RecoveredPartition


@backup.command(
    "from-tiers",
    help=command_help(
        "Make a new cluster of one broker out of remote storage alone, when all brokers are lost: the records of every "
        "segment that was copied, with their offsets.  What was not copied yet (open segments), groups, settings and users "
        "are not there: for these, take backups.  The topics keep their records for ever until their retention is set.",
        """
tidelog backup from-tiers --store s3://archive/tidelog --data /var/lib/tidelog-restored
tidelog backup from-tiers --store /mnt/archive --cluster 7v9cQ0sHQXaGkzPcXd1r2w --data restored
""",
        '{"data", "partitions": [{"topic", "partition", "start", "end", "bytes", "newest_ms": the newest timestamp}]}',
    ),
)
@store_option
@click.option(
    "--data", required=True, type=click.Path(path_type=Path, file_okay=False), help="The new data directory."
)
@click.option("--cluster", help="The id of the cluster, if the store has several.")
@click.option("--id", "node", type=click.IntRange(0), default=1, show_default=True, help="The broker's id.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def from_tiers(store: str, data: Path, cluster: str | None, node: int, as_json: bool) -> None:
    progress = BytesProgress("read", time.monotonic)
    recovered = run_on_store(_recover(store, data, cluster, node, progress))
    if as_json:
        rows = [
            {
                "topic": each.name.topic,
                "partition": each.name.partition,
                "start": each.start,
                "end": each.end,
                "bytes": each.size,
                "newest_ms": each.newest_ms,
            }
            for each in recovered
        ]
        print_json({"data": str(data), "partitions": rows})
        return
    right = ["PARTITION", "START", "END", "SIZE"]
    print_table(
        ["TOPIC", *right, "UP TO"],
        [
            [*each.name, each.start, each.end, bytes_text(each.size), time_text(max(each.newest_ms, 0))]
            for each in recovered
        ],
        right,
    )
    click.echo(
        f"Start the broker: tidelog serve --data {data} --id {node}.  Set the retention of the topics."
    )


async def _recover(
    store: str, data: Path, cluster: str | None, node: int, progress: BytesProgress
) -> list[RecoveredPartition]:
    from tidelog.backup.data_directory import NewDataDirectory
    from tidelog.backup.tier_recovery import TierRecovery
    from tidelog.storage.tiers.object_store import open_object_store
    from tidelog.types import NodeId

    directory = NewDataDirectory(str(data), NodeId(node))

    def show(done: int, total: int) -> None:
        progress.update(done, done, total)

    try:
        return await TierRecovery(open_object_store(store, "Remote storage"), store, show).run(
            directory, cluster
        )
    finally:
        progress.clear()
        directory.close()
