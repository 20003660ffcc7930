"""Where a command gets a password from: a prompt, standard input or a file; never an argument, which everybody on the
machine can read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PASSWORD_BYTES_MAX = 4_096


def password_options(command: F) -> F:
    """Adds --password-file and --password-stdin; `read_password` takes them."""
    for option in (
        click.option("--password-stdin", is_flag=True, help="Read the password from standard input."),
        click.option(
            "--password-file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Read the password from a file, without the line end at its end.",
        ),
    ):
        command = option(command)
    return command


def read_password(user: str, file: Path | None, stdin: bool) -> str:
    """UsageError when there is none."""
    if file is not None and stdin:
        raise click.UsageError("--password-file and --password-stdin cannot be combined.")
    if file is not None:
        return read_password_file(file)
    if stdin:
        data = sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 1)
    elif sys.stdin.isatty():
        data = click.prompt(f"Password for {user}", hide_input=True, confirmation_prompt=True).encode()
    else:
        raise click.UsageError(
            "There is no terminal to ask for the password: use --password-stdin or --password-file."
        )
    return _checked(data)


def read_password_file(file: Path) -> str:
    try:
        with file.open("rb") as source:
            return _checked(source.read(PASSWORD_BYTES_MAX + 1))
    except OSError as problem:
        raise click.UsageError(f"The password file cannot be read: {problem}.") from None


def _checked(data: bytes) -> str:
    if len(data) > PASSWORD_BYTES_MAX:
        raise click.UsageError(f"The password is longer than {PASSWORD_BYTES_MAX} bytes.")
    try:
        password = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise click.UsageError("The password is not UTF-8.") from None
    if not password:
        raise click.UsageError("The password is empty.")
    return password
