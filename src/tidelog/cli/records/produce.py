"""`tidelog produce`: lines from standard input, one record each."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.completion import complete_topics
from tidelog.cli.output import ProgressMeter, bytes_text, counted, print_json
from tidelog.cli.records.input_lines import Lines, LineTooLong
from tidelog.cli.records.record_lines import BadRecordLine, Headers, ParsedRecord, parse_record, to_bytes
from tidelog.cli.records.schema_codec import BadValue, Codec, SchemaCodecs, schema_options
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.aio import Delivery, Producer

BATCH_BYTES = 64 * 1024
LINGER_MS = 5
BUFFER_BYTES = 8 * 1024 * 1024
REQUEST_BYTES = 16 * 1024 * 1024
INTERRUPTED = 130


class LineFormat(NamedTuple):
    """How a line becomes a record.  `separator`: between key and value, for lines of text; `headers` and `partition`: of
    every record that has none of its own."""

    json: bool
    separator: bytes | None
    headers: Headers
    partition: int | None
    by_key: bool


def _headers(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Headers:
    headers: Headers = []
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE")
        headers.append((name, os.fsencode(value)))
    return headers


def _separator(ctx: click.Context, param: click.Parameter, value: str | None) -> bytes | None:
    if value is None:
        return None
    separator = os.fsencode(value)
    if "\\" in value:
        try:
            separator = separator.decode("unicode_escape").encode("latin-1")
        except UnicodeError:
            raise click.BadParameter(f"{value!r} has an unknown escape sequence: use \\t or \\xHH") from None
    if not separator or b"\n" in separator:
        raise click.BadParameter("the separator must be at least one character, and not a newline")
    return separator


@click.command(
    help=command_help(
        "Write every line of standard input as a record to TOPIC.  A topic that does not exist is created if the "
        "broker allows that (auto.create.topics.enable).  Prints how many records the broker has acknowledged.\n\n"
        "With --input json each line is a record as `tidelog consume --json` prints it: value (null is a tombstone) or "
        "value_base64, and if there are any key or key_base64, headers, partition, timestamp.  A value that is no text is "
        "written as JSON, or in the schema of --value-schema.",
        """
