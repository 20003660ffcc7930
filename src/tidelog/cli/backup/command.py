"""`tidelog backup`: create, list, verify, restore, delete."""

from __future__ import annotations

import importlib
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.backup.store_options import BytesProgress, run_on_store, store_option
from tidelog.cli.output import bytes_text, counted, print_json, print_table, time_text
from tidelog.cli.security.key_options import key_options
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help

if TYPE_CHECKING:
    from tidelog.backup.creating import Created
    from tidelog.backup.manifest import BackupManifest
    from tidelog.backup.repository import BackupRepository
    from tidelog.backup.restoring import RestoredPartition, Selection
    from tidelog.client.cluster.cluster import Cluster
    from tidelog.storage.encryption.key_service import KeyService

Services = Mapping[str, "KeyService"]
CREATED_SHAPE = (
    '{"backup", "store", "cut_ms", "partitions", "bytes", "copied_bytes", "resumed", "removed": [NAME]}'
)


class BackupGroup(click.Group):
    """With the commands of the other files, which import this one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        _load_others()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        _load_others()
        return super().get_command(ctx, cmd_name)


def _load_others() -> None:
    importlib.import_module("tidelog.cli.backup.from_tiers")
    importlib.import_module("tidelog.cli.backup.schedule")


@click.group(cls=BackupGroup, help="Back up a running cluster, and restore it as of any moment.")
def backup() -> None:
    pass


@backup.command(
    help=command_help(
        "Back up all topics, with groups, transactions, acknowledgements of share groups, schemas, settings, users, ACLs "
        "and quotas, as of one moment.  Only what is newer than the backup before is copied.  NAME is the time if it is "
        "left out.  A backup that was interrupted goes on with the same command.  With an authorizer, the user needs "
        "CLUSTER_ACTION on the cluster and READ on all topics.",
        """
tidelog backup create --store /mnt/backups
tidelog backup create nightly-31 --store s3://archive/kafka --keep 14
tidelog backup create --store /mnt/backups --encryption-key file:backups --keys-dir /etc/tidelog/keys
""",
        CREATED_SHAPE,
    )
)
@click.argument("name", required=False)
@store_option
@click.option("--keep", type=click.IntRange(1), help="Afterwards delete all but the newest N backups.")
@click.option(
    "--encryption-key",
    metavar="KEY",
    help="Encrypt backups with file:NAME or vault:NAME.  Decided by the first backup of a store.",
)
@key_options
@broker_options
def create(
    session: CommandSession,
    name: str | None,
    store: str,
    keep: int | None,
    encryption_key: str | None,
    services: Services,
) -> None:
    progress = BytesProgress("copied", time.monotonic)
    created, removed = run_on_store(_create(session, name, store, keep, encryption_key, services, progress))
    if session.json:
        print_json(
            {
                "backup": created.manifest.name,
                "store": store,
                "cut_ms": created.manifest.cut_ms,
                "partitions": len(created.manifest.partitions),
                "bytes": created.manifest.batch_bytes,
                "copied_bytes": created.copied_bytes,
                "resumed": created.resumed,
                "removed": removed,
            }
        )
        return
    print_created(created, removed, progress)


def print_created(created: Created, removed: list[str], progress: BytesProgress) -> None:
    manifest = created.manifest
    click.echo(
        f"{manifest.name}: {counted(len(manifest.partitions), 'partition')} as of {time_text(manifest.cut_ms)}, "
        f"{bytes_text(manifest.batch_bytes)}, of which {bytes_text(created.copied_bytes)} were copied now "
        f"({progress.rate(created.copied_bytes)})"
    )
    for partition in created.skipped:
        click.echo(f"  without {partition.topic}: the topic was deleted meanwhile")
    if removed:
        click.echo(f"  deleted {', '.join(removed)}")


@asynccontextmanager
async def cluster_of(session: CommandSession) -> AsyncIterator[Cluster]:
    from tidelog.client.cluster.addresses import parse_addresses
    from tidelog.client.cluster.cluster import Cluster
    from tidelog.client.cluster.options import ConnectionOptions
    from tidelog.client.environment import Environment

    options = ConnectionOptions(
        client_id="tidelog-backup",
        request_timeout_ms=session.timeout_ms,
        connect_timeout_ms=session.connect_timeout_ms,
        retry_backoff_ms=100,
        retry_backoff_max_ms=1_000,
        security=session.security,
    )
    cluster = Cluster(parse_addresses(session.bootstrap), options, Environment.system())
    try:
        await cluster.open()
        yield cluster
    finally:
        await cluster.close()


async def create_backup(
    session: CommandSession, repository: BackupRepository, name: str | None, progress: BytesProgress
) -> Created:
    from tidelog.backup.creating import BackupCreation

    async with cluster_of(session) as cluster:
        if name is None:
            unfinished = await repository.unfinished()
            name = unfinished[-1] if unfinished else datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        try:
            return await BackupCreation(cluster, repository, session.timeout_ms, progress.update).run(name)
        finally:
            progress.clear()


async def _create(
    session: CommandSession,
    name: str | None,
    store: str,
    keep: int | None,
    key: str | None,
    services: Services,
    progress: BytesProgress,
) -> tuple[Created, list[str]]:
    from tidelog.backup.repository import BackupRepository

    repository = await BackupRepository.open(store, services, key=key, create=True)
    created = await create_backup(session, repository, name, progress)
    return created, await keep_newest(repository, keep) if keep is not None else []


async def keep_newest(repository: BackupRepository, keep: int) -> list[str]:
    """The names of the backups that were deleted."""
    manifests = [await repository.manifest(name) for name in await repository.names()]
    manifests.sort(key=lambda each: each.cut_ms)
    gone = [each.name for each in manifests[:-keep]]
    if gone:
        await repository.forget(gone)
        await repository.remove_unused()
    return gone


@backup.command(
    "list",
    help=command_help(
        "List the backups of a store.",
        """
