"""`tidelog queues`: topics that are queues for share groups (`queue.groups`), and their messages."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.completion import complete_topics
from tidelog.cli.groups.queues import delayed as delayed_messages
from tidelog.cli.groups.queues import listing, messages
from tidelog.cli.output import counted, print_json, print_table, time_text
from tidelog.cli.session import CommandSession, Failure, Finite, broker_options, command_help, pairs, run

if TYPE_CHECKING:
    from tidelog.aio import Record


@click.group(help="Create, list, fill, read and purge queues.")
def queues() -> None:
    pass


@queues.command(
    help=command_help(
        "Create a queue: a topic, and a share group of the same name that it is a queue for.",
        """
tidelog queues create jobs
tidelog queues create jobs --priorities 10 --set queue.ttl.ms=3600000
tidelog queues create jobs --dead-letters jobs-failed --group-set share.delivery.count.limit=3
""",
        '{"queue", "partitions", "group"}',
    )
)
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1, 10_000), default=1, show_default=True, help="How many.")
@click.option(
    "--priorities", type=click.IntRange(2, 32), metavar="N", help="A partition for each of N priorities."
)
@click.option("--dead-letters", metavar="TOPIC", help="The topic that gets what is rejected or given up.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help="A setting of the topic; repeat.",
)
@click.option(
    "--group-set", multiple=True, callback=pairs, metavar="KEY=VALUE", help="A setting of the group; repeat."
)
@broker_options
def create(
    session: CommandSession,
    name: str,
    partitions: int,
    priorities: int | None,
    dead_letters: str | None,
    settings: dict[str, str],
    group_set: dict[str, str],
) -> None:
    if priorities is not None:
        if partitions != 1:
            raise click.UsageError("--priorities gives each priority one partition: leave --partitions out")
        partitions, settings = priorities, {"queue.priorities": "true", **settings}
    if dead_letters is not None:
        group_set = {"share.dead.letter.topic": dead_letters, **group_set}
    run(listing.create(session, name, partitions, settings, group_set))
    if session.json:
        print_json({"queue": name, "partitions": partitions, "group": name})
    else:
        click.echo(f"created queue {name} with {counted(partitions, 'partition')}")


@queues.command(
    "list",
    help=command_help(
        "The topics that are queues, and how many messages wait or are held in each.",
        "tidelog queues list\ntidelog queues list --json",
        '[{"queue", "groups", "partitions", "messages"}]; messages is null where nobody knows',
    ),
)
@broker_options
def list_(session: CommandSession) -> None:
    listed = run(listing.listed(session))
    if session.json:
        print_json([queue.as_json() for queue in listed])
        return
    rows = [(queue.name, ",".join(queue.groups), queue.partitions, queue.messages) for queue in listed]
    print_table(("QUEUE", "GROUPS", "PARTITIONS", "MESSAGES"), rows, right=("PARTITIONS", "MESSAGES"))


@queues.command(
    help=command_help(
        "A queue's settings, and its messages by group and partition.",
        "tidelog queues describe jobs",
        '{"queue", "groups", "partitions", "messages", "settings", "lag": [{"group", "partition", "start", "messages"}]}',
    )
)
@click.argument("name", shell_complete=complete_topics)
@broker_options
def describe(session: CommandSession, name: str) -> None:
    queue = run(listing.described(session, name))
    if session.json:
        print_json(
            queue.as_json() | {"settings": queue.settings, "lag": [lag._asdict() for lag in queue.lag]}
        )
        return
    click.echo(f"{queue.name}: {counted(queue.partitions, 'partition')}, groups {', '.join(queue.groups)}")
    for key, value in sorted(queue.settings.items()):
        click.echo(f"  {key}={value}")
    if queue.lag:
        rows = [tuple(lag) for lag in queue.lag]
        print_table(
            ("GROUP", "PARTITION", "START", "MESSAGES"), rows, right=("PARTITION", "START", "MESSAGES")
        )


@queues.command(
    help=command_help(
        "Publish one message.  Its value is VALUE, or standard input.",
        """
tidelog queues publish jobs 'resize 7'
tidelog queues publish jobs 'resize 7' --priority 9 --ttl 60
tidelog queues publish reminders 'call Bob' --delay 3600
""",
        '{"queue", "partition", "offset"}',
    )
)
@click.argument("name", shell_complete=complete_topics)
@click.argument("value", required=False)
@click.option("--key", metavar="TEXT", help="The key of the record.")
@click.option(
    "--header", "headers", multiple=True, callback=pairs, metavar="NAME=VALUE", help="A header; repeat."
)
@click.option(
    "--priority", type=click.IntRange(0, 31), metavar="N", help="The partition of a queue with priorities."
)
@click.option("--delay", type=Finite(min=0), metavar="SECONDS", help="No worker gets the message before.")
@click.option(
    "--ttl",
    type=Finite(min=0),
    metavar="SECONDS",
    help="It expires when nobody has acquired it so long.",
)
@broker_options
def publish(
    session: CommandSession,
    name: str,
    value: str | None,
    key: str | None,
    headers: dict[str, str],
    priority: int | None,
    delay: float | None,
    ttl: float | None,
) -> None:
    body = sys.stdin.buffer.read() if value is None else value.encode()
    if delay is not None:
        headers = {**headers, "tidelog.due.ms": str(int((time.time() + delay) * 1000))}
    if ttl is not None:
        headers = {**headers, "tidelog.ttl.ms": str(int(ttl * 1000))}
    position = run(messages.publish(session, name, key, body, headers, priority))
    if session.json:
        print_json({"queue": name, "partition": position[0], "offset": position[1]})
    else:
        click.echo(f"{name}-{position[0]} offset {position[1]}")


def _shown(record: Record) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "deliveries": record.delivery_count,
        "timestamp": time_text(record.timestamp),
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": {name: _text(value) for name, value in record.headers},
    }


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")


@queues.command(
    help=command_help(
        "Take messages as a worker does, and print them.  They are acknowledged and gone, unless --release or --reject says "
        "otherwise.  The delivery counts.",
        """
