"""`tidelog topics`: create, list, describe, alter; `copying` and `deletion` have the others."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.cluster.disks import disks
from tidelog.cli.completion import complete_topics
from tidelog.cli.output import bytes_text, counted, print_json, print_table
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, pairs, run
from tidelog.cli.topics.copying import copy
from tidelog.cli.topics.deletion import delete, delete_records

if TYPE_CHECKING:
    from tidelog.aio import Admin, CreatedTopic, Topic

WAIT_MS = 20


@click.group(help="Create, list, describe, alter, copy and delete topics.")
def topics() -> None:
    pass


@topics.command(
    help=command_help(
        "Create topics.  Options you omit use broker defaults (num.partitions, default.replication.factor).",
        """
tidelog topics create greetings
tidelog topics create orders --partitions 6 --config retention.ms=86400000
tidelog topics create users --config cleanup.policy=compact --if-not-exists
""",
        '{"created": [{"name", "id", "partitions", "replication_factor"}], "existing": [NAME...]}',
    )
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="Number of partitions.")
@click.option("--replication-factor", type=click.IntRange(1), metavar="N", help="Replicas of each partition.")
@click.option(
    "--config", "config", multiple=True, callback=pairs, metavar="KEY=VALUE", help="A topic setting; repeat."
)
@click.option("--if-not-exists", is_flag=True, help="Do not fail if a topic already exists.")
@broker_options
def create(
    session: CommandSession,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    config: dict[str, str],
    if_not_exists: bool,
) -> None:
    run(_create(session, names, partitions or -1, replication_factor or -1, config, if_not_exists))


async def _create(
    session: CommandSession,
    names: tuple[str, ...],
    partitions: int,
    replication_factor: int,
    config: dict[str, str],
    if_not_exists: bool,
) -> None:
    from tidelog.aio import NewTopic
    from tidelog.errors import TidelogError, TopicAlreadyExists

    created: dict[str, CreatedTopic] = {}
    existing: list[str] = []
    problems: list[str] = []
    async with session.admin() as admin:
        for name in dict.fromkeys(names):
            try:
                created |= await admin.create_topics([NewTopic(name, partitions, replication_factor, config)])
            except TopicAlreadyExists as problem:
                existing.append(name)
                if not if_not_exists:
                    problems.append(str(problem))
            except TidelogError as problem:
                problems.append(str(problem))
        await _wait_until_seen(admin, list(created), session.timeout_ms)
    if session.json:
        made = [
            {
                "name": topic.name,
                "id": str(topic.id),
                "partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
            }
            for topic in created.values()
        ]
        print_json({"created": made, "existing": existing})
    else:
        for topic in created.values():
            click.echo(f"created {topic.name}: {counted(topic.partitions, 'partition')}")
        for name in existing if if_not_exists else ():
            click.echo(f"{name} already exists")
    if problems:
        raise Failure(*problems)


async def _wait_until_seen(admin: Admin, names: list[str], timeout_ms: int) -> None:
    """CreateTopics is answered before every broker knows the topic; waits, so that a script's next command
    finds it."""
    import asyncio

    from tidelog.errors import TidelogError

    async def look() -> None:
        left = set(names)
        while left:
            try:
                topics = await admin.describe_topics(left)
            except (TidelogError, ExceptionGroup):
                topics = {}
            left -= {
                name
                for name, topic in topics.items()
                if all(partition.leader >= 0 for partition in topic.partitions)
            }
            if left:
                await asyncio.sleep(WAIT_MS / 1000)

    # The topics are created even if this wait times out.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(look(), timeout_ms / 1000)


@topics.command(
    "list",
    help=command_help(
        "List the topics.",
        """
tidelog topics list
tidelog topics list --internal --json
""",
        '[{"name", "id", "partitions", "replication_factor", "internal"}]',
    ),
)
@click.option("--internal", is_flag=True, help="Include internal topics.")
@broker_options
def list_(session: CommandSession, internal: bool) -> None:
    run(_list(session, internal))


async def _list(session: CommandSession, internal: bool) -> None:
    async with session.admin() as admin:
        topics = await admin.list_topics(internal=internal)
    if session.json:
        print_json([_summary(topic) for topic in topics])
        return
    rows = [(topic.name, len(topic.partitions), _replication(topic)) for topic in topics]
    print_table(("NAME", "PARTITIONS", "REPLICATION"), rows, right=("PARTITIONS", "REPLICATION"))


@topics.command(
    help=command_help(
        "Show topics with their partitions, offsets, sizes, and the settings that differ from the default.",
        """
tidelog topics describe orders
tidelog topics describe --json
""",
        """
[{"name", "id", "partitions", "replication_factor", "internal",
  "configs": {KEY: VALUE},
  "details": [{"partition", "leader", "leader_epoch", "replicas": [ID], "in_sync": [ID], "offline": [ID],
               "start_offset", "end_offset", "size_bytes"}]}]
