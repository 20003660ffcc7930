"""`tidelog backup schedule`: a backup every so often, until it is stopped."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from tidelog.cli.backup.command import backup, create_backup, keep_newest, print_created
from tidelog.cli.backup.store_options import BytesProgress, run_on_store, store_option
from tidelog.cli.output import print_json, time_text
from tidelog.cli.security.key_options import key_options
from tidelog.cli.session import CommandSession, broker_options, command_help

if TYPE_CHECKING:
    from tidelog.backup.creating import Created
    from tidelog.storage.encryption.key_service import KeyService

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_EVERY = re.compile(r"(\d{1,6})([smhd])")


def seconds_of(ctx: click.Context, param: click.Parameter, text: str) -> int:
    """Of 30s, 15m, 6h or 1d."""
    match = _EVERY.fullmatch(text)
    if match is None or not int(match[1]):
        raise click.BadParameter(f"{text!r} is not a time: give 30s, 15m, 6h or 1d")
    return int(match[1]) * _UNITS[match[2]]


def next_time(now_s: float, every_s: int) -> float:
    """Whole multiples since 1970, so that a schedule keeps its times over restarts: 1h is at every full hour, UTC."""
    return (now_s // every_s + 1) * every_s


@backup.command(
    help=command_help(
        "Take a backup now, and then at every full 15 minutes, 6 hours, ... (UTC), until the command is stopped.  A backup "
        "that fails is told on stderr, and the next one goes on with it.  Run it as a service: see the systemd examples of "
        "the guide.",
        """
tidelog backup schedule --every 1h --keep 48 --store s3://archive/kafka
tidelog backup schedule --every 15m --keep 96 --store /mnt/backups
""",
        'one line for each backup: {"backup", "cut_ms", "copied_bytes", "removed": [NAME]}, or {"failed": TEXT}',
    )
)
@store_option
@click.option("--every", required=True, callback=seconds_of, metavar="TIME", help="30s, 15m, 6h, 1d.")
@click.option("--keep", type=click.IntRange(1), help="Delete all but the newest N backups.")
@click.option(
    "--encryption-key",
    metavar="KEY",
    help="Encrypt backups with file:NAME or vault:NAME.  Decided by the first backup of a store.",
)
@click.option("--count", type=click.IntRange(1), help="End after so many backups.")
@key_options
@broker_options
def schedule(
    session: CommandSession,
    store: str,
    every: int,
    keep: int | None,
    encryption_key: str | None,
    count: int | None,
    services: Mapping[str, KeyService],
) -> None:
    done = 0
    while True:
        try:
            _take(session, store, keep, encryption_key, services)
        except click.ClickException as problem:
            if session.json:
                print_json({"failed": problem.format_message()})
            else:
                click.echo(
                    f"{time_text(time.time_ns() // 1_000_000)} failed: {problem.format_message()}", err=True
                )
        done += 1
        if done == count:
            return
        time.sleep(max(0.0, next_time(time.time(), every) - time.time()))


def _take(
    session: CommandSession,
    store: str,
    keep: int | None,
    key: str | None,
    services: Mapping[str, KeyService],
) -> None:
    progress = BytesProgress("copied", time.monotonic)
    created, removed = run_on_store(_create(session, store, keep, key, services, progress))
    if session.json:
        print_json(
            {
                "backup": created.manifest.name,
                "cut_ms": created.manifest.cut_ms,
                "copied_bytes": created.copied_bytes,
                "removed": removed,
            }
        )
    else:
        print_created(created, removed, progress)


async def _create(
    session: CommandSession,
    store: str,
    keep: int | None,
    key: str | None,
    services: Mapping[str, KeyService],
    progress: BytesProgress,
) -> tuple[Created, list[str]]:
    from tidelog.backup.repository import BackupRepository

    repository = await BackupRepository.open(store, services, key=key, create=True)
    created = await create_backup(session, repository, None, progress)
    return created, await keep_newest(repository, keep) if keep is not None else []