echo hello | tidelog produce greetings
tidelog produce orders --key-separator : --header source=shop < orders.txt
tail -f app.log | tidelog produce logs --compression zstd --acks 1
tidelog consume orders --json | tidelog produce orders-copy --input json
echo '{"key": "a", "value": {"total": 5}}' | tidelog produce orders --input json --value-schema registry
""",
        '{"topic", "records": N, "value_bytes": N, "failed": N, "partitions": {PARTITION: N}}',
    )
)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--input",
    "given",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What a line has: the value, or a record in JSON.",
)
@click.option(
    "--by-key",
    is_flag=True,
    help="Choose partitions by key, also for records in JSON that name theirs.",
)
@click.option(
    "--key-separator",
    callback=_separator,
    metavar="TEXT",
    help=r"The key of a record is the text before this separator; \t is a tab.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    callback=_headers,
    metavar="NAME=VALUE",
    help="A header for every record; repeat.",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option(
    "--partition",
    type=click.IntRange(0),
    metavar="N",
    help="Write to this partition instead of choosing it by key.",
)
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@broker_options
@schema_options
def produce(
    session: CommandSession,
    topic: str,
    given: str,
    by_key: bool,
    key_separator: bytes | None,
    headers: Headers,
    compression: str,
    partition: int | None,
    acks: str,
    schemas: Callable[[str], SchemaCodecs],
) -> None:
    if given == "json" and key_separator is not None:
        raise click.UsageError("--key-separator is for lines of text: records in JSON have their keys.")
    if by_key and partition is not None:
        raise click.UsageError("--by-key cannot be used with --partition.")
    if sys.stdin is None:
        raise Failure("standard input is closed: there are no lines to read")
    lines = LineFormat(given == "json", key_separator, headers, partition, by_key)
    work = RecordProduction(session, topic, lines, schemas(topic))
    problem: str | None = None
    interrupted = False
    try:
        run(work.run(compression, acks))
    except Failure as failure:
        problem = failure.lines[0]
    except KeyboardInterrupt:
        interrupted = True
    work.progress.clear()
    if session.json:
        counts = {str(partition): count for partition, count in sorted(work.partitions.items())}
        print_json(
            {
                "topic": topic,
                "records": work.written,
                "value_bytes": work.value_bytes,
                "failed": work.failed,
                "partitions": counts,
            }
        )
    elif work.written or problem is None:
        click.echo(f"{counted(work.written, 'record')} written to {topic}")
    problem = problem or work.first_problem
    if work.failed:
        were = "was" if work.failed == 1 else "were"
        problem = f"{counted(work.failed, 'record')} {were} not written: {problem}"
    if problem is not None:
        raise Failure(problem)
    if interrupted:
        sys.exit(INTERRUPTED)


class RecordProduction:
    """One run: reads lines, sends records, and counts acknowledgements."""

    def __init__(
        self,
        session: CommandSession,
        topic: str,
        lines: LineFormat,
        codecs: SchemaCodecs,
    ) -> None:
        self.written = 0
        self.failed = 0
        self.value_bytes = 0
        self.partitions: dict[int, int] = {}
        self.first_problem: str | None = None
        self.progress = ProgressMeter("record", _input_bytes(), of_bytes=True)
        self._session = session
        self._topic = topic
        self._lines = lines
        self._codecs = codecs
        self._sent: deque[Delivery] = deque()

    async def run(self, compression: str, acks: str) -> None:
        import asyncio

        from tidelog.aio import Producer

        timeout_ms = self._session.timeout_ms
        producer = Producer(
            bootstrap_servers=self._session.bootstrap,
            client_id="tidelog-cli",
            acks=acks,
            compression_type=compression,
            batch_size=BATCH_BYTES,
            linger_ms=LINGER_MS,
            buffer_memory=BUFFER_BYTES,
            max_request_size=REQUEST_BYTES,
            max_block_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
            delivery_timeout_ms=timeout_ms,
            connect_timeout_ms=self._session.connect_timeout_ms,
            security=self._session.security,
        )
        await producer.start()
        try:
            existing = await producer.partitions_for(self._topic)
            wanted = self._lines.partition
            if wanted is not None and wanted not in existing:
                raise Failure(f"topic {self._topic!r} has no partition {wanted}: it has 0 to {max(existing)}")
            for codec in self._codecs:
                if codec is not None:
                    await codec.prepare_writing()
            if sys.stdin.isatty():
                click.echo("one record per line; end with Ctrl-D", err=True)
            await self._send_lines(producer, set(existing))
        except asyncio.CancelledError:
            # Ctrl-C: records that were read are still delivered, then the command ends as interrupted.
            await producer.flush()
            raise
        finally:
            await producer.close()
            self._count(everything=True)

    async def _send_lines(self, producer: Producer, partitions: set[int]) -> None:
        number, read_bytes = 0, 0
        lines = Lines(sys.stdin.fileno(), line_bytes_max=BUFFER_BYTES // 2)
        try:
            async for chunk in lines:
                for line in chunk:
                    number += 1
                    read_bytes += len(line) + 1
                    record = self._record(line, number, partitions)
                    if record is None:
                        continue
                    sent = await producer.send_bytes(
                        self._topic,
                        record.value,
                        record.key,
                        record.headers,
                        record.timestamp,
                        record.partition,
                    )
                    self._sent.append(sent)
                    self.value_bytes += len(record.value or b"")
                self._count()
                if self.failed:
                    return
                self.progress.update(self.written, read_bytes, f", {bytes_text(self.value_bytes)}")
        except LineTooLong:
            raise Failure(
                f"line {number + 1} is longer than {BUFFER_BYTES // 2} bytes: check that the input is text"
            ) from None
        finally:
            lines.close()

    def _record(self, line: bytes, number: int, partitions: set[int]) -> ParsedRecord | None:
        """The record of a line, its key and value in bytes; None for an empty line between records in JSON."""
        form = self._lines
        if form.json and not line.strip():
            return None
        try:
            if form.json:
                record = parse_record(line)
            else:
                key, value = self._split(line, number)
                record = ParsedRecord(key, value, [], None, None)
            record = record._replace(
                key=_in_bytes(record.key, self._codecs.key, form.json),
                value=_in_bytes(record.value, self._codecs.value, form.json),
            )
        except (BadRecordLine, BadValue) as problem:
            raise Failure(f"line {number} cannot be written: {problem}") from None
        partition = None if form.by_key else record.partition
        if partition is not None and form.partition is None and partition not in partitions:
            raise Failure(
                f"line {number} cannot be written: topic {self._topic!r} has no partition {partition}: use --by-key to "
                "choose partitions by key"
            )
        return record._replace(
            headers=[*record.headers, *form.headers],
            partition=partition if form.partition is None else form.partition,
        )

    def _split(self, line: bytes, number: int) -> tuple[bytes | None, bytes]:
        separator = self._lines.separator
        if separator is None:
            return None, line
        key, separated, value = line.partition(separator)
        if not separated:
            raise Failure(f"line {number} has no key separator {separator.decode(errors='replace')!r}")
        return key, value

    def _count(self, everything: bool = False) -> None:
        """Removes settled records from the front, so that memory stays bounded on endless input."""
        while self._sent and (everything or self._sent[0].done()):
            sent = self._sent.popleft()
            problem = sent.exception() if sent.done() else None
            if problem is None and sent.done():
                self.written += 1
                where = sent.result().partition
                self.partitions[where] = self.partitions.get(where, 0) + 1
            else:
                self.failed += 1
                self.first_problem = self.first_problem or str(problem or "interrupted")


def _in_bytes(part: Any, codec: Codec | None, json: bool) -> bytes | None:
    """Bytes that came as base64 are written as they are; a line of text is JSON for a schema, or a string if it is none."""
    if part is None or codec is None:
        return to_bytes(part)
    if isinstance(part, bytes):
        return part if json else codec.encode(_json_or_text(part))
    return codec.encode(part)


def _json_or_text(line: bytes) -> Any:
    import json

    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        try:
            return line.decode()
        except UnicodeDecodeError:
            raise BadValue("it is not UTF-8 text") from None


def _input_bytes() -> int | None:
    """The size of standard input, if it is a file."""
    import stat

    try:
        status = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
