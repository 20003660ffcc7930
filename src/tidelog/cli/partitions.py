"""`tidelog partitions`: reassign, elect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.output import Progress, bytes_text, print_json, print_table
from tidelog.cli.session import Failure, Session, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.aio import Admin
    from tidelog.client.placement import Move, Place

WAIT_S = 0.5


@click.group(help="Move partitions between brokers, elect leaders.")
def partitions() -> None:
    pass


@partitions.command(
    help=command_help(
        "Move partitions to other brokers.  Without --execute, --verify or --cancel the plan is only shown.  A plan "
        "moves as little as it can: --balance evens out replicas and leaders over all brokers, --brokers uses only "
        "those named, --remove-broker empties one, --plan takes what --generate --json printed.",
        """
tidelog partitions reassign --balance
tidelog partitions reassign --topic orders --brokers 1,2,3 --json
tidelog partitions reassign --balance --execute --wait
tidelog partitions reassign --remove-broker 3 --execute
tidelog partitions reassign --verify
tidelog partitions reassign --cancel
""",
        '{"moves": [{"topic", "partition", "from": [ID...], "to": [ID...], "bytes"}], "bytes"}, or for --verify '
        '{"moving": [{"topic", "partition", "replicas", "adding", "removing"}]}',
    )
)
@click.option(
    "--generate", "act", flag_value="generate", default="generate", help="Show the plan (the default)."
)
@click.option("--execute", "act", flag_value="execute", help="Begin the moves.")
@click.option("--verify", "act", flag_value="verify", help="Show which moves are under way.")
@click.option("--cancel", "act", flag_value="cancel", help="Call moves off that are under way.")
@click.option("--balance", is_flag=True, help="Spread replicas and leaders over all brokers.")
@click.option("--remove-broker", type=int, metavar="ID", help="Move everything off this broker.")
@click.option("--brokers", metavar="ID,ID...", help="Use these brokers only.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; repeat.")
@click.option("--plan", type=click.File(), metavar="FILE", help="A plan from --generate --json.")
@click.option("--wait", is_flag=True, help="Wait until the moves are done, and show how far they are.")
@broker_options
def reassign(
    session: Session,
    act: str,
    balance: bool,
    remove_broker: int | None,
    brokers: str | None,
    topics: tuple[str, ...],
    plan: Any,
    wait: bool,
) -> None:
    run(reassign_with(session, act, balance, remove_broker, _ids(brokers), topics, plan, wait))


async def reassign_with(
    session: Session,
    act: str,
    balance: bool,
    leaving: int | None,
    brokers: list[int] | None,
    topics: tuple[str, ...],
    plan: Any,
    wait: bool,
) -> None:
    async with session.admin() as admin:
        if act in ("verify", "cancel"):
            await _look(session, admin, topics, cancel=act == "cancel")
            return
        if plan is not None:
            moves = await _read_plan(admin, plan)
        else:
            moves = await _make_plan(admin, balance, leaving, brokers, topics)
        _show(session, moves, act == "execute")
        if act == "execute" and moves:
            from tidelog.types import TopicPartition

            await admin.reassign_partitions({TopicPartition(m.topic, m.partition): m.after for m in moves})
            if wait:
                await _wait(admin, len(moves))


async def _make_plan(
    admin: Admin, balance: bool, leaving: int | None, brokers: list[int] | None, topics: tuple[str, ...]
) -> list[Move]:
    from tidelog.client import placement

    if balance + (leaving is not None) + (brokers is not None) != 1:
        raise Failure(
            "say what to do: one of --balance, --brokers, --remove-broker, --plan, --verify, --cancel"
        )
    places = await _places(admin, topics)
    nodes = (await admin.describe_cluster()).nodes
    racks = {node: one.rack for node, one in nodes.items()}
    try:
        if leaving is not None:
            return placement.remove_broker(places, leaving, racks)
        return placement.balance(places, racks) if balance else placement.spread(places, brokers or [], racks)
    except placement.Impossible as problem:
        raise Failure(str(problem)) from None


async def _places(admin: Admin, topics: tuple[str, ...]) -> list[Place]:
    """Partitions as they are, with the bytes of their largest replica."""
    from tidelog.client.placement import Place

    if topics:
        found = list((await admin.describe_topics(topics)).values())
    else:
        found = await admin.list_topics(internal=True)
    sizes: dict[tuple[str, int], int] = {}
    for folders in (await admin.describe_log_dirs()).values():
        for folder in folders:
            for name, size in folder.partitions.items():
                sizes[name] = max(size, sizes.get(name, 0))
    return [
        Place(one.name, part.index, part.replicas, sizes.get((one.name, part.index), 0))
        for one in found
        for part in one.partitions
    ]


async def _read_plan(admin: Admin, file: Any) -> list[Move]:
    import json

    from tidelog.client.placement import Move

    try:
        wanted = {(one["topic"], int(one["partition"])): tuple(one["to"]) for one in json.load(file)["moves"]}
    except (ValueError, KeyError, TypeError) as problem:
        raise Failure(f"{file.name} is no plan: make one with --generate --json ({problem})") from None
    known = {(place.topic, place.partition): place for place in await _places(admin, ())}
    missing = [name for name in wanted if name not in known]
    if missing:
        raise Failure(f"{file.name} names {missing[0][0]}-{missing[0][1]}, which does not exist")
    return [
        Move(*name, known[name].replicas, after, known[name].size)
        for name, after in wanted.items()
        if known[name].replicas != after
    ]


def _show(session: Session, moves: list[Move], begun: bool) -> None:
    copied = sum(move.copied_bytes for move in moves)
    if session.json:
        rows = [
            {
                "topic": m.topic,
                "partition": m.partition,
                "from": m.before,
                "to": m.after,
                "bytes": m.copied_bytes,
            }
            for m in moves
        ]
        print_json({"moves": rows, "bytes": copied})
        return
    if not moves:
        click.echo("nothing to move")
        return
    rows_text = [
        (m.topic, m.partition, _joined(m.before), _joined(m.after), bytes_text(m.copied_bytes)) for m in moves
    ]
    print_table(("TOPIC", "PARTITION", "FROM", "TO", "TO COPY"), rows_text, right=("PARTITION", "TO COPY"))
    what = "begun; --verify shows how far it is" if begun else "nothing is done yet: --execute begins it"
    click.echo(f"{len(moves)} moves, {bytes_text(copied)} to copy: {what}")


async def _look(session: Session, admin: Admin, topics: tuple[str, ...], cancel: bool) -> None:
    moving = [one for one in await admin.list_reassignments() if not topics or one.partition.topic in topics]
    if cancel and moving:
        await admin.reassign_partitions({one.partition: None for one in moving})
    if session.json:
        rows = [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "replicas": one.replicas,
                "adding": one.adding,
                "removing": one.removing,
            }
            for one in moving
        ]
        print_json({"cancelled" if cancel else "moving": rows})
        return
    if not moving:
        click.echo("no partition is being moved")
        return
    table = [
        (*one.partition, _joined(one.replicas), _joined(one.adding), _joined(one.removing)) for one in moving
    ]
    print_table(("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"), table, right=("PARTITION",))
    if cancel:
        click.echo(f"{len(moving)} moves were called off")


async def _wait(admin: Admin, count: int) -> None:
    progress, loop = Progress(), asyncio.get_running_loop()
    while left := len(await admin.list_reassignments()):
        progress.update(loop.time(), f"{max(0, count - left)} of {count} moved")
        await asyncio.sleep(WAIT_S)
    progress.clear()


@partitions.command(
    help=command_help(
        "Let the first replica of each partition lead, or with --unclean any live one where nobody leads.  --unclean "
        "loses what only the missing replicas have.",
        """