null where the broker does not report a value
""",
    )
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_topics)
@broker_options
def describe(session: CommandSession, names: tuple[str, ...]) -> None:
    run(_describe(session, names))


async def _describe(session: CommandSession, names: tuple[str, ...]) -> None:
    async with session.admin() as admin:
        if names:
            topics = list((await admin.describe_topics(names)).values())
        else:
            topics = await admin.list_topics()
        described = await _details(admin, topics) if topics else []
    if session.json:
        print_json(described)
        return
    for at, topic in enumerate(described):
        if at:
            click.echo()
        click.echo(f"{topic['name']}  id={topic['id']}" + ("  internal" if topic["internal"] else ""))
        settings = "  ".join(f"{key}={value}" for key, value in topic["configs"].items())
        click.echo(f"overrides: {settings or 'none'}")
        rows = [
            (
                part["partition"],
                part["leader"] if part["leader"] is not None else "none",
                ",".join(map(str, part["replicas"])),
                ",".join(map(str, part["in_sync"])),
                part["start_offset"],
                part["end_offset"],
                bytes_text(part["size_bytes"]),
            )
            for part in topic["details"]
        ]
        columns = ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "END", "SIZE")
        print_table(columns, rows, right=("PARTITION", "LEADER", "START", "END", "SIZE"))


async def _details(admin: Admin, topics: list[Topic]) -> list[dict[str, Any]]:
    from tidelog.aio import ConfigResource, ConfigSource, TopicPartition
    from tidelog.errors import TidelogError

    led = [
        TopicPartition(partition.topic, partition.index)
        for topic in topics
        for partition in topic.partitions
        if partition.leader >= 0
    ]
    starts = await admin.list_offsets(dict.fromkeys(led, "earliest"))
    ends = await admin.list_offsets(dict.fromkeys(led, "latest"))
    settings = await admin.describe_configs([ConfigResource("topic", topic.name) for topic in topics])
    sizes: dict[TopicPartition, int] = {}
    try:
        for folders in (await disks(admin, [topic.name for topic in topics])).folders.values():
            for folder in folders:
                for where, size in folder.partitions.items():
                    sizes[where] = max(size, sizes.get(where, 0))
    except TidelogError:
        pass  # Without the right to describe log directories, the rest is still shown.
    described = []
    for topic in topics:
        details = []
        for partition in topic.partitions:
            where = TopicPartition(partition.topic, partition.index)
            details.append(
                {
                    "partition": partition.index,
                    "leader": partition.leader if partition.leader >= 0 else None,
                    "leader_epoch": partition.leader_epoch,
                    "replicas": list(partition.replicas),
                    "in_sync": list(partition.in_sync),
                    "offline": list(partition.offline),
                    "start_offset": starts[where].offset if where in starts else None,
                    "end_offset": ends[where].offset if where in ends else None,
                    "size_bytes": sizes.get(where),
                }
            )
        configs = {
            entry.name: entry.value
            for entry in settings[ConfigResource("topic", topic.name)]
            if entry.source == ConfigSource.DYNAMIC_TOPIC or entry.value != entry.default
        }
        described.append({**_summary(topic), "configs": configs, "details": details})
    return described


@topics.command(
    help=command_help(
        "Add partitions to a topic, or change its settings.  Partitions cannot be removed, and adding some "
        "changes which partition a key goes to.",
        """
tidelog topics alter orders --partitions 12
tidelog topics alter orders --config retention.ms=3600000 --unset segment.bytes
""",
        '{"name", "partitions": N or null, "set": {KEY: VALUE}, "unset": [KEY]}',
    )
)
@click.argument("name", shell_complete=complete_topics)
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="New number of partitions.")
@click.option(
    "--config", "config", multiple=True, callback=pairs, metavar="KEY=VALUE", help="Set a setting; repeat."
)
@click.option("--unset", multiple=True, metavar="KEY", help="Reset a setting to its default; repeat.")
@broker_options
def alter(
    session: CommandSession, name: str, partitions: int | None, config: dict[str, str], unset: tuple[str, ...]
) -> None:
    if partitions is None and not config and not unset:
        raise click.UsageError("Nothing to change: use --partitions, --config or --unset.")
    run(_alter(session, name, partitions, config, unset))


async def _alter(
    session: CommandSession, name: str, partitions: int | None, config: dict[str, str], unset: tuple[str, ...]
) -> None:
    from tidelog.aio import ConfigResource

    async with session.admin() as admin:
        if config or unset:
            changes: dict[str, str | None] = {**config, **dict.fromkeys(unset)}
            await admin.alter_configs({ConfigResource("topic", name): changes})
        if partitions is not None:
            await admin.create_partitions({name: partitions})
    if session.json:
        print_json({"name": name, "partitions": partitions, "set": config, "unset": list(unset)})
        return
    done = [f"{key}={value}" for key, value in config.items()] + [
        f"{key} reset to its default" for key in unset
    ]
    if partitions is not None:
        done.append(counted(partitions, "partition"))
    click.echo(f"altered {name}: {', '.join(done)}")


topics.add_command(copy)
topics.add_command(delete)
topics.add_command(delete_records)


def _summary(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": str(topic.id),
        "partitions": len(topic.partitions),
        "replication_factor": _replication(topic),
        "internal": topic.internal,
    }


def _replication(topic: Topic) -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)
