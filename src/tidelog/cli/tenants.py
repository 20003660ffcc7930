"""`tidelog tenants`: create, list, limits, members, usage, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import click

from tidelog.cli.output import bytes_text, print_json, print_table
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, pairs, run
from tidelog.metadata.tenants import ENABLED, LIMITS, MEMBER, USER_SEPARATOR, is_tenant_name, prefix_of
from tidelog.wire.acls import AclFilter, AclPatternType
from tidelog.wire.client_quotas import QuotaEntity

if TYPE_CHECKING:
    from tidelog.aio import Admin

Values = Mapping[str, float]
LIMITS_HELP = f"Limits: {', '.join(LIMITS)}.  An empty value takes a limit away."


class TenantUsage(NamedTuple):
    """`stored_bytes`: of all replicas; None where a broker does not say."""

    name: str
    topics: int
    partitions: int
    stored_bytes: int | None
    groups: int
    users: int


@click.group(help="Tenants: namespaces with users and limits of their own.")
def tenants() -> None:
    pass


def _name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not is_tenant_name(value):
        raise click.BadParameter(
            f"{value!r} is no name of a tenant: 1 to 63 ASCII letters, digits and '-', a letter or a digit first"
        )
    return value


def _limits(values: Mapping[str, str]) -> dict[str, float | None]:
    changes: dict[str, float | None] = {}
    for key, text in values.items():
        if key not in LIMITS:
            raise click.UsageError(f"There is no limit {key!r}: there are {', '.join(LIMITS)}.")
        try:
            changes[key] = float(text) if text else None
        except ValueError:
            raise click.UsageError(f"{key} must be a number, not {text!r}.") from None
    return changes


async def _values(admin: Admin, name: str) -> Values:
    entity = QuotaEntity(tenant=name)
    held = (await admin.describe_client_quotas(entity, strict=True)).get(entity)
    if held is None:
        raise Failure(f"There is no tenant {name!r}: `tidelog tenants create {name}` makes one.")
    return held


async def _all(admin: Admin) -> dict[str, Values]:
    quotas = await admin.describe_client_quotas()
    return {entity.tenant: values for entity, values in quotas.items() if entity.tenant is not None}


def _json(name: str, values: Values) -> dict[str, Any]:
    return {
        "tenant": name,
        "prefix": prefix_of(name),
        "limits": {key: int(value) for key, value in sorted(values.items()) if key in LIMITS},
        "members": sorted(key.removeprefix(MEMBER) for key in values if key.startswith(MEMBER)),
    }


def _show(session: CommandSession, shown: dict[str, Any]) -> None:
    if session.json:
        print_json(shown)
        return
    click.echo(f"{shown['tenant']}: owns the names that begin with {shown['prefix']}")
    for key, value in shown["limits"].items():
        click.echo(f"  {key}={value}")
    for member in shown["members"]:
        click.echo(f"  member {member}")


SHAPE = '{"tenant", "prefix", "limits": {KEY: NUMBER}, "members": [PRINCIPAL]}'


@tenants.command(
    help=command_help(
        "Create a tenant.  It owns every topic, group, transactional id and subject whose name begins with NAME and a dot, "
        f"and its users are called NAME/USER: they see and use nothing else.  {LIMITS_HELP}",
        """
tidelog tenants create acme
tidelog tenants create acme partitions_max=200 topics_max=50
""",
        SHAPE,
    )
)
@click.argument("name", callback=_name)
@click.argument("limits", nargs=-1, callback=pairs, metavar="[LIMIT=VALUE]...")
@broker_options
def create(session: CommandSession, name: str, limits: dict[str, str]) -> None:
    _show(session, run(_create(session, name, _limits(limits))))


async def _create(session: CommandSession, name: str, limits: dict[str, float | None]) -> dict[str, Any]:
    async with session.admin() as admin:
        if name in await _all(admin):
            raise Failure(
                f"Tenant {name!r} already exists: `tidelog tenants limits {name}` changes its limits."
            )
        values = {key: value for key, value in limits.items() if value is not None}
        await admin.alter_client_quotas({QuotaEntity(tenant=name): {ENABLED: 1.0, **values}})
        return _json(name, await _values(admin, name))


@tenants.command(
    "list",
    help=command_help(
        "List the tenants, with their limits and members.",
        """
tidelog tenants list
tidelog tenants list --json
""",
        f"[{SHAPE}]",
    ),
)
@broker_options
def list_(session: CommandSession) -> None:
    shown = [_json(name, values) for name, values in sorted(run(_list(session)).items())]
    if session.json:
        print_json(shown)
        return
    rows = [
        (
            tenant["tenant"],
            tenant["prefix"],
            ", ".join(f"{key}={value}" for key, value in tenant["limits"].items()),
            ", ".join(tenant["members"]),
        )
        for tenant in shown
    ]
    print_table(("TENANT", "PREFIX", "LIMITS", "MEMBERS"), rows)


async def _list(session: CommandSession) -> dict[str, Values]:
    async with session.admin() as admin:
        return await _all(admin)


@tenants.command(
    help=command_help(
        f"Show a tenant's limits, or set some of them; they hold at once on all brokers.  {LIMITS_HELP}",
        """
