"""`tidelog cluster diff`: the topics of two clusters, their partitions, replication and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import click

from tidelog.cli.connection.options import other_cluster_options
from tidelog.cli.output import counted, print_json, print_table
from tidelog.cli.session import CommandSession, broker_options, command_help, run


@dataclass(frozen=True, slots=True)
class ComparedTopic:
    """What is compared; `settings`: as they are in force, whoever set them."""

    partitions: int
    replication_factor: int
    settings: Mapping[str, str | None]


class TopicDifference(NamedTuple):
    topic: str
    aspect: str
    here: str | int | None
    there: str | int | None


def differences(
    here: Mapping[str, ComparedTopic], there: Mapping[str, ComparedTopic]
) -> list[TopicDifference]:
    """Pure.  A setting that only one of two clusters knows is none."""
    result = []
    for name in sorted(here.keys() | there.keys()):
        if name not in here or name not in there:
            here_text, there_text = (
                "missing" if name not in topics else "exists" for topics in (here, there)
            )
            result.append(TopicDifference(name, "topic", here_text, there_text))
            continue
        ours, other = here[name], there[name]
        if ours.partitions != other.partitions:
            result.append(TopicDifference(name, "partitions", ours.partitions, other.partitions))
        if ours.replication_factor != other.replication_factor:
            result.append(
                TopicDifference(name, "replication factor", ours.replication_factor, other.replication_factor)
            )
        for setting in sorted(ours.settings.keys() & other.settings.keys()):
            if ours.settings[setting] != other.settings[setting]:
                result.append(TopicDifference(name, setting, ours.settings[setting], other.settings[setting]))
    return result


@click.command(
    help=command_help(
        "Show how the topics of two clusters differ: topics that only one has, partitions, replication factors, and "
        "settings as they are in force.  The exit code is 1 when they differ.",
        """
tidelog cluster diff --to kafka2:9092
tidelog cluster diff --profile staging --to-profile local --topic 'orders*'
""",
        '{"topics": topics compared, "differences": [{"topic", "what": "topic", "partitions", "replication factor" or a '
        'setting, "here", "there"}]}',
    )
)
@click.option(
    "--topic", "patterns", multiple=True, metavar="PATTERN", help="Only these topics, as in 'a-*'; repeat."
)
@click.option("--internal", is_flag=True, help="Include internal topics.")
@other_cluster_options
@broker_options
def diff(
    session: CommandSession, patterns: tuple[str, ...], internal: bool, to: str | None, to_profile: str | None
) -> None:
    if to is None and to_profile is None:
        raise click.UsageError("Name the other cluster: --to HOST:PORT or --to-profile NAME.")
    here = run(_shapes(session, patterns, internal))
    there = run(_shapes(session.other(to, to_profile), patterns, internal))
    unequal = differences(here, there)
    compared = len(here.keys() | there.keys())
    if session.json:
        names = ("topic", "what", "here", "there")
        print_json(
            {"topics": compared, "differences": [dict(zip(names, row, strict=True)) for row in unequal]}
        )
    elif unequal:
        print_table(("TOPIC", "WHAT", "HERE", "THERE"), unequal)
    else:
        click.echo(f"no differences in {counted(compared, 'topic')}")
    if unequal:
        click.get_current_context().exit(1)


async def _shapes(
    session: CommandSession, patterns: tuple[str, ...], internal: bool
) -> dict[str, ComparedTopic]:
    from tidelog.aio import ConfigResource

    async with session.admin() as admin:
        topics = [
            topic
            for topic in await admin.list_topics(internal=internal)
            if not patterns or any(fnmatchcase(topic.name, pattern) for pattern in patterns)
        ]
        resources = [ConfigResource("topic", topic.name) for topic in topics]
        entries: Any = await admin.describe_configs(resources) if resources else {}
    return {
        topic.name: ComparedTopic(
            len(topic.partitions),
            max((len(partition.replicas) for partition in topic.partitions), default=0),
            {entry.name: entry.value for entry in entries[ConfigResource("topic", topic.name)]},
        )
        for topic in topics
    }