tidelog backup list --store /mnt/backups
""",
        '[{"backup", "cut_ms", "topics", "partitions", "bytes", "whole": false for an unfinished one}]',
    ),
)
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@key_options
def list_(store: str, as_json: bool, services: Services) -> None:
    whole, unfinished = run_on_store(_list(store, services))
    if as_json:
        print_json([_listed(each, True) for each in whole] + [_listed(each, False) for each in unfinished])
        return
    rows = [
        [
            each.name,
            time_text(each.cut_ms),
            len(each.topics),
            len(each.partitions),
            bytes_text(each.batch_bytes),
            state,
        ]
        for state, manifests in (("whole", whole), ("unfinished", unfinished))
        for each in manifests
    ]
    print_table(
        ["BACKUP", "AS OF", "TOPICS", "PARTITIONS", "SIZE", "STATE"], rows, ["TOPICS", "PARTITIONS", "SIZE"]
    )


def _listed(manifest: BackupManifest, whole: bool) -> dict[str, Any]:
    return {
        "backup": manifest.name,
        "cut_ms": manifest.cut_ms,
        "topics": len(manifest.topics),
        "partitions": len(manifest.partitions),
        "bytes": manifest.batch_bytes,
        "whole": whole,
    }


async def _list(store: str, services: Services) -> tuple[list[BackupManifest], list[BackupManifest]]:
    from tidelog.backup.repository import BackupRepository

    repository = await BackupRepository.open(store, services)
    whole = [await repository.manifest(name) for name in await repository.names()]
    journals = [await repository.journal(name) for name in await repository.unfinished()]
    unfinished = [each for each in journals if each is not None]
    return sorted(whole, key=lambda each: each.cut_ms), sorted(unfinished, key=lambda each: each.cut_ms)


@backup.command(
    help=command_help(
        "Read a backup back (the newest if NAME is left out) and compare every object with its checksum, and every batch "
        "with its own.  The exit code is 1 when anything is missing or damaged.",
        """
