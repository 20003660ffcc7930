"""`tidelog groups`: list, describe, members, reset, delete, set; groups of every type."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.completion import complete_groups, complete_topics
from tidelog.cli.groups.reset_target import target_option
from tidelog.cli.output import print_json, print_table
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, pairs, run

if TYPE_CHECKING:
    from tidelog.aio import Admin, GroupDescription, TopicPartition
    from tidelog.client.admin.reset_target import ResetTarget

TYPES = ("classic", "consumer", "share", "streams")


@click.group(help="Show, reset and delete groups of consumers, share groups and streams groups.")
def groups() -> None:
    pass


@groups.command(
    "list",
    help=command_help(
        "List the groups of the cluster.",
        """
tidelog groups list
tidelog groups list --type share --state Empty
""",
        '[{"group", "type", "state", "protocol_type"}]',
    ),
)
@click.option(
    "--type", "types", type=click.Choice(TYPES), multiple=True, help="Only groups of this type; repeat."
)
@click.option("--state", "states", multiple=True, metavar="STATE", help="Stable, Empty, ...; repeat.")
@broker_options
def list_(session: CommandSession, types: tuple[str, ...], states: tuple[str, ...]) -> None:
    async def ask() -> list[Any]:
        async with session.admin() as admin:
            return await admin.list_groups(types=types, states=states)

    listed = run(ask())
    if session.json:
        print_json(
            [
                {
                    "group": group.group_id,
                    "type": group.type,
                    "state": group.state,
                    "protocol_type": group.protocol_type,
                }
                for group in listed
            ]
        )
        return
    print_table(("GROUP", "TYPE", "STATE"), [(group.group_id, group.type, group.state) for group in listed])


@groups.command(
    help=command_help(
        "Show the committed offsets, end offsets and lag of a GROUP.  The lag counts only records "
        "that can still be read (no transaction markers, no aborted records).  A partition without a committed offset lags "
        "by at most all of its records: a consumer starts there, or at the end, as its auto.offset.reset says.",
        """
tidelog groups describe billing
tidelog groups describe billing shipping --json
""",
        """
[{"group", "type", "state", "assignor", "coordinator", "lag", "lag_exact",
  "offsets": [{"topic", "partition", "committed", "start", "end", "lag", "lag_exact",
               "metadata", "member", "client_id", "host"}]}]
committed is null where nothing is committed; member, client_id and host where no member is assigned.
lag_exact is false where the lag is at most that: for wide gaps, which are given as the distance of the offsets,
and where nothing is committed
""",
    )
)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@broker_options
def describe(session: CommandSession, names: tuple[str, ...]) -> None:
    described = run(_describe(session, names))
    if session.json:
        print_json(described)
        return
    for number, group in enumerate(described):
        if number:
            click.echo()
        click.echo(
            f"{group['group']}: {group['type']}, {group['state']}, assignor {group['assignor'] or '-'}, "
            f"coordinator {group['coordinator']}"
        )
        rows = [
            (
                offset["topic"],
                offset["partition"],
                offset["committed"],
                offset["end"],
                _lag_text(offset),
                offset["member"],
                offset["client_id"],
                offset["host"],
            )
            for offset in group["offsets"]
        ]
        columns = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT", "HOST")
        print_table(columns, rows, right=("PARTITION", "COMMITTED", "END", "LAG"))
        click.echo(f"total lag: {_lag_text(group)}")


def _lag_text(offset: dict[str, Any]) -> str | None:
    if offset["lag"] is None:
        return None
    return str(offset["lag"]) if offset["lag_exact"] else f"<={offset['lag']}"


async def _describe(session: CommandSession, names: tuple[str, ...]) -> list[dict[str, Any]]:
    async with session.admin() as admin:
        descriptions = await admin.describe_groups(names)
        described = []
        for group in descriptions.values():
            offsets = await (_share_offsets if group.type == "share" else _offsets)(admin, group)
            described.append(
                {
                    "group": group.group_id,
                    "type": group.type,
                    "state": group.state,
                    "assignor": group.assignor,
                    "coordinator": group.coordinator,
                    "lag": sum(offset["lag"] or 0 for offset in offsets),
                    "lag_exact": all(offset["lag_exact"] for offset in offsets),
                    "offsets": offsets,
                }
            )
        return described


async def _offsets(admin: Admin, group: GroupDescription) -> list[dict[str, Any]]:
    from tidelog.aio import TopicPartition

    committed = await admin.list_group_offsets(group.group_id)
    assigned = {partition for member in group.members for partition in member.assignment}
    lags = await admin.group_lag({place: offset.offset for place, offset in committed.items()})
    # Without a committed offset, a consumer starts at the first record or at the end: the lag is at most all records.
    others = await admin.group_lag(dict.fromkeys(assigned - set(committed), 0))
    rows = []
    for partition in sorted({*committed, *assigned}, key=lambda place: TopicPartition(*place)):
        offset, lag = committed.get(partition), lags.get(partition) or others.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": offset.offset if offset is not None else None,
                "start": lag.start if lag is not None else None,
                "end": lag.end if lag is not None else None,
                "lag": lag.lag if lag is not None else None,
                "lag_exact": lag is None or (lag.exact and (offset is not None or lag.lag == 0)),
                "metadata": offset.metadata if offset is not None else None,
                **_reader(group, partition),
            }
        )
    return rows


def _reader(group: GroupDescription, partition: TopicPartition) -> dict[str, Any]:
    member = group.owner(partition)
    return {
        "member": member.member_id if member is not None else None,
        "client_id": member.client_id if member is not None else None,
        "host": member.host if member is not None else None,
    }


async def _share_offsets(admin: Admin, group: GroupDescription) -> list[dict[str, Any]]:
    share_offsets = await admin.list_share_group_offsets(group.group_id)
    ends = await admin.list_offsets(dict.fromkeys(share_offsets, "latest"))
    starts = await admin.list_offsets(dict.fromkeys(share_offsets, "earliest"))
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed": share_offset.offset,
            "start": starts[partition].offset,
            "end": ends[partition].offset,
            "lag": share_offset.lag,
            "lag_exact": True,
            "metadata": None,
            # A partition of a share group may have many readers.
            "member": None,
            "client_id": None,
            "host": None,
        }
        for partition, share_offset in sorted(share_offsets.items())
    ]


@groups.command(
    help=command_help(
        "The members of a GROUP and their assignments.",
        """
