"""`tidelog partitions`: reassign, elect."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli import throttles
from tidelog.cli.output import Progress, bytes_text, print_json, print_table
from tidelog.cli.session import Failure, Session, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.aio import Admin
    from tidelog.client.partition_admin import Reassignment
    from tidelog.client.placement import Move, Place

WAIT_S = 0.5
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _rate(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Bytes a second; K, M and G are powers of 1024."""
    if text is None:
        return None
    digits, unit = text[:-1], text[-1:].upper()
    if text.isdecimal():
        digits, unit = text, ""
    if not digits.isdecimal() or unit not in _UNITS or int(digits) < 1:
        raise click.BadParameter(f"{text!r} is not a number of bytes a second, such as 50000000, 500K or 20M")
    return int(digits) * _UNITS[unit]


throttle_option = click.option(
    "--throttle",
    callback=_rate,
    metavar="BYTES",
    help="Copy at most this many bytes a second from and to each broker; K, M, G.  In-sync replicas are not slowed.",
)


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
tidelog partitions reassign --remove-broker 3 --execute --throttle 20M
tidelog partitions reassign --verify
tidelog partitions reassign --cancel
""",
        '{"moves": [{"topic", "partition", "from": [ID...], "to": [ID...], "bytes"}], "bytes"}, or for --verify '
        '{"moving": [{"topic", "partition", "replicas", "adding", "removing", "copied", "bytes"}], '
        '"unthrottled": {"brokers": [ID...], "topics": [NAME...]}}',
    )
)
@click.option(
    "--generate", "act", flag_value="generate", default="generate", help="Show the plan (the default)."
)
@click.option("--execute", "act", flag_value="execute", help="Begin the moves.")
@click.option(
    "--verify",
    "act",
    flag_value="verify",
    help="Show which moves are under way; when none is, take the limits of --throttle back.",
)
@click.option("--cancel", "act", flag_value="cancel", help="Call moves off that are under way.")
@click.option("--balance", is_flag=True, help="Spread replicas and leaders over all brokers.")
@click.option("--remove-broker", type=int, metavar="ID", help="Move everything off this broker.")
@click.option("--brokers", metavar="ID,ID...", help="Use these brokers only.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; repeat.")
@click.option("--plan", type=click.File(), metavar="FILE", help="A plan from --generate --json.")
@click.option("--wait", is_flag=True, help="Wait until the moves are done, and show how far they are.")
@throttle_option
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
    throttle: int | None,
) -> None:
    run(reassign_with(session, act, balance, remove_broker, _ids(brokers), topics, plan, wait, throttle))


async def reassign_with(
    session: Session,
    act: str,
    balance: bool,
    leaving: int | None,
    brokers: list[int] | None,
    topics: tuple[str, ...],
    plan: Any,
    wait: bool,
    throttle: int | None,
) -> None:
    if throttle is not None and act != "execute":
        raise Failure("--throttle goes with --execute")
    async with session.admin() as admin:
        if act in ("verify", "cancel"):
            await _look(session, admin, topics, cancel=act == "cancel")
            return
        if plan is not None:
            moves = await _read_plan(admin, plan)
        else:
            moves = await _make_plan(admin, balance, leaving, brokers, topics)
        if act == "execute":
            if throttle is not None:
                await _throttle(admin, moves, throttle)
            await _begin(admin, moves)
        _show(session, moves, act == "execute")
        if act == "execute" and wait:
            await _wait(admin, len(moves))
            if throttle is not None:
                await throttles.remove(admin)


async def _begin(admin: Admin, moves: list[Move]) -> None:
    from tidelog.types import TopicPartition

    if moves:
        await admin.reassign_partitions({TopicPartition(m.topic, m.partition): m.after for m in moves})


async def _throttle(admin: Admin, moves: list[Move], rate: int) -> None:
    """Those that are about to begin, and those that are under way already."""
    planned = [
        throttles.Copy(
            m.topic, m.partition, m.before, tuple(node for node in m.after if node not in m.before)
        )
        for m in moves
    ]
    names = {(one.topic, one.partition) for one in planned}
    for one in await admin.list_reassignments():
        if tuple(one.partition) not in names:
            holding = tuple(node for node in one.replicas if node not in one.adding)
            planned.append(throttles.Copy(*one.partition, holding, one.adding))
    await throttles.throttle(admin, planned, rate)


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
    """Partitions as they are, or will be when their move is done, with the bytes of their largest replica."""
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
    moving = {
        tuple(one.partition): tuple(node for node in one.replicas if node not in one.removing)
        for one in await admin.list_reassignments()
    }
    return [
        Place(
            one.name,
            part.index,
            moving.get((one.name, part.index), part.replicas),
            sizes.get((one.name, part.index), 0),
        )
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
    under_way = await admin.list_reassignments()
    moving = [one for one in under_way if not topics or one.partition.topic in topics]
    copied = await _copied(admin, moving)
    if cancel and moving:
        await admin.reassign_partitions({one.partition: None for one in moving})
    removed = throttles.Removed([], [])
    if not under_way or (cancel and len(moving) == len(under_way)):
        removed = await throttles.remove(admin)
    if session.json:
        rows = [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "replicas": one.replicas,
                "adding": one.adding,
                "removing": one.removing,
                "copied": copied[one.partition][0],
                "bytes": copied[one.partition][1],
            }
            for one in moving
        ]
        print_json({"cancelled" if cancel else "moving": rows, "unthrottled": removed._asdict()})
        return
    if moving:
        _print_moving(moving, copied)
        click.echo(
            f"{len(moving)} moves were called off"
            if cancel
            else f"{len(moving)} under way: {_of(copied.values())} copied"
        )
    else:
        click.echo("no partition is being moved")
    if removed.brokers or removed.topics:
        click.echo(
            f"throttles were removed: brokers {_joined(tuple(removed.brokers))}, topics {len(removed.topics)}"
        )


def _print_moving(moving: list[Reassignment], copied: Mapping[Any, tuple[int, int]]) -> None:
    table = [
        (
            *one.partition,
            _joined(one.replicas),
            _joined(one.adding),
            _joined(one.removing),
            _of([copied[one.partition]]),
        )
        for one in moving
    ]
    columns = ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING", "COPIED")
    print_table(columns, table, right=("PARTITION", "COPIED"))


async def _copied(admin: Admin, moving: list[Reassignment]) -> dict[Any, tuple[int, int]]:
    """Of each move, the bytes that the new replicas have, and those that they will have."""
    if not moving:
        return {}
    names = {one.partition.topic for one in moving}
    sizes = {
        (node, *name): size
        for node, folders in (await admin.describe_log_dirs(None, names)).items()
        for folder in folders
        for name, size in folder.partitions.items()
    }
    found = {}
    for one in moving:
        held = [sizes.get((node, *one.partition), 0) for node in one.replicas if node not in one.adding]
        whole = max(held, default=0)
        new = [sizes.get((node, *one.partition), 0) for node in one.adding]
        found[one.partition] = sum(min(size, whole) for size in new), whole * len(new)
    return found


def _of(parts: Iterable[tuple[int, int]]) -> str:
    done, whole = map(sum, zip(*parts, strict=True))
    return f"{bytes_text(done)} of {bytes_text(whole)}"


async def _wait(admin: Admin, count: int) -> None:
    progress, loop = Progress(), asyncio.get_running_loop()
    while moving := await admin.list_reassignments():
        copied = await _copied(admin, moving)
        done = f"{max(0, count - len(moving))} of {count} moved"
        progress.update(loop.time(), f"{done}, {_of(copied.values())} of the rest copied")
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