tidelog backup verify --store /mnt/backups
tidelog backup verify nightly-31 --store s3://archive/kafka
""",
        '{"backup", "partitions", "bytes", "problems": [TEXT]}',
    )
)
@click.argument("name", required=False)
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@key_options
def verify(name: str | None, store: str, as_json: bool, services: Services) -> None:
    progress = BytesProgress("read", time.monotonic)
    manifest, problems = run_on_store(_verify(name, store, services, progress))
    if as_json:
        print_json(
            {
                "backup": manifest.name,
                "partitions": len(manifest.partitions),
                "bytes": manifest.batch_bytes,
                "problems": problems,
            }
        )
    elif not problems:
        size = manifest.batch_bytes
        click.echo(
            f"{manifest.name}: {counted(len(manifest.partitions), 'partition')}, {bytes_text(size)}, all as they were "
            f"written ({progress.rate(size)})"
        )
    if problems and not as_json:
        raise Failure(*problems)
    if problems:
        click.get_current_context().exit(1)


async def _verify(
    name: str | None, store: str, services: Services, progress: BytesProgress
) -> tuple[BackupManifest, list[str]]:
    from tidelog.backup.repository import BackupRepository
    from tidelog.backup.verifying import verify as read_back

    repository = await BackupRepository.open(store, services)
    manifest = await named_or_newest(repository, name)
    try:
        return manifest, await read_back(
            repository, manifest, lambda done, total: progress.update(done, done, total)
        )
    finally:
        progress.clear()


async def named_or_newest(repository: BackupRepository, name: str | None) -> BackupManifest:
    if name is not None:
        return await repository.manifest(name)
    newest = await repository.newest()
    if newest is None:
        raise Failure(f"There is no whole backup at {repository.url}: `tidelog backup create` makes one.")
    return newest


@backup.command(
    help=command_help(
        "Restore a backup (the newest if NAME is left out) into DIR, the data directory of a new cluster of one broker: "
        "start it with `tidelog serve --data DIR`.  Records keep their offsets; groups, transactions, schemas, users and "
        "all else stand where they stood.  With --at, everything ends at a moment before the backup was taken, by the "
        "timestamps of the records; batches are kept or left out as a whole.",
        """
