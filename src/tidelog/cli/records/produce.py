"""`tidelog produce`: lines from standard input, one record each."""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import TYPE_CHECKING

import click

from tidelog.cli.output import ProgressLine, bytes_text, print_json
from tidelog.cli.records.input_lines import Lines, LineTooLong
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.aio import Delivery, Producer

BATCH_BYTES = 64 * 1024
LINGER_MS = 5
BUFFER_BYTES = 8 * 1024 * 1024
REQUEST_BYTES = 16 * 1024 * 1024
INTERRUPTED = 130


def _headers(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, bytes | None]]:
    headers: list[tuple[str, bytes | None]] = []
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
        "broker allows that (auto.create.topics.enable).  Prints how many records the broker has acknowledged.",
        """
echo hello | tidelog produce greetings
tidelog produce orders --key-separator : --header source=shop < orders.txt
tail -f app.log | tidelog produce logs --compression zstd --acks 1
""",
        '{"topic", "records": N, "value_bytes": N, "failed": N, "partitions": {PARTITION: N}}',
    )
)
@click.argument("topic")
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
def produce(
    session: CommandSession,
    topic: str,
    key_separator: bytes | None,
    headers: list[tuple[str, bytes | None]],
    compression: str,
    partition: int | None,
    acks: str,
) -> None:
    if sys.stdin is None:
        raise Failure("standard input is closed: there are no lines to read")
    work = RecordProduction(session, topic, key_separator, headers, partition)
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
        click.echo(f"{work.written} records written to {topic}")
    problem = problem or work.first_problem
    if work.failed:
        problem = f"{work.failed} records were not written: {problem}"
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
        separator: bytes | None,
        headers: list[tuple[str, bytes | None]],
        partition: int | None,
    ) -> None:
        self.written = 0
        self.failed = 0
        self.value_bytes = 0
        self.partitions: dict[int, int] = {}
        self.first_problem: str | None = None
        self.progress = ProgressLine()
        self._session = session
        self._topic = topic
        self._separator = separator
        self._headers = headers
        self._partition = partition
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
            if self._partition is not None and self._partition not in existing:
                last = max(existing)
                raise Failure(f"topic {self._topic!r} has no partition {self._partition}: it has 0 to {last}")
            if sys.stdin.isatty():
                click.echo("one record per line; end with Ctrl-D", err=True)
            await self._send_lines(producer)
        except asyncio.CancelledError:
            # Ctrl-C: records that were read are still delivered, then the command ends as interrupted.
            await producer.flush()
            raise
        finally:
            await producer.close()
            self._count(everything=True)

    async def _send_lines(self, producer: Producer) -> None:
        import time

        number = 0
        lines = Lines(sys.stdin.fileno(), line_bytes_max=BUFFER_BYTES // 2)
        try:
            async for chunk in lines:
                for line in chunk:
                    number += 1
                    key, value = self._split(line, number)
                    sent = await producer.send(
                        self._topic, value, key=key, headers=self._headers, partition=self._partition
                    )
                    self._sent.append(sent)
                    self.value_bytes += len(value)
                self._count()
                if self.failed:
                    return
                done = f"{self.written} records, {bytes_text(self.value_bytes)} written"
                self.progress.update(time.monotonic(), done)
        except LineTooLong:
            raise Failure(
                f"line {number + 1} is longer than {BUFFER_BYTES // 2} bytes: check that the input is text"
            ) from None
        finally:
            lines.close()

    def _split(self, line: bytes, number: int) -> tuple[bytes | None, bytes]:
        if self._separator is None:
            return None, line
        key, separator, value = line.partition(self._separator)
        if not separator:
            raise Failure(f"line {number} has no key separator {self._separator.decode(errors='replace')!r}")
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
