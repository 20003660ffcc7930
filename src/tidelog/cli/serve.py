"""`tidelog serve`: settings from the command line and a file, then the broker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.session import Failure, command_help, pairs

if TYPE_CHECKING:
    from tidelog.app.secure_start import SecureStart
    from tidelog.config.first_users import FirstUser
    from tidelog.metadata.access.access_records import CredentialName

PROTOCOL_MAP = "listener.security.protocol.map"
SECURE_OWNS = (
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "tidelog.metadata",
)


class BadSettings(Failure):
    exit_code = 2


@click.command(
    help=command_help(
        "Run a broker until Ctrl-C or SIGTERM.  When the broker is ready, it prints one line, with the real ports: "
        "`ready kafka=HOST:PORT http=HOST:PORT id=N`.  Logs go to standard error.\n\n"
        "Settings have Kafka's names.  Later sources override earlier ones: defaults, --config, --set, the other "
        "flags.",
        """
tidelog serve
tidelog serve --data /disk1/tidelog --data /disk2/tidelog --listen 0.0.0.0:9092 --advertise broker1:9092
tidelog serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --set num.partitions=6
tidelog serve --config server.properties --id 2
tidelog serve --listen 0.0.0.0:9092 --advertise broker1:9092 --listen HOST://0.0.0.0:19092 --advertise HOST://localhost:19092
tidelog serve --id 2 --metadata etcd://etcd1:2379,etcd2:2379,etcd3:2379
tidelog serve --processes auto
tidelog serve --secure --listen 0.0.0.0:9092 --advertise broker1.example:9092
tidelog serve --config server.properties --add-scram @users.txt
""",
    )
)
@click.option(
    "--data",
    multiple=True,
    metavar="DIR",
    help="Data directory (log.dirs); repeat for several disks.  [default: ./data]",
)
@click.option(
    "--listen",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help="Address for Kafka clients (listeners); port 0 picks a free port; repeat, with a name, for clients that reach the "
    "broker at another address.  [default: 127.0.0.1:9092]",
)
@click.option(
    "--http", metavar="HOST:PORT", help="Address for HTTP (tidelog.http.listen).  [default: 127.0.0.1:8090]"
)
@click.option(
    "--advertise",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help="Address that clients connect to (advertised.listeners); one for each --listen of this name.",
)
@click.option(
    "--id", "node", type=click.IntRange(0), metavar="N", help="The broker's id (node.id).  [default: 1]"
)
@click.option(
    "--metadata",
    metavar="URL",
    help="Where the cluster's metadata lives (tidelog.metadata): sqlite:, etcd://HOST:PORT,HOST:PORT/PREFIX, or "
    "unix:/PATH of `tidelog metadata serve`; brokers with the same one are a cluster.  [default: sqlite:]",
)
@click.option(
    "--metadata-restored",
    "restored",
    is_flag=True,
    help="Start every broker once with this option after the metadata store was restored from a backup.  The best log among "
    "all replicas of a partition then becomes its leader (tidelog.metadata.restored).",
)
@click.option(
    "--forget-missing-directories",
    "forget",
    is_flag=True,
    help="Start the broker once with this option when missing data directories are lost for good.  The broker copies the "
    "replicas that were there from other brokers (tidelog.log.dirs.forget.missing).",
)
@click.option(
    "--processes",
    metavar="N",
    help="Run N brokers as one unit, each a process with a core of its own: ids and ports from the first one on, a part of "
    "each data directory, one log; auto: as many as fit the machine (tidelog.processes).  [default: 1]",
)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings in a Java properties file."
)
@click.option(
    "--secure",
    is_flag=True,
    help="Require a log-in: make TLS certificates (in DATA/secure), turn on ACLs that deny by default, and create a user "
    "`admin`, whose password is printed once.  For one machine; give this option at every later start, too.",
)
@click.option(
    "--add-scram",
    "add_scram",
    multiple=True,
    metavar="ENTRY",
    help="Create this user, if missing, before the broker accepts connections: "
    "'SCRAM-SHA-512=[name=admin,password=secret]', or @FILE with one such entry per line, which keeps passwords out of "
    "the list of processes; repeat.",
)
@click.option("--set", "given", multiple=True, callback=pairs, metavar="KEY=VALUE", help="A setting; repeat.")
def serve(
    data: tuple[str, ...],
    listen: tuple[str, ...],
    http: str | None,
    advertise: tuple[str, ...],
    node: int | None,
    metadata: str | None,
    restored: bool,
    forget: bool,
    processes: str | None,
    config: Path | None,
    secure: bool,
    add_scram: tuple[str, ...],
    given: dict[str, str],
) -> None:
    from tidelog.app.processes.cores import usable_cores
    from tidelog.app.processes.folders import check_single
    from tidelog.config import BrokerConfig
    from tidelog.config.process_count import process_count
    from tidelog.config.providers import resolved
    from tidelog.errors import InvalidConfig

    protocol = "SASL_SSL" if secure else "PLAINTEXT"
    if secure:
        listen = listen or ("127.0.0.1:9092",)
        if max(len(listen), len(advertise)) > 1 or any("://" in address for address in (*listen, *advertise)):
            raise BadSettings("--secure takes one --listen and one --advertise, without names")
    flags = {
        "log.dirs": ",".join(data) or None,
        "listeners": _named(listen, protocol),
        "tidelog.http.listen": http,
        "advertised.listeners": _named(advertise, protocol),
        "node.id": None if node is None else str(node),
        "tidelog.metadata": metadata,
        "tidelog.metadata.restored": "true" if restored else None,
        "tidelog.log.dirs.forget.missing": "true" if forget else None,
        "tidelog.processes": processes,
    }
    try:
        settings = resolved({**_from_file(config), **given})
        first_users = _first_users(add_scram)
        start = None
        if secure:
            start = _secure_start(settings, listen[0], advertise[0] if advertise else None, data, metadata)
            # A proxy in front of the HTTP port may do its TLS.
            with_tls = settings.get("tidelog.http.ssl", start.settings["tidelog.http.ssl"])
            settings.update(start.settings | {"tidelog.http.ssl": with_tls})
            first_users += start.users
        settings.update({name: value for name, value in flags.items() if value is not None})
        _map_names(settings, listen)
        built = BrokerConfig.of(settings)
        count = process_count(built.tidelog_processes, "tidelog.processes", usable_cores())
        if count == 1:
            check_single(built.log_dirs[0])
    except InvalidConfig as problem:
        raise BadSettings(str(problem)) from None

    def users_added(added: frozenset[CredentialName]) -> None:
        _tell_password(start, added)

    if count > 1:
        from tidelog.app.processes.serving import serve_processes

        sys.exit(serve_processes(settings, count, first_users, users_added))
    from tidelog.app.serving import serve as serve_broker

    if not first_users:
        sys.exit(serve_broker(built))
    sys.exit(serve_broker(built, first_users, users_added))


def _named(addresses: tuple[str, ...], protocol: str) -> str | None:
    """In the words of `listeners`; an address without a name has that of its protocol."""
    return (
        ",".join(address if "://" in address else f"{protocol}://{address}" for address in addresses) or None
    )


def _map_names(settings: dict[str, str], listen: tuple[str, ...]) -> None:
    """A name that the command line made up, and no setting says a protocol for, is without TLS and log-in."""
    names = [address.partition("://")[0].upper() for address in listen if "://" in address]
    from tidelog.config.listener_security import PROTOCOLS

    mapping = settings.get(PROTOCOL_MAP) or ",".join(f"{protocol}:{protocol}" for protocol in PROTOCOLS)
    mapped = {entry.strip().partition(":")[0].upper() for entry in mapping.split(",")}
    missing = [f"{name}:PLAINTEXT" for name in dict.fromkeys(names) if name not in mapped]
    if missing:
        settings[PROTOCOL_MAP] = ",".join([mapping, *missing])


def _first_users(entries: tuple[str, ...]) -> list[FirstUser]:
    from tidelog.config.first_users import parse_first_user

    users = []
    for entry in entries:
        lines = _lines(Path(entry[1:])) if entry.startswith("@") else [entry]
        users += [parse_first_user(line) for line in lines if line.strip()]
    return users


def _secure_start(
    settings: dict[str, str], listen: str, advertise: str | None, data: tuple[str, ...], metadata: str | None
) -> SecureStart:
    from tidelog.app.secure_start import set_up
    from tidelog.config.listener import parse_address
    from tidelog.errors import InvalidConfig

    taken = [name for name in SECURE_OWNS if name in settings]
    if taken:
        raise InvalidConfig(f"--secure sets {taken[0]} itself: use --listen and --advertise")
    if metadata is not None:
        raise InvalidConfig(
            "--secure sets up one broker with metadata of its own: docs/guide/security.md says how to secure a cluster"
        )
    given = [(listen, "listeners"), *([(advertise, "advertised.listeners")] if advertise else [])]
    hosts = [parse_address(text, name)[0] for text, name in given]
    folders = data or tuple(settings.get("log.dirs", "data").split(","))
    try:
        return set_up(Path(folders[0].strip()), [host for host in hosts if host not in ("", "0.0.0.0", "::")])
    except OSError as problem:
        raise InvalidConfig(f"--secure: {problem.filename}: {problem.strerror or problem}") from None


def _tell_password(start: SecureStart | None, added: frozenset[CredentialName]) -> None:
    if start is None:
        return
    from tidelog.app.secure_start import ADMIN

    if ADMIN not in {credential.user for credential in added}:
        return
    click.echo(
        f"User {ADMIN} was created with the password below, which is not shown again.  Keep these lines in a file that only "
        "you can read, such as admin.properties, and use it as `tidelog topics list --command-config admin.properties`.  "
        "The console and the other pages of the HTTP port are at https://, with the same user and the same authority:\n",
        err=True,
    )
    click.echo(start.client_settings(), err=True)


def _lines(path: Path) -> list[str]:
    from tidelog.errors import InvalidConfig

    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise InvalidConfig(f"cannot read {path}: {(problem.strerror or str(problem)).lower()}") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"cannot read {path}: it is not UTF-8 text") from None


def _from_file(path: Path | None) -> dict[str, str]:
    from tidelog.config.properties import parse_properties
    from tidelog.errors import InvalidConfig

    if path is None:
        return {}
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InvalidConfig(f"cannot read {path}: {(problem.strerror or str(problem)).lower()}") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"cannot read {path}: it is not UTF-8 text") from None
    except InvalidConfig as problem:
        raise InvalidConfig(f"{path}: {problem}") from None
