"""`tidelog users`: create, list, delete, password."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tidelog.cli.output import counted, print_json, print_table
from tidelog.cli.passwords import password_options, read_password
from tidelog.cli.session import Failure, Session, broker_options, command_help, run

F = TypeVar("F", bound=Callable[..., Any])

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@click.group(help="Create, list and delete users, and set their passwords.")
def users() -> None:
    pass


def _credential_options(command: F) -> F:
    for option in (
        click.option(
            "--iterations",
            type=click.IntRange(4096, 16384),
            default=8192,
            show_default=True,
            help="Rounds of hashing; more rounds make guessing slower, and also each log-in.",
        ),
        click.option(
            "--mechanism",
            "mechanisms",
            type=click.Choice(MECHANISMS),
            multiple=True,
            help="Set the password only for this SASL mechanism; by default for both.",
        ),
    ):
        command = option(command)
    return password_options(command)


@users.command(
    help=command_help(
        "Create a user with a password.  The command prompts for the password, or reads it from a file or standard "
        "input, and sends only its salted hash.",
        """
tidelog users create alice
tidelog users create alice --password-file secret.txt --mechanism SCRAM-SHA-512
""",
        '{"user", "mechanisms": [NAME], "iterations"}',
    )
)
@click.argument("name")
@_credential_options
@broker_options
def create(
    session: Session,
    name: str,
    mechanisms: Sequence[str],
    iterations: int,
    password_file: Path | None,
    password_stdin: bool,
) -> None:
    password = read_password(name, password_file, password_stdin)
    run(_set(session, name, password, mechanisms or MECHANISMS, iterations, there=False))


@users.command(
    help=command_help(
        "Change a user's password.  Open connections of the user stay open.",
        """
tidelog users password alice
tidelog users password alice --password-file secret.txt
""",
        '{"user", "mechanisms": [NAME], "iterations"}',
    )
)
@click.argument("name")
@_credential_options
@broker_options
def password(
    session: Session,
    name: str,
    mechanisms: Sequence[str],
    iterations: int,
    password_file: Path | None,
    password_stdin: bool,
) -> None:
    new = read_password(name, password_file, password_stdin)
    run(_set(session, name, new, mechanisms or MECHANISMS, iterations, there=True))


async def _set(
    session: Session, name: str, password: str, mechanisms: Sequence[str], iterations: int, there: bool
) -> None:
    async with session.admin() as admin:
        known = name in await admin.describe_user_scram_credentials()
        if known and not there:
            raise Failure(f"User {name!r} already exists: `tidelog users password` changes the password.")
        if there and not known:
            raise Failure(f"There is no user {name!r}: `tidelog users create` makes one.")
        for mechanism in mechanisms:
            await admin.alter_user_scram_credentials(
                {name: password}, mechanism=mechanism, iterations=iterations
            )
    if session.json:
        print_json({"user": name, "mechanisms": list(mechanisms), "iterations": iterations})
    else:
        click.echo(f"{name}: password {'changed' if there else 'set'} for {' and '.join(mechanisms)}")


@users.command(
    "list",
    help=command_help(
        "List users with a password, and the SASL mechanisms of each.",
        """
tidelog users list
tidelog users list --json
""",
        '[{"user", "mechanisms": {NAME: ITERATIONS}}]',
    ),
)
@broker_options
def list_(session: Session) -> None:
    run(_list(session))


async def _list(session: Session) -> None:
    async with session.admin() as admin:
        found = await admin.describe_user_scram_credentials()
    if session.json:
        print_json([{"user": name, "mechanisms": mechanisms} for name, mechanisms in found.items()])
        return
    rows = [
        (name, mechanism, iterations)
        for name, mechanisms in found.items()
        for mechanism, iterations in sorted(mechanisms.items())
    ]
    print_table(("USER", "MECHANISM", "ITERATIONS"), rows, right=("ITERATIONS",))


@users.command(
    help=command_help(
        "Delete users, so that they cannot log in.  Their ACLs and quotas stay.",
        """
tidelog users delete alice
""",
        '{"deleted": [NAME]}',
    )
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@broker_options
def delete(session: Session, names: tuple[str, ...]) -> None:
    run(_delete(session, list(dict.fromkeys(names))))
    if session.json:
        print_json({"deleted": list(dict.fromkeys(names))})
    else:
        click.echo(f"{counted(len(set(names)), 'user')} deleted")


async def _delete(session: Session, names: list[str]) -> None:
    async with session.admin() as admin:
        found = await admin.describe_user_scram_credentials()
        unknown = [name for name in names if name not in found]
        if unknown:
            raise Failure(f"There is no user {', '.join(map(repr, unknown))}: nothing was deleted.")
        for mechanism in MECHANISMS:
            held: dict[str, str | None] = {name: None for name in names if mechanism in found[name]}
            if held:
                await admin.alter_user_scram_credentials(held, mechanism=mechanism)
