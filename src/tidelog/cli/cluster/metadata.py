"""`tidelog metadata`: the metadata store that several brokers of one machine share."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tidelog.cli.session import command_help


@click.group(help="Serve the metadata of brokers on one machine.")
def metadata() -> None:
    pass


@metadata.command(
    help=command_help(
        "Run a metadata store for several brokers on this machine until Ctrl-C or SIGTERM, without etcd.  Brokers use it "
        "with `tidelog serve --metadata unix:/DIR/metadata.sock`.  When the store is ready it prints one line: "
        "`ready metadata=unix:/DIR/metadata.sock`.  Only the user that started the store can connect to it.\n\n"
        "It is one process on one disk: brokers on several machines, which must outlive one of them, need etcd.",
        "tidelog metadata serve --data /var/lib/tidelog/metadata",
    )
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("metadata"),
    show_default=True,
    metavar="DIR",
    help="Folder of the store.",
)
def serve(data: Path) -> None:
    from tidelog.app.metadata_server import serve_metadata

    sys.exit(serve_metadata(data))
