"""`tidelog keys`: keys of encryption at rest, and what is encrypted with them."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.key_options import key_options, service_of
from tidelog.cli.output import bytes_text, counted, print_json, print_table
from tidelog.cli.session import Failure, command_help

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.storage.encryption.key_service import KeyService
    from tidelog.storage.encryption.key_usage import FileUsage

Services = dict[str, "KeyService"]

_data = click.option(
    "--data",
    "log_dirs",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="A log directory of a broker on this machine; repeat.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@click.group(help="Create, rotate and delete keys of encryption at rest, and show what they encrypt.")
def keys() -> None:
    pass


@contextmanager
def _told() -> Iterator[None]:
    """Errors of keys and disks, as this command tells them."""
    from tidelog.errors import TidelogError

    try:
        yield
    except (TidelogError, OSError) as problem:
        raise Failure(str(problem)) from None


@keys.command(
    help=command_help(
        "Create a key: a file that only you can read, or a key of Vault's transit engine.  Set encryption.key of a topic, "
        "or of the broker, to its name.  Whoever loses the key loses the data: keep a copy of a key file elsewhere.",
        """
tidelog keys create file:orders --keys-dir /etc/tidelog/keys
tidelog keys create vault:orders --vault https://vault:8200 --vault-token-file token
""",
        '{"created": NAME}',
    )
)
@click.argument("name")
@_json
@key_options
def create(name: str, as_json: bool, services: Services) -> None:
    service, short = service_of(services, name)
    with _told():
        service.create(short)
    if as_json:
        print_json({"created": name})
    else:
        click.echo(f"created {name}")


@keys.command(
    "list",
    help=command_help(
        "List keys, with their newest versions.",
        "tidelog keys list --keys-dir /etc/tidelog/keys",
        '[{"key", "newest_version"}]',
    ),
)
@_json
@key_options
def list_keys(as_json: bool, services: Services) -> None:
    if not services:
        raise Failure("name --keys-dir DIR, or --vault URL and --vault-token-file FILE")
    found: list[tuple[str, int]] = []
    with _told():
        for kind, service in services.items():
            found += [(f"{kind}:{short}", service.newest_version(short)) for short in service.names()]
    if as_json:
        print_json([{"key": name, "newest_version": version} for name, version in found])
    else:
        print_table(("KEY", "VERSION"), [(name, str(version)) for name, version in found], right=("VERSION",))


@keys.command(
    help=command_help(
        "Give a key a new version.  Brokers notice within encryption.refresh.ms: new segments get a new data key, and the "
        "old data keys are wrapped with the new version.  No data is written anew.",
        "tidelog keys rotate file:orders --keys-dir /etc/tidelog/keys",
        '{"key": NAME, "newest_version": N}',
    )
)
@click.argument("name")
@_json
@key_options
def rotate(name: str, as_json: bool, services: Services) -> None:
    service, short = service_of(services, name)
    with _told():
        version = service.rotate(short)
    if as_json:
        print_json({"key": name, "newest_version": version})
    else:
        click.echo(f"{name} has version {version} now")


@keys.command(
    help=command_help(
        "Wrap the data keys in log directories with the newest versions of their keys.  A broker that runs does this by "
        "itself: this is for one that is stopped.",
        "tidelog keys rewrap --data data --keys-dir /etc/tidelog/keys",
        '{"data_keys": N, "wrapped": N, "unavailable": [{"key", "problem"}]}',
    )
)
@_data
@_json
@key_options
def rewrap(log_dirs: tuple[Path, ...], as_json: bool, services: Services) -> None:
    import os

    from tidelog.storage.disk import SystemDisk
    from tidelog.storage.encryption.data_keys import DataKeys

    disk = SystemDisk()
    paths = [str(path.absolute()) for path in log_dirs]
    locks: list[Any] = []
    try:
        with _told():
            for path in paths:
                try:
                    locks.append(disk.lock(f"{path}/.lock"))
                except BlockingIOError:
                    raise Failure(
                        f"{path} is in use by a broker, which wraps data keys anew by itself"
                    ) from None
            data_keys = DataKeys(services, [(disk, path) for path in paths], os.urandom, read_only=True)
            data_keys.load()
            before = {key.id: key.version for key in data_keys.keys.values()}
            data_keys = DataKeys(services, [(disk, path) for path in paths], os.urandom)
            data_keys.load()
    finally:
        for lock in locks:
            lock.close()
        disk.close()
    closed = [key for key in data_keys.keys.values() if key.plain is None]
    changed = sum(key.version > before.get(key.id, key.version) for key in data_keys.keys.values())
    if as_json:
        unavailable = [{"key": key.key_name, "problem": key.problem} for key in closed]
        print_json({"data_keys": len(data_keys.keys), "wrapped": changed, "unavailable": unavailable})
    else:
        for key in closed:
            click.echo(f"a data key of {key.key_name} was left as it is: {key.problem}", err=True)
        click.echo(f"{counted(changed, 'data key')} of {len(data_keys.keys)} wrapped with a newer version")
    if closed:
        raise Failure("some data keys are not available")


class Share(NamedTuple):
    """What one key has of one topic."""

    topic: str
    key: str
    version: int
    files: int
    size: int


def _shares(log_dirs: tuple[Path, ...]) -> list[Share]:
    files: Counter[tuple[str, str, int]] = Counter()
    sizes: Counter[tuple[str, str, int]] = Counter()
    with _told():
        for usage in _usages(log_dirs):
            what = (usage.topic, usage.key_name, usage.version)
            files[what] += 1
            sizes[what] += usage.size
    return [Share(*what, files[what], sizes[what]) for what in sorted(files)]


def _usages(log_dirs: tuple[Path, ...]) -> Iterator[FileUsage]:
    import os

    from tidelog.storage.disk import SystemDisk
    from tidelog.storage.encryption.data_keys import DataKeys
    from tidelog.storage.encryption.key_usage import files_of

    disk = SystemDisk()
    try:
        paths = [str(path.absolute()) for path in log_dirs]
        data_keys = DataKeys({}, [(disk, path) for path in paths], os.urandom, read_only=True)
        data_keys.read()
        for path in paths:
            yield from files_of(disk, path, data_keys)
    finally:
        disk.close()


@keys.command(
    help=command_help(
        "Show how much of each topic is encrypted with which key, and how much is plain.  Needs no key, and no broker.",
        """