tidelog groups members billing
""",
        """
{"group", "type", "state", "members": [{"member", "instance", "client_id", "host", "rack", "epoch",
 "partitions": [{"topic", "partition"}], "tasks"}]}
epoch is null in classic groups; tasks ({"active", "standby", "warmup"}) are null in all but streams groups
""",
    )
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@broker_options
def members(session: CommandSession, name: str) -> None:
    async def ask() -> GroupDescription:
        async with session.admin() as admin:
            return (await admin.describe_groups([name]))[name]

    group = run(ask())
    if session.json:
        listed = [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "rack": member.rack,
                "epoch": member.epoch if member.epoch >= 0 else None,
                "partitions": [{"topic": topic, "partition": index} for topic, index in member.assignment],
                "tasks": None if member.tasks is None else asdict(member.tasks),
            }
            for member in group.members
        ]
        print_json({"group": name, "type": group.type, "state": group.state, "members": listed})
        return
    rows = [
        (
            member.member_id,
            member.instance_id,
            member.client_id,
            member.host,
            len(member.assignment),
            *(
                []
                if member.tasks is None
                else (" ".join(member.tasks.active), " ".join(member.tasks.standby))
            ),
            _partitions_text(member.assignment),
        )
        for member in group.members
    ]
    tasks = ("ACTIVE", "STANDBY") if group.type == "streams" else ()
    columns = ("MEMBER", "INSTANCE", "CLIENT", "HOST", "COUNT", *tasks, "PARTITIONS")
    print_table(columns, rows, right=("COUNT",))


def _partitions_text(partitions: tuple[TopicPartition, ...]) -> str:
    topics: dict[str, list[str]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(str(index))
    return " ".join(f"{topic}:{','.join(indexes)}" for topic, indexes in topics.items())


@groups.command(
    help=command_help(
        "Reset the offsets of a GROUP, which must have no members.  Without --execute, only shows the new offsets.",
        """
