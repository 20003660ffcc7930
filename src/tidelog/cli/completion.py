"""Names for the completion of the shell: topics, groups and subjects, as the brokers and the registry of the command
line, or of the environment, have them.  Whatever fails completes nothing: a shell shows no errors while somebody types."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.connection.options import Connection, take_connection
from tidelog.cli.session import CommandSession

if TYPE_CHECKING:
    from tidelog.aio import Admin

TIMEOUT_S = 2.0
TIMEOUT_VARIABLE = "TIDELOG_COMPLETION_TIMEOUT"
NAMES_MAX = 1_000

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def names(admin: Admin) -> Iterable[str]:
        return [topic.name for topic in await admin.list_topics(internal=incomplete.startswith("_"))]

    return beginning(incomplete, _asked(ctx, names))


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def names(admin: Admin) -> Iterable[str]:
        return [group.group_id for group in await admin.list_groups()]

    return beginning(incomplete, _asked(ctx, names))


def _asked(ctx: click.Context, names: Callable[[Admin], Any]) -> Sequence[str]:
    import asyncio

    async def ask() -> Sequence[str]:
        given = typed_connection(ctx)
        session = CommandSession(given.bootstrap, timeout_ms(), False, given.login.security())
        async with session.admin() as admin:
            return list(await names(admin))

    try:
        return asyncio.run(asyncio.wait_for(ask(), timeout_ms() / 1000))
    except Exception:  # of any kind: see above
        return []


def timeout_ms() -> int:
    try:
        seconds = float(os.environ.get(TIMEOUT_VARIABLE, TIMEOUT_S))
    except ValueError:
        seconds = TIMEOUT_S
    return max(1, int(min(seconds, 3_600) * 1000)) if seconds > 0 else 1


def typed_connection(ctx: click.Context) -> Connection:
    """The connection that the command line names, as far as it is typed."""
    with ctx.scope(cleanup=False):
        options = {
            param.name: ctx.params.get(param.name) for param in ctx.command.params if param.name is not None
        }
        return take_connection(options)


def beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))[:NAMES_MAX]