tidelog keys status --data data
tidelog keys status --data /disk1 --data /disk2 --json
""",
        '[{"topic", "key": NAME or "none", "version", "files", "bytes"}]',
    )
)
@_data
@_json
def status(log_dirs: tuple[Path, ...], as_json: bool) -> None:
    shares = _shares(log_dirs)
    if as_json:
        names = ("topic", "key", "version", "files", "bytes")
        print_json([dict(zip(names, share, strict=True)) for share in shares])
        return
    rows = [
        (share.topic, share.key, str(share.version or ""), str(share.files), bytes_text(share.size) or "")
        for share in shares
    ]
    print_table(("TOPIC", "KEY", "VERSION", "FILES", "SIZE"), rows, right=("VERSION", "FILES", "SIZE"))


@keys.command(
    help=command_help(
        "Delete a key with all its versions.  Nobody can ever read again what is encrypted with it, in log directories, in "
        "backups and on other brokers: deleting the key deletes the data.  Shows what would be lost in the log directories "
        "that are named, and asks.  Brokers stop to serve it within encryption.refresh.ms.",
        """
tidelog keys delete file:orders --keys-dir /etc/tidelog/keys --data data --dry-run
tidelog keys delete file:orders --keys-dir /etc/tidelog/keys --data data
""",
        '{"key": NAME, "deleted": true or false, "lost": [{"topic", "files", "bytes"}]}; it asks nothing, so '
        "add --yes or --dry-run",
    )
)
@click.argument("name")
@_data
@click.option("--dry-run", is_flag=True, help="Only show what would be lost.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json
@key_options
def delete(
    name: str, log_dirs: tuple[Path, ...], dry_run: bool, yes: bool, as_json: bool, services: Services
) -> None:
    service, short = service_of(services, name)
    with _told():
        service.newest_version(short)
    lost = [share for share in _shares(log_dirs) if share.key == name]
    if as_json and not (yes or dry_run):
        raise Failure("--json asks nothing: add --yes or --dry-run")
    if not as_json:
        for share in lost:
            click.echo(f"{share.topic}: {counted(share.files, 'file')}, {bytes_text(share.size)}")
        if not lost:
            click.echo(f"nothing in these log directories is encrypted with {name}")
        if not (yes or dry_run):
            what = "What it encrypts is lost for ever, on other brokers and in backups as well"
            click.confirm(f"Delete {name}?  {what}", abort=True)
    if not dry_run:
        with _told():
            service.delete(short)
    if as_json:
        shares = [{"topic": share.topic, "files": share.files, "bytes": share.size} for share in lost]
        print_json({"key": name, "deleted": not dry_run, "lost": shares})
    else:
        click.echo("nothing was deleted" if dry_run else f"deleted {name}")
