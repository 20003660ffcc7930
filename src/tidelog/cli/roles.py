"""`tidelog roles`: grant, revoke, list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.acl_words import ACL_COLUMNS, ACL_SHAPE, acl_json, acl_row, principal
from tidelog.cli.output import counted, print_json, print_table
from tidelog.cli.session import Failure, Session, broker_options, command_help, run
from tidelog.wire.acls import WILDCARD, AclBinding, AclFilter

if TYPE_CHECKING:
    from tidelog.access.roles import RoleGrant

ROLE = click.Choice(["admin", "operator", "producer", "consumer", "viewer"])
PREFIX = click.option(
    "--prefix",
    default=WILDCARD,
    show_default=True,
    help="The prefix of topics, groups and transactional ids; * stands for all of them and the cluster.",
)


@click.group(help="Grant and revoke sets of ACLs: admin, operator, producer, consumer, viewer.")
def roles() -> None:
    pass


def _grant(principal: str, role: str, prefix: str) -> RoleGrant:
    from tidelog.access.roles import Role, RoleGrant

    if not prefix:
        raise click.UsageError("--prefix is empty: * is everything.")
    return RoleGrant(principal, Role(role), prefix)


def _show(session: Session, word: str, bindings: list[AclBinding]) -> None:
    if session.json:
        print_json({word: [acl_json(one) for one in bindings]})
        return
    print_table(ACL_COLUMNS, [acl_row(one) for one in bindings])
    click.echo(f"{counted(len(bindings), 'ACL')} {word}")


@roles.command(
    help=command_help(
        "Give a principal a role: admin does everything; operator manages topics and groups and sees no records; "
        "producer writes; consumer reads in groups; viewer sees names, settings and offsets.  A role is a set of ACLs: "
        "Kafka's tools and `tidelog acls list` show them.",
        """
tidelog roles grant alice producer --prefix sales.
tidelog roles grant Group:operations operator
""",
        f'{{"granted": [{ACL_SHAPE}]}}',
    )
)
@click.argument("principal", callback=principal)
@click.argument("role", type=ROLE)
@PREFIX
@broker_options
def grant(session: Session, principal: str, role: str, prefix: str) -> None:
    bindings = _grant(principal, role, prefix).bindings()
    run(_create(session, bindings))
    _show(session, "granted", bindings)


async def _create(session: Session, bindings: list[AclBinding]) -> None:
    async with session.admin() as admin:
        await admin.create_acls(bindings)


@roles.command(
    help=command_help(
        "Revoke a role of a principal.  ACLs that another role of the principal needs stay.",
        """
tidelog roles revoke alice producer --prefix sales.
""",
        f'{{"revoked": [{ACL_SHAPE}]}}',
    )
)
@click.argument("principal", callback=principal)
@click.argument("role", type=ROLE)
@PREFIX
@broker_options
def revoke(session: Session, principal: str, role: str, prefix: str) -> None:
    _show(session, "revoked", run(_revoke(session, _grant(principal, role, prefix))))


async def _revoke(session: Session, wanted: RoleGrant) -> list[AclBinding]:
    from tidelog.access.roles import held_roles, revocable

    async with session.admin() as admin:
        there = await admin.describe_acls(AclFilter(principal=wanted.principal))
        if wanted not in held_roles(there):
            raise Failure(f"{wanted.principal} does not have the role {wanted.role} on {wanted.prefix}.")
        gone = revocable(wanted, there)
        await admin.delete_acls([AclFilter(*binding) for binding in gone])
    return gone


@roles.command(
    "list",
    help=command_help(
        "List the roles of principals.  A principal has a role if all ACLs of the role exist.",
        """
tidelog roles list
tidelog roles list --principal alice
""",
        '[{"principal", "role", "prefix"}]',
    ),
)
@click.option("--principal", callback=principal, help="A user's name, User:NAME or Group:NAME.")
@broker_options
def list_(session: Session, principal: str | None) -> None:
    found = run(_list(session, principal))
    if session.json:
        print_json(found)
    else:
        print_table(("PRINCIPAL", "ROLE", "PREFIX"), [tuple(one.values()) for one in found])


async def _list(session: Session, principal: str | None) -> list[dict[str, Any]]:
    from tidelog.access.roles import held_roles

    async with session.admin() as admin:
        there = await admin.describe_acls(AclFilter(principal=principal))
    return [
        {"principal": one.principal, "role": str(one.role), "prefix": one.prefix} for one in held_roles(there)
    ]
