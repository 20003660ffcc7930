"""`tidelog log repair`: gives up records that are damaged, so that readers get past them.  For a broker that is stopped."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.key_options import disk_of_partition, key_options
from tidelog.cli.output import bytes_text, counted, print_json, time_text
from tidelog.cli.session import Failure, command_help

if TYPE_CHECKING:
    from tidelog.storage.integrity.salvage import Loss


@click.command(
    help=command_help(
        "Show the damaged records of a partition on this machine.  With --execute, replace them by an empty batch, which "
        "every client skips, and keep the damaged bytes in files that end in .rotten.  Use this command only if no other "
        "replica has the records; otherwise the cluster repairs the partition.  Stop the broker first.  The exit code is "
        "1 when damaged records remain.",
        """
tidelog log repair data/orders-0
tidelog log repair data/orders-0 --execute
tidelog log repair orders-0 --log-dir /var/lib/tidelog
""",
        '{"partition", "ranges": [{"start_offset", "end_offset", "bytes", "segment", "after_timestamp", '
        '"before_timestamp"}], "repaired": true or false, "given_up": [{"start_offset", "end_offset"}] for earlier '
        "repairs}; times in milliseconds are those of the batches around the damage, or null",
    )
)
@click.argument("partition", type=click.Path(path_type=Path))
@click.option(
    "--log-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="The log directory that has the partition.",
)
@click.option(
    "--execute", is_flag=True, help="Give the damaged records up.  Without --execute nothing is changed."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@key_options
def repair(
    partition: Path, log_dir: Path | None, execute: bool, as_json: bool, services: dict[str, Any]
) -> None:
    from tidelog.errors import TidelogError
    from tidelog.storage.integrity.salvage import find_losses, give_up_losses, read_lost

    folder = (partition if log_dir is None else log_dir / partition).absolute()
    if not folder.is_dir() or not any(folder.glob("*.log")):
        raise Failure(f"{folder} is not the folder of a partition: name a folder with .log files")
    try:
        disk = disk_of_partition(services, folder, read_only=not execute)
    except OSError as problem:
        raise Failure(f"cannot read the keys of {folder}: {problem}") from None
    try:
        given_up = read_lost(disk, str(folder))
        losses = find_losses(disk, str(folder))
        if execute and losses:
            give_up_losses(disk, str(folder), losses)
    except TidelogError as problem:
        raise Failure(str(problem)) from None
    except OSError as problem:
        if problem.errno == errno.ENOKEY:
            raise Failure(f"{folder} is encrypted: {problem}") from None
        raise Failure(f"cannot repair {folder}: {(problem.strerror or str(problem)).lower()}") from None
    finally:
        disk.close()
    if as_json:
        ranges = [_item(loss) for loss in losses]
        before = [{"start_offset": bad.start, "end_offset": bad.end} for bad in given_up]
        print_json({"partition": folder.name, "ranges": ranges, "repaired": execute, "given_up": before})
    else:
        for bad in given_up:
            click.echo(f"{folder.name}: offsets {bad.start}..{bad.end - 1} were given up earlier")
        _print(folder, losses, execute)
    if losses and not execute:
        click.get_current_context().exit(1)


def _item(loss: Loss) -> dict[str, Any]:
    bad = loss.bad
    return {
        "start_offset": bad.start,
        "end_offset": bad.end,
        "bytes": bad.size,
        "segment": bad.base,
        "after_timestamp": loss.after_ms if loss.after_ms >= 0 else None,
        "before_timestamp": loss.before_ms if loss.before_ms >= 0 else None,
    }


def _print(folder: Path, losses: list[Loss], executed: bool) -> None:
    if not losses:
        click.echo(f"{folder.name}: nothing is damaged")
        return
    for loss in losses:
        bad = loss.bad
        after = time_text(loss.after_ms) if loss.after_ms >= 0 else "the beginning"
        before = time_text(loss.before_ms) if loss.before_ms >= 0 else "the end"
        click.echo(
            f"{folder.name}: offsets {bad.start}..{bad.end - 1} are damaged ({counted(bad.end - bad.start, 'offset')}, "
            f"{bytes_text(bad.size)}, between {after} and {before}) in {bad.base:020d}.log"
        )
    if executed:
        click.echo("given up: readers skip them; the damaged bytes are kept in files that end in .rotten")
    else:
        click.echo("nothing was changed: --execute gives these records up for good")