tidelog tenants limits acme
tidelog tenants limits acme partitions_max=400 topics_max=
""",
        SHAPE,
    )
)
@click.argument("name", callback=_name)
@click.argument("limits", nargs=-1, callback=pairs, metavar="[LIMIT=VALUE]...")
@broker_options
def limits(session: CommandSession, name: str, limits: dict[str, str]) -> None:
    _show(session, run(_change(session, name, _limits(limits))))


@tenants.command(
    help=command_help(
        "Show the members of a tenant, or change them: principals that belong to it besides the users named NAME/USER.  "
        "A certificate's or a Kerberos user is User:NAME; a group of a token's claim is Group:NAME.",
        """
tidelog tenants members acme --add User:bob --add Group:acme-team
tidelog tenants members acme --remove User:bob
""",
        SHAPE,
    )
)
@click.argument("name", callback=_name)
@click.option("--add", multiple=True, metavar="PRINCIPAL", help="Make a principal a member.")
@click.option("--remove", multiple=True, metavar="PRINCIPAL", help="End a membership.")
@broker_options
def members(session: CommandSession, name: str, add: tuple[str, ...], remove: tuple[str, ...]) -> None:
    changes: dict[str, float | None] = {MEMBER + principal: None for principal in remove}
    changes |= {MEMBER + principal: 1.0 for principal in add}
    _show(session, run(_change(session, name, changes)))


async def _change(session: CommandSession, name: str, changes: dict[str, float | None]) -> dict[str, Any]:
    async with session.admin() as admin:
        held = await _values(admin, name)
        gone = [
            key.removeprefix(MEMBER) for key, value in changes.items() if value is None and key not in held
        ]
        if gone:
            raise Failure(f"Tenant {name!r} has no {', '.join(gone)}: nothing was changed.")
        if changes:
            await admin.alter_client_quotas({QuotaEntity(tenant=name): changes})
        return _json(name, await _values(admin, name))


@tenants.command(
    help=command_help(
        "Show what tenants use: topics, partitions, bytes of all replicas, groups and users; of all tenants, or of one.",
        """
tidelog tenants usage
tidelog tenants usage acme --json
""",
        '[{"tenant", "topics", "partitions", "stored_bytes", "groups", "users", "limits": {KEY: NUMBER}}]',
    )
)
@click.argument("name", callback=_name, required=False)
@broker_options
def usage(session: CommandSession, name: str | None) -> None:
    usages = run(_usage(session, name))
    if session.json:
        print_json(
            [
                {"tenant": used.name, **_counts(used), "limits": _json(used.name, values)["limits"]}
                for used, values in usages
            ]
        )
        return
    rows = [
        (
            used.name,
            used.topics,
            used.partitions,
            bytes_text(used.stored_bytes) or "?",
            used.groups,
            used.users,
        )
        for used, _ in usages
    ]
    numbers = ("TOPICS", "PARTITIONS", "STORED", "GROUPS", "USERS")
    print_table(("TENANT", *numbers), rows, right=numbers)


def _counts(used: TenantUsage) -> dict[str, int | None]:
    return {key: value for key, value in used._asdict().items() if key != "name"}


async def _usage(session: CommandSession, name: str | None) -> list[tuple[TenantUsage, Values]]:
    async with session.admin() as admin:
        by_tenant = await _all(admin) if name is None else {name: await _values(admin, name)}
        topics = await admin.list_topics()
        groups = [group.group_id for group in await admin.list_groups()]
        users = await admin.describe_user_scram_credentials()
        directories = [each for on in (await admin.describe_log_dirs()).values() for each in on]
        sizes: dict[str, int] = {}
        for directory in directories:
            for partition, size in directory.partitions.items():
                sizes[partition.topic] = sizes.get(partition.topic, 0) + size
        unknown = any(directory.problem for directory in directories)
        return [
            (_used(tenant, topics, sizes, unknown, groups, list(users)), values)
            for tenant, values in sorted(by_tenant.items())
        ]


def _used(
    tenant: str,
    topics: list[Any],
    sizes: Mapping[str, int],
    unknown: bool,
    groups: list[str],
    users: list[str],
) -> TenantUsage:
    prefix = prefix_of(tenant)
    own = [topic for topic in topics if topic.name.startswith(prefix)]
    stored = sum(size for topic, size in sizes.items() if topic.startswith(prefix))
    return TenantUsage(
        tenant,
        len(own),
        sum(len(topic.partitions) for topic in own),
        None if unknown else stored,
        sum(group.startswith(prefix) for group in groups),
        sum(user.startswith(tenant + USER_SEPARATOR) for user in users),
    )


@tenants.command(
    help=command_help(
        "Delete a tenant, which must be empty: without topics, groups, users and ACLs.  With --with-data these "
        "are deleted first; connections of its users may do nothing from then on.  Schema subjects "
        "are looked at with --registry, and stay without it: the next tenant of this name would see them.",
        """
