"""`tidelog topics delete` and `delete-records`: what is lost for good is named, and asked about, first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from tidelog.cli.completion import complete_topics
from tidelog.cli.output import counted, print_json
from tidelog.cli.session import Failure, Session, broker_options, command_help, run
from tidelog.cli.start_offset import BadStart, Start, parse_start

if TYPE_CHECKING:
    from tidelog.aio import Admin, TopicPartition

PATTERN = "*?["
ASKED_NAMES_MAX = 20

yes_option = click.option("--yes", "-y", "sure", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")


@click.command(
    help=command_help(
        "Delete topics with all of their records.  A NAME may be a pattern with * and ? (in quotes, so that the shell "
        "leaves it alone); internal topics match no pattern.  On a terminal the command asks first; elsewhere patterns "
        "need --yes.",
        """
tidelog topics delete greetings
tidelog topics delete 'test-*' --dry-run
tidelog topics delete 'test-*' --yes
tidelog topics delete old-1 old-2 --if-exists
""",
        '{"deleted": [NAME...], "missing": [NAME...], "dry_run"}; with --dry-run, "deleted" is what would be deleted',
    )
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Do not fail if a topic does not exist.")
@dry_run_option
@yes_option
@broker_options
def delete(session: Session, names: tuple[str, ...], if_exists: bool, dry_run: bool, sure: bool) -> None:
    patterns = any(character in name for name in names for character in PATTERN)
    chosen, missing = run(_chosen(session, names, look=patterns or dry_run))
    problems = [] if if_exists else [_missing_text(name) for name in missing]
    deleted = chosen
    if chosen and not dry_run:
        _ask(
            f"Delete {_listed(chosen)} with all records?",
            sure,
            f"{counted(len(chosen), 'topic')} match",
            patterns,
        )
        deleted, absent, failed = run(_delete(session, chosen))
        missing += absent
        problems += failed + ([] if if_exists else [_missing_text(name) for name in absent])
    if session.json:
        print_json({"deleted": deleted, "missing": missing, "dry_run": dry_run})
    else:
        for name in deleted:
            click.echo(f"{'would delete' if dry_run else 'deleted'} {name}")
        for name in missing if if_exists else ():
            click.echo(f"{name} does not exist")
    if problems:
        raise Failure(*problems)


def _missing_text(name: str) -> str:
    return f"no topic matches {name!r}" if _is_pattern(name) else f"there is no topic {name!r}"


def _is_pattern(name: str) -> bool:
    return any(character in name for character in PATTERN)


async def _chosen(session: Session, names: Sequence[str], look: bool) -> tuple[list[str], list[str]]:
    """The topics that are named or match, and the names and patterns without a topic.  Without `look`, names are taken as
    they are: the broker says which of them do not exist."""
    if not look:
        return list(dict.fromkeys(names)), []
    async with session.admin() as admin:
        topics = await admin.list_topics(internal=True)
    chosen: dict[str, None] = {}
    missing = []
    for name in dict.fromkeys(names):
        if _is_pattern(name):
            found = [topic.name for topic in topics if not topic.internal and fnmatchcase(topic.name, name)]
        else:
            found = [topic.name for topic in topics if topic.name == name]
        chosen.update(dict.fromkeys(sorted(found)))
        if not found:
            missing.append(name)
    return list(chosen), missing


async def _delete(session: Session, names: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """The deleted topics, those that did not exist, and what failed."""
    from tidelog.errors import TidelogError, UnknownTopicOrPartition

    deleted, missing, problems = [], [], []
    async with session.admin() as admin:
        for name in names:
            try:
                await admin.delete_topics([name])
                deleted.append(name)
            except UnknownTopicOrPartition:
                missing.append(name)
            except TidelogError as problem:
                problems.append(str(problem))
    return deleted, missing, problems


def _ask(question: str, sure: bool, what: str, needs_yes: bool) -> None:
    """On a terminal, asks; elsewhere refuses what was not named one by one, unless told --yes."""
    if sure:
        return
    if sys.stdin is not None and sys.stdin.isatty():
        click.confirm(question, abort=True, err=True)
    elif needs_yes:
        raise Failure(f"{what}: add --yes to delete, or --dry-run to see what would be deleted")


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"topic {names[0]!r}"
    shown = ", ".join(map(repr, names[:ASKED_NAMES_MAX]))
    more = f" and {len(names) - ASKED_NAMES_MAX} more" if len(names) > ASKED_NAMES_MAX else ""
    return f"{counted(len(names), 'topic')} ({shown}{more})"


# Records


def _place(ctx: click.Context, param: click.Parameter, value: str) -> Start:
    import time

    try:
        return parse_start(value, time.time_ns() // 1_000_000)
    except BadStart as problem:
        raise click.BadParameter(str(problem)) from None


@click.command(
    "delete-records",
    help=command_help(
        "Delete the records of a TOPIC before a place in each partition.  The records are gone for all readers, and the "
        "partitions begin there.  On a terminal the command asks first; elsewhere it needs --yes.",
        """
