"""`tidelog consume`: the records of a topic, printed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from tidelog.cli.completion import complete_groups, complete_topics
from tidelog.cli.output import ProgressMeter, coloured, counted, hush_stdout
from tidelog.cli.record_format import FORMAT_HELP, BadFormat, Formatter, coloured_json, record_formatter
from tidelog.cli.records.printer import RecordPrinter
from tidelog.cli.records.schema_codec import SchemaCodecs, schema_options
from tidelog.cli.records.where import WHERE_HELP, BadCondition, RecordFields, parse_condition
from tidelog.cli.session import Failure, Session, broker_options, command_help, run
from tidelog.cli.start_offset import BadStart, Start, parse_start

if TYPE_CHECKING:
    from tidelog.aio import Consumer, Record, TopicPartition

Condition = Callable[[RecordFields], bool]

POLL_MS = 500
POLL_RECORDS = 2000


class ReadOptions(NamedTuple):
    """What to read, and when to stop."""

    topic: str
    start: Start
    until: Start | None
    partitions: tuple[int, ...]
    isolation: str
    records_max: int | None
    follow: bool
    group: str | None


def _start(ctx: click.Context, param: click.Parameter, value: str | None) -> Start | None:
    import time

    if value is None:
        return None
    try:
        return parse_start(value, time.time_ns() // 1_000_000)
    except BadStart as problem:
        raise click.BadParameter(str(problem)) from None


def _format(ctx: click.Context, param: click.Parameter, value: str) -> Formatter:
    try:
        return record_formatter(value)
    except BadFormat as problem:
        raise click.BadParameter(str(problem)) from None


def _condition(ctx: click.Context, param: click.Parameter, value: str | None) -> Condition | None:
    import time

    try:
        return None if value is None else parse_condition(value, time.time_ns() // 1_000_000)
    except BadCondition as problem:
        raise click.BadParameter(str(problem)) from None


@click.command(
    help=command_help(
        "Print the records of TOPIC: those that exist now, or with --follow new records, too, until Ctrl-C.",
        """
tidelog consume greetings
tidelog consume orders --from -10m --follow --format '%p:%o %k = %v'
tidelog consume orders --from 2026-01-31T09:00Z --max 100 --json
tidelog consume orders --partition 2 --from 1500
tidelog consume orders --tail 10 --follow
tidelog consume orders --from -1h --where "value.total > 100 and headers.source == 'shop'"
tidelog consume orders --value-schema registry --json
tidelog consume orders --group billing
""",
        """
one line per record: {"topic", "partition", "offset", "timestamp", "timestamp_type": "create" or "append",
 "key", "value", "headers": [{"name", "value"}]}; null stays null, and bytes that are not UTF-8
