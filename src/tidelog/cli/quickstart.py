"""`tidelog quickstart`: a broker that lives for a minute, with a topic that is written and read.  Nothing stays behind."""

from __future__ import annotations

import select
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from tidelog.cli.output import counted, print_json
from tidelog.cli.session import Failure, Session, command_help, run

TOPIC = "greetings"
VALUES = ("hello", "bonjour", "hola")
READY_SECONDS_MAX = 60
TIMEOUT_MS = 30_000
LOOK_SECONDS = 0.2


@click.command(
    help=command_help(
        "See Tidelog at work in a few seconds: start a broker on free ports with data in a temporary folder, create a "
        "topic, write and read records, and show the console.  On a terminal the broker runs until Enter or "
        "Ctrl-C, for you to try more; otherwise it ends at once.  Nothing is left behind.",
        """
tidelog quickstart
tidelog quickstart --browser
""",
        '{"kafka": "HOST:PORT", "http": "HOST:PORT", "topic", "records": [{"partition", "offset", "value"}]}',
    )
)
@click.option("--browser", is_flag=True, help="Open the console in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text, and end at once.")
def quickstart(browser: bool, as_json: bool) -> None:
    say = (lambda _: None) if as_json else click.echo
    stays = not as_json and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        with _ended_by_sigterm(), _broker() as (kafka, http):
            say(f"A broker runs at {kafka}, with its data in a temporary folder.\n")
            records = run(_write_and_read(Session(kafka, TIMEOUT_MS, as_json), say))
            if as_json:
                print_json({"kafka": kafka, "http": http, "topic": TOPIC, "records": records})
            say(f"\nThe console is at http://{http}/.  Any Kafka client can use {kafka}.")
            if browser:
                click.launch(f"http://{http}/")
            if stays:
                _await_enter()
    except (KeyboardInterrupt, click.Abort):
        say("")
    say("The broker is stopped, and its data are removed.  `tidelog serve` starts one that keeps its data.")


async def _write_and_read(session: Session, say: Any) -> list[dict[str, Any]]:
    from tidelog.aio import Consumer, NewTopic, Producer, TopicPartition

    say(f"$ tidelog topics create {TOPIC}")
    async with session.admin() as admin:
        created = await admin.create_topics([NewTopic(TOPIC)])
    say(f"created {TOPIC}: {counted(created[TOPIC].partitions, 'partition')}\n")

    say(f"$ printf '{''.join(value + chr(92) + 'n' for value in VALUES)}' | tidelog produce {TOPIC}")
    async with Producer(bootstrap_servers=session.bootstrap, delivery_timeout_ms=TIMEOUT_MS) as producer:
        for value in VALUES:
            await (await producer.send(TOPIC, value.encode()))
    say(f"{counted(len(VALUES), 'record')} written to {TOPIC}\n")

    say(f"$ tidelog consume {TOPIC}")
    records: list[dict[str, Any]] = []
    async with Consumer(bootstrap_servers=session.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, index) for index in await consumer.partitions_for(TOPIC)])
        while len(records) < len(VALUES):
            for record in await consumer.poll(1_000):
                value = (record.value or b"").decode()
                records.append({"partition": record.partition, "offset": record.offset, "value": value})
                say(value)
    return records


def _await_enter() -> None:
    """A signal that comes just before a blocking read would not end the read: standard input is looked at instead."""
    click.echo("Press Enter to stop")
    while not select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
        pass
    sys.stdin.readline()


@contextmanager
def _broker() -> Iterator[tuple[str, str]]:
    """The addresses of Kafka and of HTTP; the broker ends and its folder is removed afterwards, whatever happens."""
    from tidelog.cli.dev import processes

    with tempfile.TemporaryDirectory(prefix="tidelog-quickstart-") as folder:
        out, log = Path(folder) / "broker.out", Path(folder) / "broker.log"
        command = [sys.executable, "-m", "tidelog", "serve", "--data", f"{folder}/data"]
        command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        pid = processes.spawn(command, out, log)
        try:
            try:
                ready = partial(_is_ready, out)
                processes.await_ready(pid, command, ready, log, READY_SECONDS_MAX)
            except processes.Gone as problem:
                raise Failure(f"The broker did not start: {problem}") from None
            words = dict(word.split("=", 1) for word in out.read_text().split() if "=" in word)
            yield words["kafka"], words["http"]
        finally:
            processes.end([(pid, command)])


def _is_ready(out: Path) -> bool:
    return out.exists() and out.read_text().endswith("\n")


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does, so that the broker does not outlive it."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
