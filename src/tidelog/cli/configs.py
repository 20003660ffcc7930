"""`tidelog configs`: describe, set, unset."""

from __future__ import annotations

import re
import textwrap

import click

from tidelog.cli.output import print_json, print_table
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, pairs, run

KIND = click.Choice(["topic", "broker", "group"])
DOCS_WIDTH = 96


@click.group(help="Show and change settings of topics, brokers and groups.")
def configs() -> None:
    pass


@configs.command(
    help=command_help(
        "Show settings: value, source and default.  All settings, or only the given KEYs.  The NAME is a "
        "topic, a group or a broker's id; '' stands for the defaults of all brokers.",
        """
tidelog configs describe topic orders
tidelog configs describe topic orders retention.ms --docs
tidelog configs describe broker 1 --changed
""",
        """
{"kind", "name",
 "configs": [{"name", "value", "source", "default", "read_only", "sensitive", "documentation"}]}
documentation is null without --docs; value and default are null for secrets
""",
    )
)
@click.argument("kind", type=KIND)
@click.argument("name")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--changed", is_flag=True, help="Only settings that are not the default.")
@click.option("--docs", is_flag=True, help="Include the documentation of each setting.")
@broker_options
def describe(
    session: CommandSession, kind: str, name: str, keys: tuple[str, ...], changed: bool, docs: bool
) -> None:
    run(_describe(session, kind, name, keys, changed, docs))


async def _describe(
    session: CommandSession, kind: str, name: str, keys: tuple[str, ...], changed: bool, docs: bool
) -> None:
    from tidelog.aio import ConfigResource, ConfigSource

    resource = ConfigResource(kind, name)
    async with session.admin() as admin:
        described = (await admin.describe_configs([resource], keys or None, documentation=docs)).get(
            resource, []
        )
    unknown = sorted(set(keys) - {entry.name for entry in described})
    if unknown:
        raise Failure(f"unknown {kind} settings: {', '.join(unknown)}: check the names")
    if changed:
        described = [entry for entry in described if entry.source != ConfigSource.DEFAULT]
    if session.json:
        entries = [
            {
                "name": entry.name,
                "value": entry.value,
                "source": entry.source.name.lower(),
                "default": entry.default,
                "read_only": entry.read_only,
                "sensitive": entry.sensitive,
                "documentation": entry.documentation,
            }
            for entry in described
        ]
        print_json({"kind": kind, "name": name, "configs": entries})
        return
    rows = [
        (
            entry.name,
            "(secret)" if entry.sensitive else _shown(entry.value),
            entry.source.name.lower().replace("_", " "),
            _shown(entry.default),
        )
        for entry in described
    ]
    print_table(("NAME", "VALUE", "SOURCE", "DEFAULT"), rows)
    for entry in described if docs else ():
        click.echo(f"\n{entry.name}")
        plain = re.sub(r"<[^<>]*>", "", entry.documentation or "not documented")
        click.echo(textwrap.fill(plain, DOCS_WIDTH, initial_indent="  ", subsequent_indent="  "))


@configs.command(
    "set",
    help=command_help(
        "Change settings; settings that are not named stay.",
        """
tidelog configs set topic orders retention.ms=3600000 cleanup.policy=compact
tidelog configs set broker 1 log.cleaner.backoff.ms=5000
""",
        '{"kind", "name", "set": {KEY: VALUE}}',
    ),
)
@click.argument("kind", type=KIND)
@click.argument("name")
@click.argument("changes", nargs=-1, required=True, callback=pairs, metavar="KEY=VALUE...")
@broker_options
def set_(session: CommandSession, kind: str, name: str, changes: dict[str, str]) -> None:
    run(_alter(session, kind, name, dict(changes)))
    if session.json:
        print_json({"kind": kind, "name": name, "set": changes})
    else:
        for key, value in changes.items():
            click.echo(f"{kind} {name}: {key}={value}")


@configs.command(
    help=command_help(
        "Reset settings to their defaults.",
        """
tidelog configs unset topic orders retention.ms
""",
        '{"kind", "name", "unset": [KEY]}',
    )
)
@click.argument("kind", type=KIND)
@click.argument("name")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@broker_options
def unset(session: CommandSession, kind: str, name: str, keys: tuple[str, ...]) -> None:
    run(_alter(session, kind, name, dict.fromkeys(keys)))
    if session.json:
        print_json({"kind": kind, "name": name, "unset": list(keys)})
    else:
        for key in keys:
            click.echo(f"{kind} {name}: {key} reset to its default")


async def _alter(session: CommandSession, kind: str, name: str, changes: dict[str, str | None]) -> None:
    from tidelog.aio import ConfigResource

    async with session.admin() as admin:
        await admin.alter_configs({ConfigResource(kind, name): changes})


def _shown(value: str | None) -> str | None:
    return "''" if value == "" else value
