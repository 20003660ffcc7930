"""`tidelog acls`: create, list, delete, explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.acl_words import (
    ACL_COLUMNS,
    ACL_SHAPE,
    OPERATION,
    OPERATIONS,
    Resource,
    acl_json,
    acl_row,
    principal,
    resource,
)
from tidelog.cli.output import counted, plain, print_json, print_table
from tidelog.cli.session import Session, broker_options, command_help, run
from tidelog.wire.acls import (
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

if TYPE_CHECKING:
    from tidelog.aio import Admin

SUPER_USERS, EVERYONE = "super.users", "allow.everyone.if.no.acl.found"


@click.group(help="Create, list, delete and explain ACLs.")
def acls() -> None:
    pass


@acls.command(
    help=command_help(
        "Allow (or deny) a principal operations on a resource.  DENY takes precedence over ALLOW.  A PRINCIPAL is a "
        "user's name, User:NAME or Group:NAME; User:* is everybody.  A RESOURCE is topic:NAME, group:NAME, "
        "transactional-id:NAME, token:ID, user:PRINCIPAL or cluster; a NAME that ends with * is a prefix.",
        """
tidelog acls create alice topic:orders read describe
tidelog acls create Group:billing 'topic:invoices.*' read write
tidelog acls create 'User:*' topic:secrets all --deny --host 10.0.0.9
""",
        f'{{"created": [{ACL_SHAPE}]}}',
    )
)
@click.argument("principal", callback=principal)
@click.argument("resource", callback=resource)
@click.argument("operations", nargs=-1, required=True, type=OPERATION, metavar="OPERATION...")
@click.option("--deny", is_flag=True, help="Deny instead of allow.")
@click.option("--host", default=WILDCARD, show_default=True, help="Only from this address.")
@broker_options
def create(
    session: Session,
    principal: str,
    resource: Resource,
    operations: tuple[str, ...],
    deny: bool,
    host: str,
) -> None:
    permission = AclPermission.DENY if deny else AclPermission.ALLOW
    wanted = [
        AclBinding(*resource, principal, host, OPERATIONS[one], permission)
        for one in dict.fromkeys(operations)
    ]
    run(_create(session, wanted))
    if session.json:
        print_json({"created": [acl_json(one) for one in wanted]})
    else:
        print_table(ACL_COLUMNS, [acl_row(one) for one in wanted])


async def _create(session: Session, wanted: list[AclBinding]) -> None:
    async with session.admin() as admin:
        await admin.create_acls(wanted)


def _filter(
    principal: str | None, resource: Resource | None, operation: str | None, host: str | None
) -> AclFilter:
    kind, pattern, name = resource or (AclResourceType.ANY, AclPatternType.ANY, None)
    wanted = AclOperation.ANY if operation is None else OPERATIONS[operation]
    return AclFilter(kind, pattern, name, principal, host, wanted)


@acls.command(
    "list",
    help=command_help(
        "List all ACLs, or only those that match the given options.  With --matching, list all ACLs that apply to the "
        "resource, also those for a prefix or for *.",
        """
tidelog acls list
tidelog acls list --principal alice
tidelog acls list --resource topic:orders --matching
""",
        f"[{ACL_SHAPE}]",
    ),
)
@click.option("--principal", callback=principal, help="A user's name, User:NAME or Group:NAME.")
@click.option("--resource", callback=resource, help="As for `acls create`.")
@click.option("--operation", type=OPERATION, metavar="OPERATION", help="Only this operation.")
@click.option("--matching", is_flag=True, help="Also ACLs whose prefix or * matches the resource.")
@broker_options
def list_(
    session: Session,
    principal: str | None,
    resource: Resource | None,
    operation: str | None,
    matching: bool,
) -> None:
    wanted = _filter(principal, resource, operation, None)
    if matching:
        if resource is None or resource[1] is AclPatternType.PREFIXED:
            raise click.UsageError("--matching needs --resource with the whole name of a resource.")
        wanted = wanted._replace(pattern_type=AclPatternType.MATCH)
    found = run(_list(session, wanted))
    if session.json:
        print_json([acl_json(one) for one in found])
    else:
        print_table(ACL_COLUMNS, [acl_row(one) for one in found])


async def _list(session: Session, wanted: AclFilter) -> list[AclBinding]:
    async with session.admin() as admin:
        return await admin.describe_acls(wanted)


@acls.command(
    help=command_help(
        "Delete the ACLs that match all given options.",
        """
