"""`tidelog serve`: settings from the command line and a file, then the broker."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tidelog.cli.session import Failure, command_help, pairs


class BadSettings(Failure):
    exit_code = 2


@click.command(
    help=command_help(
        "Run a broker until Ctrl-C or SIGTERM.  When it is ready it prints one line, with the real ports: "
        "`ready kafka=HOST:PORT http=HOST:PORT id=N`.  Logs go to standard error.\n\n"
        "Settings have Kafka's names.  Later sources override earlier ones: defaults, --config, --set, the other "
        "flags.",
        """
tidelog serve
tidelog serve --data /disk1/tidelog --data /disk2/tidelog --listen 0.0.0.0:9092 --advertise broker1:9092
tidelog serve --listen 127.0.0.1:0 --http 127.0.0.1:0 --set num.partitions=6
tidelog serve --config server.properties --id 2
tidelog serve --id 2 --metadata etcd://etcd1:2379,etcd2:2379,etcd3:2379
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
    metavar="HOST:PORT",
    help="Address for Kafka clients (listeners); port 0 picks a free port.  [default: 127.0.0.1:9092]",
)
@click.option(
    "--http", metavar="HOST:PORT", help="Address for HTTP (tidelog.http.listen).  [default: 127.0.0.1:8090]"
)
@click.option(
    "--advertise", metavar="HOST:PORT", help="Address that clients connect to (advertised.listeners)."
)
@click.option(
    "--id", "node", type=click.IntRange(0), metavar="N", help="The broker's id (node.id).  [default: 1]"
)
@click.option(
    "--metadata",
    metavar="URL",
    help="Where the cluster's metadata lives (tidelog.metadata): sqlite: or etcd://HOST:PORT,HOST:PORT/PREFIX; "
    "brokers with the same one are a cluster.  [default: sqlite:]",
)
@click.option(
    "--metadata-restored",
    "restored",
    is_flag=True,
    help="The metadata store was restored from a backup: start every broker with this once.  Each partition is led by the "
    "best log among all of its replicas (tidelog.metadata.restored).",
)
@click.option(
    "--forget-missing-directories",
    "forget",
    is_flag=True,
    help="Data directories that this broker had and that are not there now are gone for good: start it with this once.  "
    "Its replicas there are copied anew from other brokers (tidelog.log.dirs.forget.missing).",
)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings in a Java properties file."
)
@click.option("--set", "given", multiple=True, callback=pairs, metavar="KEY=VALUE", help="A setting; repeat.")
def serve(
    data: tuple[str, ...],
    listen: str | None,
    http: str | None,
    advertise: str | None,
    node: int | None,
    metadata: str | None,
    restored: bool,
    forget: bool,
    config: Path | None,
    given: dict[str, str],
) -> None:
    from tidelog.config import BrokerConfig
    from tidelog.errors import InvalidConfig

    flags = {
        "log.dirs": ",".join(data) or None,
        "listeners": f"PLAINTEXT://{listen}" if listen else None,
        "tidelog.http.listen": http,
        "advertised.listeners": f"PLAINTEXT://{advertise}" if advertise else None,
        "node.id": None if node is None else str(node),
        "tidelog.metadata": metadata,
        "tidelog.metadata.restored": "true" if restored else None,
        "tidelog.log.dirs.forget.missing": "true" if forget else None,
    }
    try:
        settings = {**_from_file(config), **given}
        settings.update({name: value for name, value in flags.items() if value is not None})
        built = BrokerConfig.of(settings)
    except InvalidConfig as problem:
        raise BadSettings(str(problem)) from None
    from tidelog.app.lifecycle import serve as serve_broker

    sys.exit(serve_broker(built))


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
