"""`tidelog certs`: an authority and certificates for brokers and clients, in one folder."""

from __future__ import annotations

from pathlib import Path

import click

from tidelog.cli.output import print_json
from tidelog.cli.session import Failure, command_help


@click.command(
    help=command_help(
        "Create certificates for TLS: an authority (ca.pem and ca.key; existing ones are kept), one for each broker, and "
        "one for each client.  Each file for ssl.keystore.location has a key, its certificate and the authority's "
        "certificate, in PEM; ca.pem is for ssl.truststore.location.  Only you can read files with a key.  Do not copy "
        "ca.key to brokers: with this key anybody can make a certificate for any user.",
        """
tidelog certs certs
tidelog certs certs --host broker1.example --host 10.0.0.1
tidelog certs certs --host broker1.example --broker broker1 --client alice --client bob
""",
        '{"written": [PATH]}',
    )
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("localhost", "127.0.0.1", "::1"),
    show_default=True,
    metavar="NAME|ADDRESS",
    help="A name or address under which clients reach the broker; repeat.",
)
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    default=("broker",),
    show_default=True,
    metavar="NAME",
    help="The broker's certificate, in DIR/NAME.pem; repeat for several with the same --host.",
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="A client's certificate, in DIR/NAME.pem; repeat.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=825,
    show_default=True,
    help="How long the certificates are valid; the authority is valid for ten years.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def certs(
    folder: Path,
    hosts: tuple[str, ...],
    brokers: tuple[str, ...],
    clients: tuple[str, ...],
    days: int,
    as_json: bool,
) -> None:
    from tidelog.app.certificates import make_certificates
    from tidelog.errors import InvalidConfig

    try:
        written = make_certificates(folder, hosts, brokers, clients, days)
    except InvalidConfig as problem:
        raise Failure(str(problem)) from None
    except OSError as problem:
        raise Failure(f"{problem.filename or folder}: {(problem.strerror or str(problem)).lower()}") from None
    if as_json:
        print_json({"written": [str(path) for path in written]})
    else:
        for path in written:
            click.echo(str(path))