tidelog backup restore --store /mnt/backups --data /var/lib/restored
tidelog backup restore nightly-31 --store /mnt/backups --data restored --at 2026-01-31T14:02:59Z
tidelog backup restore --store /mnt/backups --data restored --topic orders --as orders-before
tidelog backup restore --store /mnt/backups --at orders-0:4711,orders-1:4698 --dry-run
""",
        '{"backup", "data", "dry_run", "partitions": [{"topic", "partition", "start", "end", "bytes", "left_out": offsets '
        "behind "
        "the point}]}",
    )
)
@click.argument("name", required=False)
@store_option
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="The new data directory.")
@click.option("--at", metavar="TIME|OFFSETS", help="A time (ISO 8601, UTC), or TOPIC-PARTITION:OFFSET,...")
@click.option(
    "--topic", "topics", multiple=True, help="Only this topic, without groups and users; repeatable."
)
@click.option("--as", "new_name", metavar="NAME", help="Another name for the topic.")
@click.option("--id", "node", type=click.IntRange(0), default=1, show_default=True, help="The broker's id.")
@click.option("--dry-run", is_flag=True, help="Show what would be there, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@key_options
def restore(
    name: str | None,
    store: str,
    data: Path | None,
    at: str | None,
    topics: tuple[str, ...],
    new_name: str | None,
    node: int,
    dry_run: bool,
    as_json: bool,
    services: Services,
) -> None:
    from tidelog.backup.restoring import Selection

    if data is None and not dry_run:
        raise click.UsageError("--data DIR says where to restore; --dry-run only shows what would be there.")
    progress = BytesProgress("restored", time.monotonic)
    selection = Selection(topics or None, new_name)
    manifest, restored = run_on_store(
        _restore(name, store, services, None if dry_run else data, at, selection, node, progress)
    )
    if as_json:
        print_json(
            {
                "backup": manifest.name,
                "data": None if data is None else str(data),
                "dry_run": dry_run,
                "partitions": [_restored_json(each, selection) for each in restored],
            }
        )
        return
    print_restored(restored, selection)
    if not dry_run:
        size = sum(each.batch_bytes for each in restored)
        click.echo(
            f"{manifest.name} is restored in {data}: {bytes_text(size)} ({progress.rate(size)}).  Start the broker: tidelog "
            f"serve --data {data} --id {node}"
        )


def _restored_json(restored: RestoredPartition, selection: Selection) -> dict[str, Any]:
    return {
        "topic": selection.name_of(restored.name.topic),
        "partition": restored.name.partition,
        "start": restored.start,
        "end": restored.end,
        "bytes": restored.batch_bytes,
        "left_out": restored.left_out,
    }


def print_restored(restored: list[RestoredPartition], selection: Selection) -> None:
    rows = [
        [
            selection.name_of(each.name.topic),
            each.name.partition,
            each.start,
            each.end,
            bytes_text(each.batch_bytes),
            each.left_out,
        ]
        for each in restored
        if each.end or each.left_out
    ]
    right = ["PARTITION", "START", "END", "SIZE", "LEFT OUT"]
    print_table(["TOPIC", *right], rows, right)
    empty = len(restored) - len(rows)
    if empty:
        click.echo(f"and {counted(empty, 'empty partition')}")


async def _restore(
    name: str | None,
    store: str,
    services: Services,
    data: Path | None,
    at: str | None,
    selection: Selection,
    node: int,
    progress: BytesProgress,
) -> tuple[BackupManifest, list[RestoredPartition]]:
    """`data` None: a dry run."""
    from tidelog.backup.data_directory import NewDataDirectory
    from tidelog.backup.point import parse_point
    from tidelog.backup.repository import BackupRepository
    from tidelog.backup.restoring import Restoration, plan_restore
    from tidelog.types import NodeId

    def show(done: int, total: int) -> None:
        progress.update(done, done, total)

    point = parse_point(at, time.time_ns() // 1_000_000)
    repository = await BackupRepository.open(store, services)
    manifest = await named_or_newest(repository, name)
    try:
        if data is None:
            return manifest, await plan_restore(repository, manifest, point, selection, show)
        restoration = Restoration(repository, manifest, point, selection, show)
        directory = NewDataDirectory(str(data), NodeId(node))
        try:
            return manifest, await restoration.run(directory)
        finally:
            directory.close()
    finally:
        progress.clear()


@backup.command(
    help=command_help(
        "Delete backups, and the objects that no other backup has.",
        """
tidelog backup delete nightly-1 nightly-2 --store /mnt/backups
""",
        '{"deleted": [NAME], "objects": deleted objects; null while a backup is unfinished: they go with a later deletion}',
    )
)
@click.argument("names", nargs=-1, required=True)
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@key_options
def delete(names: tuple[str, ...], store: str, as_json: bool, services: Services) -> None:
    objects = run_on_store(_delete(list(names), store, services))
    if as_json:
        print_json({"deleted": list(names), "objects": objects})
    elif objects is None:
        click.echo(
            f"deleted {', '.join(names)}; the objects go with a later deletion, for a backup is unfinished"
        )
    else:
        click.echo(f"deleted {', '.join(names)} and {counted(objects, 'object')}")


async def _delete(names: list[str], store: str, services: Services) -> int | None:
    from tidelog.backup.repository import BackupRepository

    repository = await BackupRepository.open(store, services)
    unfinished = set(await repository.unfinished())
    whole = [name for name in names if name not in unfinished]
    for name in whole:
        await repository.manifest(name)  # that it is there
    for name in unfinished.intersection(names):
        await repository.forget_journal(name)
    if whole:
        await repository.forget(whole)
    return await repository.remove_unused()