come as key_base64 or value_base64 instead.  `tidelog produce --input json` reads the same lines.
With a schema, key and value are JSON: Avro in its own JSON, Protobuf in Protobuf's
""",
    )
    + f"\n\n\b\n{FORMAT_HELP}\n\n\b\n{WHERE_HELP}"
)
@click.argument("topic", shell_complete=complete_topics)
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
    "--until",
    callback=_start,
    metavar="WHERE",
    help="Stop there in each partition: an OFFSET, -N before the end, or a time, as for --from.  The record there is not "
    "printed.",
)
@click.option(
    "--tail",
    type=click.IntRange(0, 1_000_000),
    metavar="N",
    help="Only the last N records of all partitions together, by timestamp; with --follow, then new records.",
)
@click.option(
    "--where",
    "condition",
    callback=_condition,
    metavar="CONDITION",
    help="Only records for which this is true; see above.",
)
@click.option(
    "--group-by-key",
    "grouped",
    is_flag=True,
    help="Print the records of each key together, when the end is reached.",
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
    shell_complete=complete_groups,
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
@schema_options
def consume(
    session: Session,
    topic: str,
    start: Start,
    until: Start | None,
    tail: int | None,
    condition: Condition | None,
    grouped: bool,
    partitions: tuple[int, ...],
    formatter: Formatter,
    records_max: int | None,
    follow: bool | None,
    group: str | None,
    isolation: str,
    schemas: Callable[[str], SchemaCodecs],
) -> None:
    follows = follow if follow is not None else group is not None or (start.kind == "end" and tail is None)
    options = ReadOptions(topic, start, until, partitions, isolation, records_max, follows, group)
    _check(options, tail, grouped)
    if tail is not None and condition is None and start.kind == "beginning":
        options = options._replace(start=Start("last", tail))  # nothing before can be among the last
    chosen = record_formatter("json") if session.json else formatter
    if chosen is record_formatter("json") and coloured():
        chosen = coloured_json
    printer = RecordPrinter(sys.stdout.buffer, chosen, schemas(topic), condition, tail, grouped)
    try:
        run(
            _consume(session, options, printer)
            if group is None
            else _consume_as_member(session, options, printer)
        )
    except KeyboardInterrupt:
        pass  # Ctrl-C is the usual way to stop following.
    except BrokenPipeError:
        hush_stdout()
    if printer.problems:
        raise Failure(
            f"{counted(printer.problems, 'key or value', 'keys or values')} did not fit: {printer.first_problem}"
        )


def _check(options: ReadOptions, tail: int | None, grouped: bool) -> None:
    if tail is not None and grouped:
        raise click.UsageError("--tail cannot be used with --group-by-key.")
    if options.follow and grouped:
        raise click.UsageError(
            "--group-by-key needs an end: it cannot be used with --follow, or --group without --exit."
        )
    if options.follow and options.until is not None and options.group is None:
        raise click.UsageError("--until says where to stop: it cannot be used with --follow.")
    if options.group is None:
        return
    for given, name in ((options.until, "--until"), (tail, "--tail"), (grouped or None, "--group-by-key")):
        if given is not None:
            raise click.UsageError(f"{name} cannot be used with --group: what is printed is committed.")
    if options.partitions:
        raise click.UsageError("--partition cannot be used with --group: the group assigns the partitions.")
    if options.start.kind in ("offset", "last"):
        raise click.UsageError("With --group, --from is beginning, end or a time.")


async def _consume_as_member(session: Session, options: ReadOptions, printer: RecordPrinter) -> None:
    from tidelog.aio import Consumer

    start = options.start
    names = {"beginning": "earliest", "end": "latest"}
    async with Consumer(
        options.topic,
        bootstrap_servers=session.bootstrap,
        client_id="tidelog-cli",
        group_id=options.group,
        auto_offset_reset=start.value if start.kind == "time" else names[start.kind],
        isolation_level=options.isolation,
        # Commits the records that were printed, not those that were fetched.
        enable_auto_commit=False,
        request_timeout_ms=session.timeout_ms,
        connect_timeout_ms=session.connect_timeout_ms,
        security=session.security,
        max_poll_records=POLL_RECORDS,
    ) as consumer:
        await consumer.partitions_for(options.topic)
        while options.records_max is None or printer.taken < options.records_max:
            records = await consumer.poll(POLL_MS, _wanted(options, printer))
            if records:
                await printer.take(records, options.records_max)
                await consumer.commit()
            elif not options.follow and await _all_read(consumer):
                return


def _wanted(options: ReadOptions, printer: RecordPrinter) -> int:
    """Records to poll for: none is fetched that a member would commit without printing it."""
    if options.records_max is None:
        return POLL_RECORDS
    return min(options.records_max - printer.taken, POLL_RECORDS)


async def _all_read(consumer: Consumer) -> bool:
    """True if the group has assigned partitions, and they are read to their ends."""
    owned = consumer.assignment()
    ends = await consumer.end_offsets(owned) if owned else {}
    return bool(owned) and all([await consumer.position(one) >= ends[one] for one in owned])


async def _consume(session: Session, options: ReadOptions, printer: RecordPrinter) -> None:
    from tidelog.aio import Consumer, TopicPartition

    topic = options.topic
    async with Consumer(
        bootstrap_servers=session.bootstrap,
        client_id="tidelog-cli",
        auto_offset_reset="earliest",
        isolation_level=options.isolation,
        request_timeout_ms=session.timeout_ms,
        connect_timeout_ms=session.connect_timeout_ms,
        security=session.security,
        max_poll_records=POLL_RECORDS,
    ) as consumer:
        known = await consumer.partitions_for(topic)
        for index in options.partitions:
            if index not in known:
                raise Failure(f"topic {topic!r} has no partition {index}: it has 0 to {max(known)}")
        chosen = [TopicPartition(topic, index) for index in dict.fromkeys(options.partitions or known)]
        begins = await consumer.beginning_offsets(chosen)
        ends = await consumer.end_offsets(chosen)
        starts = await _offsets(consumer, options.start, chosen, begins, ends)
        if options.until is not None:
            ends = await _offsets(consumer, options.until, chosen, begins, ends)
        consumer.assign(chosen)
        for partition, offset in starts.items():
            consumer.seek(partition, offset)
        if not options.follow or printer.holds_back:
            await _print_to_end(consumer, options, printer, starts, ends)
            printer.finish()
            for partition, end in ends.items():
                consumer.seek(partition, end)
                consumer.resume(partition)
        if options.follow:
            await _print_new(consumer, options, printer)


async def _offsets(
    consumer: Consumer,
    where: Start,
    chosen: list[TopicPartition],
    begins: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offset of `where` in each partition."""
    if where.kind == "beginning":
        return {partition: begins[partition] for partition in chosen}
    if where.kind == "end":
        return {partition: ends[partition] for partition in chosen}
    if where.kind == "last":
        return {partition: max(begins[partition], ends[partition] - where.value) for partition in chosen}
    if where.kind == "time":
        found = await consumer.offsets_for_times(dict.fromkeys(chosen, where.value))
        return {
            partition: ends[partition] if answer is None else min(answer.offset, ends[partition])
            for partition, answer in found.items()
        }
    for partition in chosen:
        if not begins[partition] <= where.value <= ends[partition]:
            raise Failure(
                f"offset {where.value} is out of range in partition {partition.partition} of {partition.topic!r}: "
                f"it has {begins[partition]} to {ends[partition]}"
            )
    return dict.fromkeys(chosen, where.value)