tidelog partitions elect
tidelog partitions elect orders:0 orders:1
tidelog partitions elect --unclean orders:2
""",
        '{"elected": [{"topic", "partition"}], "failed": [{"topic", "partition", "error"}]}',
    )
)
@click.argument("names", nargs=-1, metavar="[TOPIC:PARTITION]...")
@click.option("--unclean", is_flag=True, help="Accept losing records rather than waiting.")
@broker_options
def elect(session: Session, names: tuple[str, ...], unclean: bool) -> None:
    wanted = [_partition(name) for name in names] or None
    if unclean and wanted is None:
        raise Failure("--unclean may lose records: name the partitions, as TOPIC:PARTITION")

    async def elected() -> Mapping[Any, Any]:
        async with session.admin() as admin:
            return await admin.elect_leaders(wanted, unclean=unclean)

    outcome = run(elected())
    failed = {name: problem for name, problem in outcome.items() if problem is not None}
    if session.json:
        print_json(
            {
                "elected": [
                    {"topic": name.topic, "partition": name.partition}
                    for name in outcome
                    if name not in failed
                ],
                "failed": [
                    {"topic": name.topic, "partition": name.partition, "error": str(problem)}
                    for name, problem in failed.items()
                ],
            }
        )
    else:
        click.echo(f"{len(outcome) - len(failed)} partitions have the leader they should have")
    if failed:
        raise Failure(*[str(problem) for problem in failed.values()])


def _partition(text: str) -> Any:
    from tidelog.types import TopicPartition

    topic, colon, index = text.rpartition(":")
    if not colon or not topic or not index.isdecimal():
        raise Failure(f"{text!r} is not of the form TOPIC:PARTITION")
    return TopicPartition(topic, int(index))


def _ids(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise Failure(f"{text!r} is no list of broker ids: write them as 1,2,3") from None


def _joined(nodes: tuple[int, ...]) -> str:
    return ",".join(map(str, nodes)) or "-"
