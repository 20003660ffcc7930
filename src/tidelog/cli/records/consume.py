"""`tidelog consume`: the records of a topic, printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tidelog.cli.output import ProgressLine, hush_stdout
from tidelog.cli.records.record_format import FORMAT_HELP, BadFormat, Formatter, record_formatter
from tidelog.cli.records.start_offset import BadStart, Start, parse_start
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.aio import Consumer, TopicPartition

POLL_MS = 500
POLL_RECORDS = 2000


def _start(ctx: click.Context, param: click.Parameter, value: str) -> Start:
    import time

    try:
        return parse_start(value, time.time_ns() // 1_000_000)
    except BadStart as problem:
        raise click.BadParameter(str(problem)) from None


def _format(ctx: click.Context, param: click.Parameter, value: str) -> Formatter:
    try:
        return record_formatter(value)
    except BadFormat as problem:
        raise click.BadParameter(str(problem)) from None


@click.command(
    help=command_help(
        "Print the records of TOPIC: those that exist now, or with --follow new records, too, until Ctrl-C.",
        """
tidelog consume greetings
tidelog consume orders --from -10m --follow --format '%p:%o %k = %v'
tidelog consume orders --from 2026-01-31T09:00Z --max 100 --json
tidelog consume orders --partition 2 --from 1500
tidelog consume orders --group billing
""",
        """
one line per record: {"topic", "partition", "offset", "timestamp", "timestamp_type": "create" or "append",
 "key", "value", "headers": [{"name", "value"}]}; null stays null, and bytes that are not UTF-8