tidelog topics delete-records orders --before end --dry-run
tidelog topics delete-records orders --before -7d --yes
tidelog topics delete-records orders --before 1500 --partition 2
""",
        '{"topic", "dry_run", "partitions": [{"partition", "before", "records"}]}; records counts offsets',
    ),
)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--before",
    "place",
    required=True,
    callback=_place,
    metavar="WHERE",
    help="end, an OFFSET, -N for all but the last N of each partition, a time like 2026-01-31T09:00 (local time unless it "
    "has an offset), or how long ago, like -7d (s, m, h, d).",
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition; repeat.",
)
@dry_run_option
@yes_option
@broker_options
def delete_records(
    session: Session, topic: str, place: Start, partitions: tuple[int, ...], dry_run: bool, sure: bool
) -> None:
    before, starts = run(_planned(session, topic, place, partitions))
    records = {partition: max(0, offset - starts[partition]) for partition, offset in before.items()}
    wanted = {partition: before[partition] for partition, count in records.items() if count}
    count = sum(records.values())
    where = counted(len(wanted), "partition")
    if wanted and not dry_run:
        question = f"Delete {counted(count, 'record')} of topic {topic!r} in {where}?"
        _ask(question, sure, f"{counted(count, 'record')} of {topic!r} would be deleted", True)
        run(_delete_records(session, wanted))
    if session.json:
        rows = [
            {"partition": partition.partition, "before": offset, "records": records[partition]}
            for partition, offset in sorted(before.items())
        ]
        print_json({"topic": topic, "dry_run": dry_run, "partitions": rows})
    else:
        done = "would delete" if dry_run else "deleted"
        click.echo(f"{done} {counted(count, 'record')} of {topic} in {where}")


async def _planned(
    session: Session, topic: str, place: Start, partitions: Sequence[int]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where each partition is to begin, and where it begins now."""
    from tidelog.aio import TopicPartition

    async with session.admin() as admin:
        known = [partition.index for partition in (await admin.describe_topics([topic]))[topic].partitions]
        for index in partitions:
            if index not in known:
                raise Failure(f"topic {topic!r} has no partition {index}: it has 0 to {max(known)}")
        chosen = [TopicPartition(topic, index) for index in dict.fromkeys(partitions or known)]
        starts = {
            name: found.offset
            for name, found in (await admin.list_offsets(dict.fromkeys(chosen, "earliest"))).items()
        }
        ends = {
            name: found.offset
            for name, found in (await admin.list_offsets(dict.fromkeys(chosen, "latest"))).items()
        }
        return await _offsets(admin, place, starts, ends), starts


async def _offsets(
    admin: Admin, place: Start, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if place.kind == "beginning":
        return starts
    if place.kind == "end":
        return ends
    if place.kind == "last":
        return {name: max(starts[name], end - place.value) for name, end in ends.items()}
    if place.kind == "time":
        found = await admin.list_offsets(dict.fromkeys(ends, place.value))
        return {name: ends[name] if answer.offset < 0 else answer.offset for name, answer in found.items()}
    for name, end in ends.items():
        if place.value > end:
            raise Failure(
                f"offset {place.value} is out of range in partition {name.partition} of {name.topic!r}: it has "
                f"{starts[name]} to {end}"
            )
    return dict.fromkeys(ends, place.value)


async def _delete_records(session: Session, before: dict[TopicPartition, int]) -> None:
    async with session.admin() as admin:
        await admin.delete_records(before)
