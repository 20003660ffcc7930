"""`tidelog audit`: the events of the audit topic, filtered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.output import hush_stdout
from tidelog.cli.session import Failure, Session, broker_options, command_help, run
from tidelog.cli.start_offset import BadStart, Start, parse_start

if TYPE_CHECKING:
    from tidelog.aio import Consumer, TopicPartition

POLL_MS = 500
OUTCOMES = ("success", "failure", "denied")
EVENTS = ("authentication", "authorization", "change", "audit")
SEEN_IDS_MAX = 10_000


class AuditFilter(NamedTuple):
    """Which events to show; None: any."""

    user: str | None
    outcome: str | None
    event: str | None
    resource: str | None

    def has(self, event: dict[str, Any]) -> bool:
        principal = str(event.get("principal", ""))
        return (
            (self.user is None or self.user in (principal, principal.partition(":")[2]))
            and (self.outcome is None or self.outcome == event.get("outcome"))
            and (self.event is None or self.event == event.get("event"))
            and (self.resource is None or self.resource == event.get("resource"))
        )


def _since(ctx: click.Context, param: click.Parameter, value: str | None) -> Start | None:
    import time

    if value is None:
        return None
    try:
        start = parse_start(value, time.time_ns() // 1_000_000)
    except BadStart as problem:
        raise click.BadParameter(str(problem)) from None
    if start.kind not in ("time", "beginning"):
        raise click.BadParameter(
            "write a time like 2026-01-31T09:00, or how long ago, like -10m (s, m, h, d)."
        )
    return start


@click.command(
    help=command_help(
        "Show who logged in, who was denied what, and who changed what: the events of the audit topic, oldest first.  "
        "Brokers record them as soon as clients log in (`tidelog.audit.enable`).",
        """
tidelog audit --since -1h
tidelog audit --user alice --outcome denied
tidelog audit --event change --resource orders --json
tidelog audit --follow
""",
        """
one line per event: {"id", "time", "broker", "event", "outcome", "principal", "listener", "client_id", "address",
 "operation", "resource_type", "resource", "reason", "change", "count", "first"}; what an event does not have is left out
""",
    )
)
@click.option("--user", metavar="NAME", help="Only events of this user, such as alice or User:alice.")
@click.option("--since", callback=_since, metavar="WHEN", help="Only events from then on: a time, or -10m.")
@click.option("--outcome", type=click.Choice(OUTCOMES), help="Only events with this outcome.")
@click.option("--event", type=click.Choice(EVENTS), help="Only events of this kind.")
@click.option("--resource", metavar="NAME", help="Only events about the topic, group, user ... of this name.")
@click.option("--follow", is_flag=True, help="Wait for new events until Ctrl-C.")
@click.option("--topic", default="_audit", show_default=True, help="The brokers' tidelog.audit.topic.")
@broker_options
def audit(
    session: Session,
    user: str | None,
    since: Start | None,
    outcome: str | None,
    event: str | None,
    resource: str | None,
    follow: bool,
    topic: str,
) -> None:
    wanted = AuditFilter(user, outcome, event, resource)
    start_ms = since.value if since is not None and since.kind == "time" else None
    show = json.dumps if session.json else shown
    try:
        run(_show(session, topic, wanted, start_ms, follow, show))
    except KeyboardInterrupt:
        pass  # Ctrl-C is the usual way to stop following.
    except BrokenPipeError:
        hush_stdout()


async def _show(
    session: Session,
    topic: str,
    wanted: AuditFilter,
    start_ms: int | None,
    follow: bool,
    show: Callable[[dict[str, Any]], str],
) -> None:
    from tidelog.aio import Consumer

    async with session.admin() as admin:
        if topic not in [found.name for found in await admin.list_topics(internal=True)]:
            raise Failure(
                f"There is no topic {topic!r} that you may see: brokers create it with the first event, if "
                "tidelog.audit.enable says so; READ and DESCRIBE on it are needed."
            )
    async with Consumer(
        bootstrap_servers=session.bootstrap,
        client_id="tidelog-cli",
        auto_offset_reset="earliest",
        request_timeout_ms=session.timeout_ms,
        connect_timeout_ms=session.connect_timeout_ms,
        security=session.security,
    ) as consumer:
        ends = await _place(consumer, topic, start_ms)
        seen: dict[object, None] = {}
        while True:
            if not follow and all(
                [await consumer.position(partition) >= ends[partition] for partition in ends]
            ):
                return
            for record in await consumer.poll(POLL_MS):
                for event in _read(record.value):
                    id = event.get("id")
                    if id in seen or not wanted.has(event):
                        continue  # a broker that got no answer writes its events again
                    seen[id] = None
                    if len(seen) > SEEN_IDS_MAX:
                        del seen[next(iter(seen))]
                    click.echo(show(event))


async def _place(consumer: Consumer, topic: str, start_ms: int | None) -> dict[TopicPartition, int]:
    """Where the topic ends now."""
    from tidelog.aio import TopicPartition

    partitions = [TopicPartition(topic, index) for index in await consumer.partitions_for(topic)]
    ends = await consumer.end_offsets(partitions)
    begins = await consumer.beginning_offsets(partitions)
    consumer.assign(partitions)
    since = {} if start_ms is None else await consumer.offsets_for_times(dict.fromkeys(partitions, start_ms))
    for partition in partitions:
        answer = since.get(partition)
        otherwise = begins[partition] if start_ms is None else ends[partition]
        consumer.seek(partition, otherwise if answer is None else answer.offset)
    return ends


def _read(value: bytes | None) -> Iterator[dict[str, Any]]:
    """The event; nothing if somebody else has written to the topic."""
    try:
        event = json.loads(value or b"")
    except ValueError:
        return
    if isinstance(event, dict):
        yield event


def shown(event: dict[str, Any]) -> str:
    """One line for people.  Names are quoted where they could be taken for something else, or play with the terminal."""
    parts = [
        str(event.get("time", "")),
        str(event.get("outcome", "")),
        str(event.get("event", "")),
        _name(event.get("principal") or "-"),
        _name(event.get("operation") or "-"),
    ]
    if event.get("resource_type"):
        parts.append(f"{_name(event['resource_type'])}:{_name(event.get('resource'))}")
    for name in ("address", "listener", "client_id", "reason", "change", "count", "first"):
        value = event.get(name)
        if value not in (None, "", {}):
            parts.append(f"{name}={_name(value) if isinstance(value, str) else json.dumps(value)}")
    return " ".join(parts)


def _name(value: object) -> str:
    text = str(value)
    plain = text.isascii() and text.isprintable() and text and not set(text) & set(" \"'=")
    return text if plain else json.dumps(text)