come as key_base64 or value_base64 instead
""",
    )
    + f"\n\n\b\n{FORMAT_HELP}"
)
@click.argument("topic")
@click.option(
    "--from",
    "start",
    default="beginning",
    show_default=True,
    callback=_start,
    metavar="WHERE",
    help="beginning, end, an OFFSET, -N for the last N of each partition, a time like 2026-01-31T09:00 (local time "
    "unless it has an offset), or how long ago, like -10m (s, m, h, d).",
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition; repeat.",
)
@click.option(
    "--format",
    "formatter",
    default="%v",
    show_default=True,
    callback=_format,
    metavar="FORMAT",
    help="See above; or json.",
)
@click.option(
    "--max", "records_max", type=click.IntRange(1), metavar="N", help="Stop after this many records."
)
@click.option(
    "--follow/--exit",
    default=None,
    help="Wait for new records, or exit at the end.  Without either: follow if reading starts at the end.",
)
@click.option(
    "--group",
    metavar="NAME",
    help="Read as a member of this group: from its committed offsets on, sharing the partitions with its other members, and "
    "commit the printed records.  --from then applies to partitions without a committed offset.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether to print records of open and aborted transactions.",
)
@broker_options
def consume(
    session: CommandSession,
    topic: str,
    start: Start,
    partitions: tuple[int, ...],
    formatter: Formatter,
    records_max: int | None,
    follow: bool | None,
    group: str | None,
    isolation: str,
) -> None:
    chosen = record_formatter("json") if session.json else formatter
    if group is not None:
        work = _consume_as_member(
            session,
            topic,
            group,
            _reset(start, partitions),
            isolation,
            chosen,
            records_max,
            follow is not False,
        )
    else:
        follows = follow if follow is not None else start.kind == "end"
        work = _consume(session, topic, start, partitions, isolation, chosen, records_max, follows)
    try:
        run(work)
    except KeyboardInterrupt:
        pass  # Ctrl-C is the usual way to stop following.
    except BrokenPipeError:
        hush_stdout()


def _reset(start: Start, partitions: tuple[int, ...]) -> str | int:
    if partitions:
        raise click.UsageError("--partition cannot be used with --group: the group assigns the partitions.")
    if start.kind in ("offset", "last"):
        raise click.UsageError("With --group, --from is beginning, end or a time.")
    return start.value if start.kind == "time" else {"beginning": "earliest"}.get(start.kind, "latest")


async def _consume_as_member(
    session: CommandSession,
    topic: str,
    group: str,
    reset: str | int,
    isolation: str,
    formatter: Formatter,
    records_max: int | None,
    follow: bool,
) -> None:
    from tidelog.aio import Consumer

    async with Consumer(
        topic,
        bootstrap_servers=session.bootstrap,
        client_id="tidelog-cli",
        group_id=group,
        auto_offset_reset=reset,
        isolation_level=isolation,
        # Commits the records that were printed, not those that were fetched.
        enable_auto_commit=False,
        request_timeout_ms=session.timeout_ms,
        connect_timeout_ms=session.connect_timeout_ms,
        security=session.security,
        max_poll_records=POLL_RECORDS,
    ) as consumer:
        await consumer.partitions_for(topic)
        out, printed = sys.stdout.buffer, 0
        while records_max is None or printed < records_max:
            wanted = POLL_RECORDS if records_max is None else min(records_max - printed, POLL_RECORDS)
            records = await consumer.poll(POLL_MS, wanted)
            for record in records:
                out.write(formatter(record))
            if records:
                printed += len(records)
                out.flush()
                await consumer.commit()
            elif not follow and await _all_read(consumer):
                return


async def _all_read(consumer: Consumer) -> bool:
    """True if the group has assigned partitions, and they are read to their ends."""
    owned = consumer.assignment()
    ends = await consumer.end_offsets(owned) if owned else {}
    return bool(owned) and all([await consumer.position(partition) >= ends[partition] for partition in owned])


async def _consume(
    session: CommandSession,
    topic: str,
    start: Start,
    partitions: tuple[int, ...],
    isolation: str,
    formatter: Formatter,
    records_max: int | None,
    follow: bool,
) -> None:
    from tidelog.aio import Consumer, TopicPartition

    async with Consumer(
        bootstrap_servers=session.bootstrap,
        client_id="tidelog-cli",
        auto_offset_reset="earliest",
        isolation_level=isolation,
        request_timeout_ms=session.timeout_ms,
        connect_timeout_ms=session.connect_timeout_ms,
        security=session.security,
        max_poll_records=POLL_RECORDS,
    ) as consumer:
        existing = await consumer.partitions_for(topic)
        for index in partitions:
            if index not in existing:
                raise Failure(f"topic {topic!r} has no partition {index}: it has 0 to {max(existing)}")
        chosen = [TopicPartition(topic, index) for index in dict.fromkeys(partitions or existing)]
        begins = await consumer.beginning_offsets(chosen)
        ends = await consumer.end_offsets(chosen)
        await _seek(consumer, start, chosen, begins, ends)
        await _print(consumer, formatter, records_max, None if follow else ends)


async def _seek(
    consumer: Consumer,
    start: Start,
    chosen: list[TopicPartition],
    begins: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> None:
    if start.kind == "time":
        by_time = await consumer.offsets_for_times(dict.fromkeys(chosen, start.value))
    consumer.assign(chosen)
    for partition in chosen:
        if start.kind == "beginning":
            offset = begins[partition]
        elif start.kind == "end":
            offset = ends[partition]
        elif start.kind == "last":
            offset = max(begins[partition], ends[partition] - start.value)
        elif start.kind == "time":
            answer = by_time[partition]
            offset = answer.offset if answer is not None else ends[partition]
        else:
            offset = start.value
            if not begins[partition] <= offset <= ends[partition]:
                raise Failure(
                    f"offset {offset} is out of range in partition {partition.partition} of {partition.topic!r}: "
                    f"it has {begins[partition]} to {ends[partition]}"
                )
        consumer.seek(partition, offset)


async def _print(
    consumer: Consumer, formatter: Formatter, records_max: int | None, ends: dict[TopicPartition, int] | None
) -> None:
    """`ends`: where to stop, so that reading ends even while the topic is written to."""
    import time

    from tidelog.aio import TopicPartition

    out = sys.stdout.buffer
    progress = None if sys.stdout.isatty() else ProgressLine()
    printed = 0
    unread = set(ends or ())
    try:
        while records_max is None or printed < records_max:
            if ends is not None and not await _unread(consumer, unread, ends):
                return
            wanted = POLL_RECORDS if records_max is None else min(records_max - printed, POLL_RECORDS)
            records = await consumer.poll(POLL_MS, wanted)
            for record in records:
                if ends is None or record.offset < ends[TopicPartition(record.topic, record.partition)]:
                    out.write(formatter(record))
                    printed += 1
            if records:
                out.flush()
                if progress is not None:
                    progress.update(time.monotonic(), f"{printed} records")
    finally:
        if progress is not None:
            progress.clear()


async def _unread(
    consumer: Consumer, unread: set[TopicPartition], ends: dict[TopicPartition, int]
) -> set[TopicPartition]:
    """The partitions that are not yet read to their end; the others are paused."""
    for partition in list(unread):
        if await consumer.position(partition) >= ends[partition]:
            unread.discard(partition)
            consumer.pause(partition)
    return unread
