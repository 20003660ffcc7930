"""`tidelog quotas`: set, list, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tidelog.cli.output import print_json, print_table
from tidelog.cli.session import Failure, Session, broker_options, command_help, pairs, run
from tidelog.wire.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT_ENTITY,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)

F = TypeVar("F", bound=Callable[..., Any])

KEYS = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
    CONNECTION_CREATION_RATE,
)
WHOM = "Select the entity with --user, --client-id, both, or --ip; a --default- option selects all entities without a quota."


@click.group(help="Set, list and delete client quotas.")
def quotas() -> None:
    pass


def _entity_options(command: F) -> F:
    for option in (
        click.option("--default-ip", is_flag=True, help="Every address without a quota."),
        click.option("--ip", metavar="ADDRESS", help="One address; for connection_creation_rate."),
        click.option("--default-client-id", is_flag=True, help="Every client id without a quota."),
        click.option("--client-id", metavar="ID", help="One client id."),
        click.option("--default-user", is_flag=True, help="Every user without a quota."),
        click.option("--user", metavar="NAME", help="One user, without the prefix User:."),
    ):
        command = option(command)
    return command


def _entity(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
) -> QuotaEntity:
    parts = []
    for name, value, default in (
        ("user", user, default_user),
        ("client-id", client_id, default_client_id),
        ("ip", ip, default_ip),
    ):
        if value is not None and default:
            raise click.UsageError(f"--{name} and --default-{name} cannot be combined.")
        if value == "":
            raise click.UsageError(f"--{name} is empty.")
        parts.append(DEFAULT_ENTITY if default else value)
    return QuotaEntity(*parts)


def _entity_json(entity: QuotaEntity) -> dict[str, str | None]:
    return {kind.replace("-", "_"): name or None for kind, name in entity.parts().items()}


def _amount(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


@quotas.command(
    "set",
    help=command_help(
        f"Set quotas; other quotas stay.  {WHOM}  Keys: producer_byte_rate and consumer_byte_rate (bytes a second, "
        "of each broker), request_percentage (of one thread's time), controller_mutation_rate (partitions a second), "
        "connection_creation_rate (connections a second).",
        """
tidelog quotas set --user alice producer_byte_rate=10485760 consumer_byte_rate=20971520
tidelog quotas set --default-user --default-client-id request_percentage=50
tidelog quotas set --default-ip connection_creation_rate=20
""",
        '{"entity": {"user"|"client_id"|"ip": NAME, null: the default}, "set": {KEY: VALUE}}',
    ),
)
@click.argument("values", nargs=-1, required=True, callback=pairs, metavar="KEY=VALUE...")
@_entity_options
@broker_options
def set_(session: Session, values: dict[str, str], **whom: Any) -> None:
    entity = _named(_entity(**whom))
    changes: dict[str, float | None] = {}
    for key, text in values.items():
        _check_key(key)
        try:
            changes[key] = float(text)
        except ValueError:
            raise click.UsageError(f"{key} must be a number, not {text!r}.") from None
    run(_alter(session, entity, changes))
    if session.json:
        print_json({"entity": _entity_json(entity), "set": changes})
    else:
        for key, text in values.items():
            click.echo(f"{entity}: {key}={text}")


@quotas.command(
    "list",
    help=command_help(
        "List all quotas, or those of the selected entities.",
        """
tidelog quotas list
tidelog quotas list --user alice --json
""",
        '[{"entity": {"user"|"client_id"|"ip": NAME, null: the default}, "quotas": {KEY: VALUE}}]',
    ),
)
@_entity_options
@broker_options
def list_(session: Session, **whom: Any) -> None:
    entity = _entity(**whom)
    found = run(_list(session, entity if entity.parts() else None))
    if session.json:
        print_json([{"entity": _entity_json(one), "quotas": values} for one, values in found.items()])
        return
    rows = [
        (*("<default>" if part == DEFAULT_ENTITY else part for part in one[:3]), key, _amount(value))
        for one, values in found.items()
        for key, value in sorted(values.items())
    ]
    print_table(("USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"), rows, right=("VALUE",))


async def _list(session: Session, entity: QuotaEntity | None) -> dict[QuotaEntity, dict[str, float]]:
    async with session.admin() as admin:
        quotas = await admin.describe_client_quotas(entity)
        return {one: values for one, values in quotas.items() if one.tenant is None}


@quotas.command(
    help=command_help(
        "Delete quotas of an entity: the given KEYs, or all.",
        """
tidelog quotas delete --user alice
tidelog quotas delete --default-user request_percentage
""",
        '{"entity": {"user"|"client_id"|"ip": NAME, null: the default}, "deleted": [KEY]}',
    )
)
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@_entity_options
@broker_options
def delete(session: Session, keys: tuple[str, ...], **whom: Any) -> None:
    entity = _named(_entity(**whom))
    for key in keys:
        _check_key(key)
    gone = run(_delete(session, entity, keys))
    if session.json:
        print_json({"entity": _entity_json(entity), "deleted": gone})
    else:
        click.echo(f"{entity}: deleted {', '.join(gone)}")


async def _delete(session: Session, entity: QuotaEntity, keys: tuple[str, ...]) -> list[str]:
    async with session.admin() as admin:
        held = (await admin.describe_client_quotas(entity, strict=True)).get(entity, {})
        missing = [key for key in keys if key not in held]
        if missing or not held:
            raise Failure(f"{entity} has no quota{' ' if missing else ''}{', '.join(missing)}.")
        gone = list(keys) or sorted(held)
        await admin.alter_client_quotas({entity: dict.fromkeys(gone)})
    return gone


async def _alter(session: Session, entity: QuotaEntity, changes: dict[str, float | None]) -> None:
    async with session.admin() as admin:
        await admin.alter_client_quotas({entity: changes})


def _named(entity: QuotaEntity) -> QuotaEntity:
    if not entity.parts():
        raise click.UsageError("Select an entity with --user, --client-id, --ip, or a --default- option.")
    return entity


def _check_key(key: str) -> None:
    if key not in KEYS:
        import difflib

        near = difflib.get_close_matches(key, KEYS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}."
        raise click.UsageError(f"There is no quota {key!r}: {hint}")
