"""What the commands that talk to a broker share: their session, and how their failures end.

The client is imported when a command runs, not when its help is shown."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidelog.cli.connection.command_config import ClientLogin
from tidelog.cli.connection.options import (
    BOOTSTRAP,
    Connection,
    Finite,
    bootstrap_option,
    connection_options,
    other_connection,
    take_connection,
)

if TYPE_CHECKING:
    from tidelog.aio import Admin, Security

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "BOOTSTRAP",
    "CommandSession",
    "Failure",
    "Finite",
    "broker_options",
    "command_help",
    "pairs",
    "run",
]


@dataclass(frozen=True, slots=True)
class CommandSession:
    bootstrap: str
    timeout_ms: int
    json: bool
    security: Security | None = field(default=None, repr=False)
    """TLS and the log-in."""
    login: ClientLogin = field(default_factory=ClientLogin, repr=False)
    """Where `security` comes from; the schema registry and other processes make theirs of it."""

    @property
    def connect_timeout_ms(self) -> int:
        """The timeout of one address: the addresses are tried in turn, within the timeout of the command."""
        return max(1, self.timeout_ms // (self.bootstrap.count(",") + 1))

    def admin(self) -> Admin:
        from tidelog.aio import Admin

        return Admin(
            bootstrap_servers=self.bootstrap,
            client_id="tidelog-cli",
            request_timeout_ms=self.timeout_ms,
            connect_timeout_ms=self.connect_timeout_ms,
            security=self.security,
        )

    def other(self, bootstrap: str | None, profile: str | None) -> CommandSession:
        """For a second cluster: of a profile, or at an address, where the log-in is that of the first one."""
        here = Connection(self.bootstrap, "", self.timeout_ms, self.json, self.login)
        there = other_connection(here, bootstrap, profile)
        return replace(self, bootstrap=there.bootstrap, security=there.login.security(), login=there.login)


class Failure(click.ClickException):
    """One or more lines on stderr, exit code 1."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines

    def show(self, file: Any = None) -> None:
        for line in self.lines:
            click.echo(f"Error: {' '.join(line.split())}", file=file, err=True)


def broker_options(command: F) -> F:
    """Adds the options of `connection_options`; the command gets a `CommandSession` first."""

    @functools.wraps(command)
    def with_session(*args: Any, **kwargs: Any) -> Any:
        given = take_connection(kwargs)
        session = CommandSession(
            given.bootstrap, given.timeout_ms, given.json, given.login.security(), given.login
        )
        return command(session, *args, **kwargs)

    return connection_options("broker", bootstrap_option)(with_session)  # type: ignore[return-value]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs the command; each failure becomes one line on stderr."""
    import asyncio

    from tidelog.errors import TidelogError

    try:
        return asyncio.run(main)
    except FileNotFoundError as problem:  # of TLS
        if problem.filename is None:
            raise
        raise Failure(f"{problem.filename}: {problem.strerror}") from None
    except TidelogError as problem:
        raise Failure(str(problem)) from None
    except ExceptionGroup as group:
        refusals, others = group.split(TidelogError)
        if others is not None or refusals is None:
            raise
        raise Failure(*[str(problem) for problem in refusals.exceptions]) from None


def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`key=value`, repeated; for options and arguments."""
    parsed = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE")
        parsed[key.strip()] = value
    return parsed


def command_help(text: str, examples: str, shape: str = "") -> str:
    """A command's help: what it does, examples to copy, and the shape of its JSON."""
    parts = [text.strip(), "\b\nExamples:\n" + _indented(examples)]
    if shape:
        parts.append("\b\nWith --json:\n" + _indented(shape))
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip("\n").splitlines())