tidelog queues get jobs
tidelog queues get jobs --max 10 --release
""",
        '[{"partition", "offset", "deliveries", "timestamp", "key", "value", "headers"}]',
    )
)
@click.argument("name", shell_complete=complete_topics)
@click.option("--group", metavar="GROUP", help="The share group; otherwise the first one of queue.groups.")
@click.option("--max", "count", type=click.IntRange(1, 1_000), default=1, show_default=True, help="How many.")
@click.option(
    "--wait", type=Finite(min=0), default=2.0, show_default=True, metavar="SECONDS", help="For the first one."
)
@click.option("--release", "how", flag_value="release", help="Give them back: they are delivered again.")
@click.option(
    "--reject", "how", flag_value="reject", help="Reject them: they become dead letters, or are gone."
)
@broker_options
def get(
    session: CommandSession, name: str, group: str | None, count: int, wait: float, how: str | None
) -> None:
    records = run(messages.take(session, name, group, count, int(wait * 1000), how or "accept"))
    if session.json:
        print_json([_shown(record) for record in records])
        return
    for record in records:
        click.echo(record.value or b"")


@queues.command(
    help=command_help(
        "Finish all messages of a queue that no worker holds, for one of its groups.",
        "tidelog queues purge jobs\ntidelog queues purge jobs --execute",
        '{"queue", "group", "purged"}',
    )
)
@click.argument("name", shell_complete=complete_topics)
@click.option("--group", metavar="GROUP", help="The share group; otherwise the first one of queue.groups.")
@click.option("--execute", is_flag=True, help="Do it; otherwise only say how many messages there are.")
@broker_options
def purge(session: CommandSession, name: str, group: str | None, execute: bool) -> None:
    if not execute:
        queue = run(listing.described(session, name))
        if session.json:
            print_json({"queue": name, "group": group or queue.groups[0], "purged": 0})
        else:
            click.echo(f"{name} has {queue.messages} messages; --execute purges them")
        return
    chosen, purged = run(messages.purge(session, name, group))
    if session.json:
        print_json({"queue": name, "group": chosen, "purged": purged})
    else:
        click.echo(f"purged {counted(purged, 'message')} of {name} for group {chosen}")


@queues.group(help="Messages that wait for a later time.")
def delayed() -> None:
    pass


@delayed.command(
    "list",
    help=command_help(
        "The messages of a queue that wait for their time; those that are due first come first.",
        "tidelog queues delayed list reminders",
        '[{"id", "due", "partition", "key", "value"}]',
    ),
)
@click.argument("name", shell_complete=complete_topics)
@click.option(
    "--max", "count", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many."
)
@broker_options
def delayed_list(session: CommandSession, name: str, count: int) -> None:
    waiting = run(delayed_messages.waiting(session, name))[:count]
    if session.json:
        print_json(
            [
                {
                    "id": entry.id,
                    "due": time_text(entry.message.due_ms),
                    "partition": entry.message.partition,
                    "key": _text(entry.message.message.key),
                    "value": _text(entry.message.message.value),
                }
                for entry in waiting
            ]
        )
        return
    rows = [
        (entry.id, time_text(entry.message.due_ms), _text(entry.message.message.value)) for entry in waiting
    ]
    print_table(("ID", "DUE", "VALUE"), rows)


@delayed.command(
    "cancel",
    help=command_help(
        "Take messages back before their time.  IDs are those of `tidelog queues delayed list`.",
        "tidelog queues delayed cancel reminders 3-17",
        '{"cancelled": [ID]}',
    ),
)
@click.argument("name", shell_complete=complete_topics)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@broker_options
def delayed_cancel(session: CommandSession, name: str, ids: tuple[str, ...]) -> None:
    waiting = {entry.id: entry for entry in run(delayed_messages.waiting(session, name))}
    unknown = [message_id for message_id in ids if message_id not in waiting]
    if unknown:
        raise Failure(
            f"nothing waits for queue {name} as {', '.join(unknown)}: it is delivered, or was cancelled"
        )
    run(delayed_messages.cancel(session, [waiting[message_id] for message_id in ids]))
    if session.json:
        print_json({"cancelled": list(ids)})
    else:
        click.echo(f"cancelled {counted(len(ids), 'message')}")
