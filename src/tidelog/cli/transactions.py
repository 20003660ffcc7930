"""`tidelog transactions`: list, describe, abort."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.output import print_json, print_table
from tidelog.cli.session import CommandSession, Failure, Finite, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.client.admin.transaction_admin import TransactionDescription


@click.group(help="Show and abort transactions.")
def transactions() -> None:
    pass


@transactions.command(
    "list",
    help=command_help(
        "The transactional ids of the cluster, and the state of their last transaction.",
        """
tidelog transactions list
tidelog transactions list --state Ongoing --longer-than 60
tidelog transactions list --pattern 'billing-.*'
""",
        '[{"id", "producer_id", "state"}]',
    ),
)
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Ongoing, CompleteAbort, ...; repeat."
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=int,
    multiple=True,
    metavar="N",
    help="Only ids of this producer; repeat.",
)
@click.option(
    "--longer-than", type=Finite(min=0), metavar="SECONDS", help="Only transactions that are open for longer."
)
@click.option("--pattern", metavar="REGEX", help="Only ids that match this regular expression completely.")
@broker_options
def list_(
    session: CommandSession,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: float | None,
    pattern: str | None,
) -> None:
    async def ask() -> list[Any]:
        async with session.admin() as admin:
            return await admin.list_transactions(
                states=states,
                producer_ids=producer_ids,
                longer_than_ms=None if longer_than is None else int(longer_than * 1000),
                pattern=pattern,
            )

    listed = run(ask())
    if session.json:
        print_json(
            [
                {
                    "id": transaction.transactional_id,
                    "producer_id": transaction.producer_id,
                    "state": transaction.state,
                }
                for transaction in listed
            ]
        )
        return
    rows = [
        (transaction.transactional_id, transaction.producer_id, transaction.state) for transaction in listed
    ]
    print_table(("ID", "PRODUCER", "STATE"), rows, right=("PRODUCER",))


@transactions.command(
    help=command_help(
        "The state, producer and partitions of transactional IDs.",
        """
tidelog transactions describe billing-1
tidelog transactions describe billing-1 billing-2 --json
""",
        """
[{"id", "state", "producer_id", "producer_epoch", "timeout_ms", "started", "partitions": [{"topic", "partition"}]}]
started is a time, or null where no transaction has started
""",
    )
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@broker_options
def describe(session: CommandSession, ids: tuple[str, ...]) -> None:
    async def ask() -> list[TransactionDescription]:
        async with session.admin() as admin:
            return list((await admin.describe_transactions(ids)).values())

    described = run(ask())
    if session.json:
        print_json([_as_json(transaction) for transaction in described])
        return
    for number, transaction in enumerate(described):
        if number:
            click.echo()
        began = _time(transaction.started_ms) or "never"
        click.echo(
            f"{transaction.transactional_id}: {transaction.state}, "
            f"producer {transaction.producer_id} epoch {transaction.producer_epoch}, "
            f"begun {began}, timeout {transaction.timeout_ms} ms"
        )
        if transaction.partitions:
            print_table(
                ("TOPIC", "PARTITION"), [tuple(name) for name in transaction.partitions], right=("PARTITION",)
            )


def _as_json(transaction: TransactionDescription) -> dict[str, Any]:
    return {
        "id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "started": _time(transaction.started_ms),
        "partitions": [{"topic": name.topic, "partition": name.partition} for name in transaction.partitions],
    }


def _time(ms: int) -> str | None:
    if ms < 0:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@transactions.command(
    help=command_help(
        "Abort the open transaction of a transactional ID, and fence its producer.  With --topic, --partition and "
        "--start-offset instead of an ID: end a transaction that hangs in that partition because no coordinator knows "
        "of it (`tidelog log dump` and Kafka's find-hanging show them).",
        """
tidelog transactions abort billing-1
tidelog transactions abort --topic orders --partition 3 --start-offset 4711
""",
        '{"aborted": "ID"} or {"aborted": {"topic", "partition", "start_offset"}}',
    )
)
@click.argument("id", required=False, metavar="[ID]")
@click.option("--topic", metavar="TOPIC")
@click.option("--partition", type=click.IntRange(min=0), metavar="N")
@click.option(
    "--start-offset", type=click.IntRange(min=0), metavar="OFFSET", help="First offset of the transaction."
)
@broker_options
def abort(
    session: CommandSession,
    id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
) -> None:
    place = (topic, partition, start_offset)
    if id is not None and place == (None, None, None):
        run(_fence(session, id))
        aborted: Any = id
        text = f"aborted the transaction of {id}; its producer is fenced"
    elif id is None and topic is not None and partition is not None and start_offset is not None:
        run(_abort(session, topic, partition, start_offset))
        aborted = {"topic": topic, "partition": partition, "start_offset": start_offset}
        text = f"aborted the transaction in {topic}-{partition} from offset {start_offset} on"
    else:
        raise click.UsageError("Give an ID, or all of --topic, --partition and --start-offset.")
    if session.json:
        print_json({"aborted": aborted})
    else:
        click.echo(text)


async def _fence(session: CommandSession, id: str) -> None:
    async with session.admin() as admin:
        if id not in [transaction.transactional_id for transaction in await admin.list_transactions()]:
            raise Failure(f"transactional id {id!r} does not exist")
        await admin.fence_producer(id)


async def _abort(session: CommandSession, topic: str, partition: int, start_offset: int) -> None:
    from tidelog.types import TopicPartition

    async with session.admin() as admin:
        await admin.abort_transaction(TopicPartition(topic, partition), start_offset)