tidelog tenants delete acme
tidelog tenants delete acme --with-data --registry http://127.0.0.1:8090
""",
        '{"deleted": NAME, "topics": [NAME], "groups": [NAME], "users": [NAME], "acls": NUMBER, "subjects": [NAME]}',
    )
)
@click.argument("name", callback=_name)
@click.option("--with-data", is_flag=True, help="Delete its topics, groups, users, quotas and ACLs as well.")
@click.option(
    "--registry",
    metavar="URL[,...]",
    help="The HTTP port of any broker: the tenant's schema subjects count, too, and --with-data deletes them for good.",
)
@broker_options
def delete(session: CommandSession, name: str, with_data: bool, registry: str | None) -> None:
    subjects = None if registry is None else _TenantSubjects(session, registry, name)
    gone = run(_delete(session, name, with_data, subjects))
    if session.json:
        print_json(gone)
        return
    click.echo(
        f"{name}: deleted, with {len(gone['topics'])} topics, {len(gone['groups'])} groups, {len(gone['users'])} users and "
        f"{gone['acls']} ACLs" + f", and {len(gone['subjects'])} subjects" * (registry is not None)
    )


class _TenantSubjects:
    """The tenant's subjects in the schema registry, soft-deleted subjects included."""

    def __init__(self, session: CommandSession, urls: str, name: str) -> None:
        from tidelog.cli.schemas import RegistrySession

        self._asking = RegistrySession(urls, session.timeout_ms, session.json, session.login.registry_login())
        self._prefix = prefix_of(name)

    def names(self) -> list[str]:
        subjects = self._asking.ask("GET", "/subjects?subjectPrefix=:*:&deleted=true")
        return sorted(subject for subject in subjects if self._owns(subject))

    def _owns(self, subject: str) -> bool:
        """A subject of another context is `:.CONTEXT:NAME`."""
        name = subject.split(":", 2)[2] if subject.startswith(":") else subject
        return name.startswith(self._prefix)

    def delete(self) -> list[str]:
        """For good.  A subject that another one refers to goes after that one."""
        live = set(self._asking.ask("GET", "/subjects?subjectPrefix=:*:"))
        wanted = all_subjects = self.names()
        while wanted:
            refused: dict[str, Failure] = {}
            for subject in wanted:
                path = f"/subjects/{quote(subject, safe='')}"
                try:
                    if subject in live:
                        self._asking.ask("DELETE", path)
                        live.discard(subject)
                    self._asking.ask("DELETE", f"{path}?permanent=true")
                except Failure as problem:
                    refused[subject] = problem
            if len(refused) == len(wanted):
                raise next(iter(refused.values()))
            wanted = list(refused)
        return all_subjects


async def _delete(
    session: CommandSession, name: str, with_data: bool, subjects: _TenantSubjects | None
) -> dict[str, Any]:
    prefix, users_prefix = prefix_of(name), name + USER_SEPARATOR
    async with session.admin() as admin:
        await _values(admin, name)
        users = await admin.describe_user_scram_credentials()
        own_users = {user: held for user, held in users.items() if user.startswith(users_prefix)}
        groups = [group.group_id for group in await admin.list_groups() if group.group_id.startswith(prefix)]
        topics = [topic.name for topic in await admin.list_topics() if topic.name.startswith(prefix)]
        acls, own_subjects = 0, [] if subjects is None else subjects.names()
        if with_data:
            # First of all nobody can log in, or make something new.
            for user, held in own_users.items():
                for mechanism in held:
                    await admin.alter_user_scram_credentials({user: None}, mechanism=mechanism)
            acls = await _delete_acls(admin, name)
            quotas = await admin.describe_client_quotas()
            await admin.alter_client_quotas(
                {
                    entity: dict.fromkeys(values)
                    for entity, values in quotas.items()
                    if (entity.user or "").startswith(users_prefix)
                }
            )
            if topics:
                await admin.delete_topics(topics)
            if groups:
                await admin.delete_groups(groups)
            if subjects is not None:
                own_subjects = subjects.delete()
        elif groups or own_subjects:
            kind, count = ("groups", len(groups)) if groups else ("schema subjects", len(own_subjects))
            raise Failure(f"Tenant {name!r} is not empty: it has {count} {kind}.  Use --with-data.")
        await admin.alter_client_quotas({QuotaEntity(tenant=name): {ENABLED: None}})
    return {
        "deleted": name,
        "topics": topics,
        "groups": groups,
        "users": list(own_users),
        "acls": acls,
        "subjects": own_subjects,
    }


async def _delete_acls(admin: Admin, name: str) -> int:
    from tidelog import errors

    prefix, users = prefix_of(name), f"User:{name}{USER_SEPARATOR}"
    try:
        acls = await admin.describe_acls(AclFilter())
    except errors.SecurityDisabled:
        return 0
    own = [acl for acl in acls if acl.name.startswith(prefix) or acl.principal.startswith(users)]
    await admin.delete_acls(
        AclFilter(
            acl.resource_type,
            AclPatternType(acl.pattern_type),
            acl.name,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission,
        )
        for acl in own
    )
    return len(own)