tidelog groups reset billing --topic orders --to earliest
tidelog groups reset billing --topic orders:0,1 --offset 1500 --execute
tidelog groups reset billing --all --shift -100 --execute
tidelog groups reset billing --all --datetime 2026-01-31T09:00 --execute
tidelog groups reset billing --all --duration 10m --execute
""",
        """
{"group", "executed", "offsets": [{"topic", "partition", "before", "after"}]}
before is null where nothing was committed
""",
    )
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,...]",
    help="This topic, or these partitions of it; repeat.",
)
@click.option("--all", "all_topics", is_flag=True, help="All topics for which the group has offsets.")
@target_option
@click.option("--execute", is_flag=True, help="Change the offsets.")
@broker_options
def reset(
    session: CommandSession,
    name: str,
    topics: tuple[str, ...],
    all_topics: bool,
    target: ResetTarget,
    execute: bool,
) -> None:
    if bool(topics) == all_topics:
        raise click.UsageError("Name topics with --topic, or use --all.")
    changes = run(_reset(session, name, topics, target, execute))
    if session.json:
        listed = [
            {"topic": topic, "partition": index, "before": before, "after": after}
            for (topic, index), (before, after) in changes.items()
        ]
        print_json({"group": name, "executed": execute, "offsets": listed})
        return
    rows = [
        (topic, index, before, after, None if before is None else f"{after - before:+d}")
        for (topic, index), (before, after) in changes.items()
    ]
    columns = ("TOPIC", "PARTITION", "BEFORE", "AFTER", "CHANGE")
    print_table(columns, rows, right=("PARTITION", "BEFORE", "AFTER", "CHANGE"))
    if not execute:
        click.echo("Nothing was changed: add --execute to change the offsets.", err=True)


async def _reset(
    session: CommandSession, name: str, topics: tuple[str, ...], target: ResetTarget, execute: bool
) -> dict[TopicPartition, tuple[int | None, int]]:
    from tidelog.cli.groups.reset_target import chosen
    from tidelog.client.admin.group_reset import offsets_of, plan_reset, set_offsets
    from tidelog.client.admin.reset_target import NothingToShift

    async with session.admin() as admin:
        before = await offsets_of(admin, name)
        partitions = await chosen(admin, topics, before)
        if not partitions:
            raise Failure(f"group {name!r} has no committed offsets: name topics with --topic")
        try:
            after = await plan_reset(admin, target, partitions, before)
        except NothingToShift as problem:
            raise Failure(str(problem)) from None
        if execute:
            await set_offsets(admin, name, after)
    return {partition: (before.get(partition), after[partition]) for partition in sorted(after)}


@groups.command(
    help=command_help(
        "Delete GROUPs that have no members; with --topic, delete only a group's offsets for topics that no member "
        "reads.",
        """
tidelog groups delete old-billing older-billing
tidelog groups delete billing --topic retired-orders
""",
        '{"deleted": [GROUP]}, or with --topic {"group", "deleted_offsets": [{"topic", "partition"}]}',
    )
)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Only the offsets of this topic; repeat.",
)
@broker_options
def delete(session: CommandSession, names: tuple[str, ...], topics: tuple[str, ...]) -> None:
    if topics and len(names) > 1:
        raise click.UsageError("--topic works with one group at a time.")
    if topics:
        gone = run(_delete_offsets(session, names[0], topics))
        if session.json:
            listed = [{"topic": topic, "partition": index} for topic, index in gone]
            print_json({"group": names[0], "deleted_offsets": listed})
        else:
            for partition in gone:
                click.echo(f"{names[0]}: offset of {partition} deleted")
        return

    async def work() -> None:
        async with session.admin() as admin:
            await admin.delete_groups(names)

    run(work())
    if session.json:
        print_json({"deleted": list(names)})
    else:
        for name in names:
            click.echo(f"{name} deleted")


async def _delete_offsets(
    session: CommandSession, name: str, topics: tuple[str, ...]
) -> list[TopicPartition]:
    from tidelog.client.admin.group_reset import is_share_group

    async with session.admin() as admin:
        if await is_share_group(admin, name):
            shared = await admin.list_share_group_offsets(name)
            await admin.delete_share_group_offsets(name, topics)
            return sorted(partition for partition in shared if partition.topic in topics)
        committed = await admin.list_group_offsets(name)
        gone = sorted(partition for partition in committed if partition.topic in topics)
        if not gone:
            raise Failure(f"group {name!r} has no committed offsets for {', '.join(topics)}")
        await admin.delete_group_offsets(name, gone)
        return gone


@groups.command(
    "set",
    help=command_help(
        "Change settings of a GROUP, which need not exist yet.  An empty value resets a setting to its "
        "default.  `tidelog configs describe group NAME` shows all settings.",
        """
tidelog groups set billing consumer.session.timeout.ms=10000
tidelog groups set jobs share.auto.offset.reset=earliest share.dead.letter.topic=jobs-failed
""",
        '{"group", "set": {KEY: VALUE}}',
    ),
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.argument("changes", nargs=-1, required=True, callback=pairs, metavar="KEY=VALUE...")
@broker_options
def set_(session: CommandSession, name: str, changes: dict[str, str]) -> None:
    async def work() -> None:
        from tidelog.aio import ConfigResource

        async with session.admin() as admin:
            values = {key: value or None for key, value in changes.items()}
            await admin.alter_configs({ConfigResource("group", name): values})

    run(work())
    if session.json:
        print_json({"group": name, "set": changes})
    else:
        for key, value in changes.items():
            click.echo(f"{name}: {key}={value}" if value else f"{name}: {key} reset to its default")
