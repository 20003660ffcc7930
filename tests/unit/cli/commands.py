"""The `tidelog` command in tests: in the process for speed, as a process of its own where that matters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner, Result

from tidelog.cli import cli

TIDELOG = str(Path(sys.executable).parent / "tidelog")


def invoke(*arguments: str, input: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=input, catch_exceptions=False, prog_name="tidelog")


def execute(*arguments: str, input: bytes = b"", timeout: float = 60) -> subprocess.CompletedProcess[bytes]:
    env = {key: value for key, value in os.environ.items() if key != "TIDELOG_BOOTSTRAP"}
    return subprocess.run([TIDELOG, *arguments], input=input, capture_output=True, timeout=timeout, env=env)


def leaves(
    command: click.Command = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from leaves(inner, (*path, name))
    else:
        yield path, command