async def _print_to_end(
    consumer: Consumer,
    options: ReadOptions,
    printer: RecordPrinter,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> None:
    """`ends`: where to stop, so that reading ends even while the topic is written to."""
    from tidelog.aio import TopicPartition

    distance = sum(max(0, ends[partition] - starts[partition]) for partition in starts)
    progress = None if sys.stdout.isatty() else ProgressMeter("record", distance)
    unread = set(ends)
    looked_at = 0
    try:
        while options.records_max is None or printer.taken < options.records_max:
            if not await _unread(consumer, unread, ends):
                return
            records = [
                record
                for record in await consumer.poll(POLL_MS, POLL_RECORDS)
                if record.offset < ends[TopicPartition(record.topic, record.partition)]
            ]
            looked_at += await printer.take(records, options.records_max)
            if progress is not None:
                progress.update(looked_at)
    finally:
        if progress is not None:
            progress.clear()


async def _print_new(consumer: Consumer, options: ReadOptions, printer: RecordPrinter) -> None:
    """From where the consumer is on, without end."""
    while options.records_max is None or printer.taken < options.records_max:
        records: list[Record] = await consumer.poll(POLL_MS, POLL_RECORDS)
        await printer.take(records, options.records_max)


async def _unread(
    consumer: Consumer, unread: set[TopicPartition], ends: dict[TopicPartition, int]
) -> set[TopicPartition]:
    """The partitions that are not yet read to their end; the others are paused."""
    for one in list(unread):
        if await consumer.position(one) >= ends[one]:
            unread.discard(one)
            consumer.pause(one)
    return unread