tidelog acls delete --principal alice --resource topic:orders
tidelog acls delete --principal alice --operation write
""",
        f'{{"deleted": [{ACL_SHAPE}]}}',
    )
)
@click.option("--principal", callback=principal, help="A user's name, User:NAME or Group:NAME.")
@click.option("--resource", callback=resource, help="As for `acls create`.")
@click.option("--operation", type=OPERATION, metavar="OPERATION", help="Only this operation.")
@click.option("--host", help="Only ACLs for this address.")
@broker_options
def delete(
    session: Session,
    principal: str | None,
    resource: Resource | None,
    operation: str | None,
    host: str | None,
) -> None:
    if (principal, resource, operation, host) == (None, None, None, None):
        raise click.UsageError("Select ACLs with --principal, --resource, --operation or --host.")
    gone = run(_delete(session, _filter(principal, resource, operation, host)))
    if session.json:
        print_json({"deleted": [acl_json(one) for one in gone]})
        return
    print_table(ACL_COLUMNS, [acl_row(one) for one in gone])
    click.echo(f"{counted(len(gone), 'ACL')} deleted")


async def _delete(session: Session, wanted: AclFilter) -> list[AclBinding]:
    async with session.admin() as admin:
        return await admin.delete_acls(wanted)


@acls.command(
    help=command_help(
        "Show whether a principal may perform an operation on a resource, and which ACL decides.  The exit code is 1 if "
        "the operation is denied.",
        """
tidelog acls explain alice read topic:orders
tidelog acls explain alice write topic:orders --host 10.0.0.9 --group staff
""",
        f"""
{{"allowed", "reason", "rule": {ACL_SHAPE} or null, "roles": [{{"role", "prefix"}}]}}
reason: "super user", "acl", "no acl matches" or "the resource has no acl"
""",
    )
)
@click.argument("principal", callback=principal)
@click.argument("operation", type=OPERATION, metavar="OPERATION")
@click.argument("resource", callback=resource)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address of the client.")
@click.option("--group", "groups", multiple=True, help="A group of the user, as in a token; repeat.")
@broker_options
def explain(
    session: Session,
    principal: str,
    operation: str,
    resource: Resource,
    host: str,
    groups: tuple[str, ...],
) -> None:
    kind, pattern, name = resource
    if pattern is AclPatternType.PREFIXED or name == WILDCARD:
        raise click.UsageError("RESOURCE must be one resource, not a pattern.")
    names = [one if ":" in one else f"Group:{one}" for one in groups]
    answer = run(_explain(session, principal, OPERATIONS[operation], kind, name, host, names))
    if session.json:
        print_json(answer)
    else:
        outcome = "may" if answer["allowed"] else "may not"
        click.echo(plain(f"{principal} {outcome} {operation} {kind.name.lower()} {name} from {host}"))
        click.echo(f"because: {answer['reason']}")
        if answer["rule"] is not None:
            rule = answer["rule"]
            words = (rule["permission"], rule["principal"], rule["operation"], rule["resource"])
            click.echo(plain(f"rule: {' '.join(words)} from {rule['host']}"))
        for role in answer["roles"]:
            click.echo(plain(f"role: {role['role']} on {role['prefix']}"))
    if not answer["allowed"]:
        raise SystemExit(1)


async def _explain(
    session: Session,
    principal: str,
    operation: AclOperation,
    kind: AclResourceType,
    name: str,
    host: str,
    groups: list[str],
) -> dict[str, Any]:
    from tidelog.access.acls import Authorizer, parse_super_users
    from tidelog.access.roles import explaining

    async with session.admin() as admin:
        bindings = await admin.describe_acls()
        settings = await _settings(admin)
    super_users = parse_super_users(settings.get(SUPER_USERS))
    authorizer = Authorizer(bindings, super_users, settings.get(EVERYONE) == "true")
    decision = authorizer.decide(principal, host, operation, kind, name, groups)
    roles = [] if decision.rule is None else explaining(decision.rule, bindings)
    return {
        "allowed": decision.allowed,
        "reason": str(decision.reason),
        "rule": None if decision.rule is None else acl_json(decision.rule),
        "roles": [{"role": str(one.role), "prefix": one.prefix} for one in roles],
    }


async def _settings(admin: Admin) -> dict[str, str | None]:
    """What one broker says about super users; the others should say the same."""
    from tidelog.aio import ConfigResource

    node = min((await admin.describe_cluster()).nodes)
    found = await admin.describe_configs([ConfigResource("broker", str(node))], [SUPER_USERS, EVERYONE])
    return {one.name: one.value for entries in found.values() for one in entries}
