"""What the commands that talk to a broker share: their options, and how their failures end.

The client is imported when a command runs, not when its help is shown."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from tidelog.aio import Admin, Security

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

BOOTSTRAP = "127.0.0.1:9092"


@dataclass(frozen=True, slots=True)
class Session:
    bootstrap: str
    timeout_ms: int
    json: bool
    security: Security | None = field(default=None, repr=False)
    """TLS and the log-in, from --command-config."""
    command_config: Path | None = None

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


class Failure(click.ClickException):
    """One or more lines on stderr, exit code 1."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines

    def show(self, file: Any = None) -> None:
        for line in self.lines:
            click.echo(f"Error: {' '.join(line.split())}", file=file, err=True)


class Finite(click.FloatRange):
    """A number that is neither infinite nor NaN, which every range would accept."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def answer_options(whom: str) -> list[Callable[[F], F]]:
    """The options for the output, and for the timeout of `whom`."""
    return [
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
        click.option(
            "--timeout",
            type=Finite(min=0, min_open=True),
            default=10.0,
            show_default=True,
            metavar="SECONDS",
            help=f"How long to wait for the {whom}.",
        ),
    ]


def command_config_option(help: str) -> Callable[[F], F]:
    return click.option(
        "--command-config",
        type=click.Path(path_type=Path),
        envvar="TIDELOG_COMMAND_CONFIG",
        show_envvar=True,
        metavar="FILE",
        help=help,
    )


def broker_options(command: F) -> F:
    """Adds --bootstrap, --command-config, --timeout and --json; the command gets a `Session` as its first argument."""

    @functools.wraps(command)
    def with_session(
        *args: Any, bootstrap: str, timeout: float, as_json: bool, command_config: Path | None, **kwargs: Any
    ) -> Any:
        security = None
        if command_config is not None:
            from tidelog.cli.command_config import read_security

            security = read_security(command_config)
        session = Session(bootstrap, max(1, int(timeout * 1000)), as_json, security, command_config)
        return command(session, *args, **kwargs)

    wrapped = with_session
    for option in (
        *answer_options("broker"),
        command_config_option("A properties file with the log-in: security.protocol, sasl.* and ssl.*."),
        click.option(
            "--bootstrap",
            envvar="TIDELOG_BOOTSTRAP",
            default=BOOTSTRAP,
            show_default=True,
            show_envvar=True,
            metavar="HOST:PORT[,...]",
            callback=_check_bootstrap,
            help="A bootstrap broker, or several separated by commas.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def _check_bootstrap(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from tidelog.client.cluster.addresses import parse_addresses

    try:
        parse_addresses(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
    return value


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
        known, others = group.split(TidelogError)
        if others is not None or known is None:
            raise
        raise Failure(*[str(problem) for problem in known.exceptions]) from None


def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`key=value`, repeated; for options and arguments."""
    found = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE")
        found[key.strip()] = value
    return found


def command_help(text: str, examples: str, shape: str = "") -> str:
    """A command's help: what it does, examples to copy, and the shape of its JSON."""
    parts = [text.strip(), "\b\nExamples:\n" + _indented(examples)]
    if shape:
        parts.append("\b\nWith --json:\n" + _indented(shape))
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip("\n").splitlines())
