"""`tidelog partitions`: reassign, elect; recover is in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.cluster.disks import Disks, disks, tell_silent
from tidelog.cli.output import counted, print_json, print_table
from tidelog.cli.partitions import reassignments, throttles
from tidelog.cli.partitions.reassignments import joined, total
from tidelog.cli.partitions.recover import recover
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.aio import Admin
    from tidelog.client.admin.placement import PlacedPartition, ReplicaMove

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
    help="Copy at most this many bytes a second from and to each broker; K, M, G.  In-sync replicas are not throttled.",
)


@click.group(help="Move partitions between brokers, elect leaders, recover those without one.")
def partitions() -> None:
    pass


partitions.add_command(recover)


@partitions.command(
    help=command_help(
        "Move partitions to other brokers.  Without --execute, --verify or --cancel, the command only shows the plan.  "
        "--balance evens out the numbers of replicas and leaders over all brokers, smallest partitions first; --brokers "
        "moves all replicas to the given brokers and balances them there; --remove-broker moves only the replicas of that "
        "broker; --plan reads a plan that --generate --json printed, or a file of kafka-reassign-partitions.",
        """
tidelog partitions reassign --balance
tidelog partitions reassign --topic orders --brokers 1,2,3 --json
tidelog partitions reassign --balance --execute --wait
tidelog partitions reassign --remove-broker 3 --execute --throttle 20M
tidelog partitions reassign --verify
tidelog partitions reassign --cancel
""",
        '{"moves": [{"topic", "partition", "from": [ID...], "to": [ID...], "bytes"}], "bytes"}, null for bytes that '
        "no broker that answers knows, or for --verify "
        '{"moving": [{"topic", "partition", "replicas", "adding", "removing", "copied", "bytes"}], '
        '"unthrottled": {"brokers": [ID...], "topics": [NAME...], "left": [ID...]}}',
    )
)
@click.option("--generate", is_flag=True, help="Show the plan (the default).")
@click.option("--execute", is_flag=True, help="Start the moves.")
@click.option(
    "--verify",
    is_flag=True,
    help="Show ongoing moves; when there are none, remove the limits of --throttle.",
)
@click.option("--cancel", is_flag=True, help="Cancel ongoing moves.")
@click.option("--balance", is_flag=True, help="Spread replicas and leaders over all brokers.")
@click.option("--remove-broker", type=int, metavar="ID", help="Move everything off this broker.")
@click.option("--brokers", metavar="ID,ID...", help="Use only these brokers.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; repeat.")
@click.option(
    "--plan", type=click.File(), metavar="FILE", help="A plan from --generate --json, or of Kafka's own tool."
)
@click.option("--wait", is_flag=True, help="Wait until the moves are done, and show their progress.")
@throttle_option
@broker_options
def reassign(
    session: CommandSession,
    generate: bool,
    execute: bool,
    verify: bool,
    cancel: bool,
    balance: bool,
    remove_broker: int | None,
    brokers: str | None,
    topics: tuple[str, ...],
    plan: Any,
    wait: bool,
    throttle: int | None,
) -> None:
    acts = [("--generate", generate), ("--execute", execute), ("--verify", verify), ("--cancel", cancel)]
    chosen = [name for name, given in acts if given]
    if len(chosen) > 1:
        raise Failure(f"{chosen[0]} and {chosen[1]} exclude each other: use one of them")
    act = chosen[0] if chosen else "--generate"
    run(
        carry_out(
            session, ReassignRequest(act, balance, remove_broker, _ids(brokers), topics, plan, wait, throttle)
        )
    )


@dataclass(frozen=True, slots=True)
class ReassignRequest:
    """What shall be moved, and how."""

    act: str
    balance: bool = False
    leaving: int | None = None
    brokers: list[int] | None = None
    topics: tuple[str, ...] = ()
    plan: Any = None
    wait: bool = False
    throttle: int | None = None

    def check(self) -> None:
        """Raises `Failure` for options that contradict each other or have no effect."""
        if self.act != "--execute":
            for name, is_given in (("--throttle", self.throttle is not None), ("--wait", self.wait)):
                if is_given:
                    raise Failure(f"{name} needs --execute")
        ways = {
            "--balance": self.balance,
            "--brokers": self.brokers is not None,
            "--remove-broker": self.leaving is not None,
            "--plan": self.plan is not None,
        }
        given = [name for name, chosen in ways.items() if chosen]
        if self.act in ("--verify", "--cancel"):
            if given:
                raise Failure(f"{given[0]} has no meaning with {self.act}: moves are chosen by --topic alone")
            return
        if len(given) != 1:
            others = "--verify, --cancel"
            raise Failure(
                f"{given[0]} and {given[1]} exclude each other: use one of them"
                if given
                else f"say what to do: one of {', '.join(ways)}, {others}"
            )
        if self.plan is not None and self.topics:
            raise Failure("--topic has no meaning with --plan, which names its topics itself")


async def carry_out(session: CommandSession, request: ReassignRequest) -> None:
    request.check()
    begins = request.act == "--execute"
    async with session.admin() as admin:
        if request.act in ("--verify", "--cancel"):
            await reassignments.look(session, admin, request.topics, cancel=request.act == "--cancel")
            return
        moves = await (
            _make_plan(admin, request) if request.plan is None else _read_plan(admin, request.plan)
        )
        if begins:
            if request.throttle is not None:
                await _throttle(admin, moves, request.throttle)
            await _begin(admin, moves)
        _show(session, moves, begins)
        if begins and request.wait:
            await reassignments.wait(admin, len(moves))
            if request.throttle is not None:
                reassignments.tell_left(await throttles.remove(admin))


async def _begin(admin: Admin, moves: list[ReplicaMove]) -> None:
    from tidelog.types import TopicPartition

    if moves:
        await admin.reassign_partitions({TopicPartition(m.topic, m.partition): m.after for m in moves})


async def _throttle(admin: Admin, moves: list[ReplicaMove], rate: int) -> None:
    """Throttles the moves that are about to begin, and the moves that are under way."""
    planned = [
        throttles.Copy(
            m.topic, m.partition, m.before, tuple(node for node in m.after if node not in m.before)
        )
        for m in moves
    ]
    names = {(copy.topic, copy.partition) for copy in planned}
    for reassignment in await admin.list_reassignments():
        if tuple(reassignment.partition) not in names:
            holding = tuple(node for node in reassignment.replicas if node not in reassignment.adding)
            planned.append(throttles.Copy(*reassignment.partition, holding, reassignment.adding))
    await throttles.throttle(admin, planned, rate)


async def _make_plan(admin: Admin, request: ReassignRequest) -> list[ReplicaMove]:
    from tidelog.client.admin import placement

    nodes = (await admin.describe_cluster()).nodes
    places, disk_usage = await _places(admin, request.topics)
    racks = {node: node_info.rack for node, node_info in nodes.items()}
    try:
        if request.leaving is not None:
            # Nothing is brought to safety on a broker that does not answer.
            able = {node: rack for node, rack in racks.items() if node not in disk_usage.silent}
            if request.leaving in racks:
                able[request.leaving] = racks[request.leaving]
            return placement.remove_broker(places, request.leaving, able)
        if request.brokers is not None:
            return placement.spread(places, request.brokers, racks)
        return placement.balance(places, racks)
    except placement.PlacementImpossible as problem:
        raise Failure(str(problem)) from None


async def _places(admin: Admin, topics: tuple[str, ...]) -> tuple[list[PlacedPartition], Disks]:
    """Partitions as they are, or will be when their move is done, with the bytes of their largest replica."""
    from tidelog.client.admin.placement import PlacedPartition

    if topics:
        described = list((await admin.describe_topics(topics)).values())
    else:
        described = await admin.list_topics(internal=True)
    moving = {
        tuple(reassignment.partition): tuple(
            node for node in reassignment.replicas if node not in reassignment.removing
        )
        for reassignment in await admin.list_reassignments()
    }
    disk_usage = await disks(admin)
    tell_silent(disk_usage.silent)
    places = [
        PlacedPartition(
            topic.name,
            part.index,
            moving.get((topic.name, part.index), part.replicas),
            disk_usage.largest_bytes(part.replicas, topic.name, part.index),
        )
        for topic in described
        for part in topic.partitions
    ]
    return places, disk_usage


async def _read_plan(admin: Admin, file: Any) -> list[ReplicaMove]:
    from tidelog.cli.partitions.reassignment_file import BadPlan, read_plan
    from tidelog.client.admin.placement import ReplicaMove

    try:
        wanted = read_plan(file.read())
    except (BadPlan, UnicodeDecodeError) as problem:
        raise Failure(f"{file.name} is not a plan: {problem}") from None
    places, _ = await _places(admin, ())
    by_name = {(place.topic, place.partition): place for place in places}
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise Failure(f"{file.name} names {missing[0][0]}-{missing[0][1]}, which does not exist")
    return [
        ReplicaMove(*name, by_name[name].replicas, after, by_name[name].size)
        for name, after in wanted.items()
        if by_name[name].replicas != after
    ]


def _show(session: CommandSession, moves: list[ReplicaMove], begun: bool) -> None:
    copied = [move.copied_bytes for move in moves]
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
        sizes = [size for size in copied if size is not None]
        print_json({"moves": rows, "bytes": sum(sizes) if len(sizes) == len(copied) else None})
        return
    if not moves:
        click.echo("there is nothing to move")
        return
    rows_text = [
        (m.topic, m.partition, joined(m.before), joined(m.after), total([m.copied_bytes])) for m in moves
    ]
    print_table(("TOPIC", "PARTITION", "FROM", "TO", "TO COPY"), rows_text, right=("PARTITION", "TO COPY"))
    next_step = (
        "started; --verify shows the progress" if begun else "nothing was changed: --execute starts the moves"
    )
    click.echo(f"{counted(len(moves), 'move')}, {total(copied)} to copy: {next_step}")


@partitions.command(
    help=command_help(
        "Elect the preferred leader of each partition, or with --unclean any live replica where there is no leader.  "
        "--unclean loses the records that only the missing replicas have: see `tidelog partitions recover` first.",
        """
tidelog partitions elect
tidelog partitions elect orders:0 orders:1
tidelog partitions elect --unclean orders:2
""",
        '{"elected": [{"topic", "partition"}], "failed": [{"topic", "partition", "error"}]}',
    )
)
@click.argument("names", nargs=-1, metavar="[TOPIC:PARTITION]...")
@click.option("--unclean", is_flag=True, help="Accept the loss of records.")
@broker_options
def elect(session: CommandSession, names: tuple[str, ...], unclean: bool) -> None:
    wanted = [_partition(name) for name in names] or None
    if unclean and wanted is None:
        raise Failure("--unclean may lose records: name the partitions as TOPIC:PARTITION")

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
        right = len(outcome) - len(failed)
        if right == 1:
            click.echo("1 partition already has its preferred leader")
        else:
            click.echo(f"{right} partitions already have their preferred leaders")
    if failed:
        raise Failure(*[str(problem) for problem in failed.values()])


def _partition(text: str) -> Any:
    from tidelog.cli.partitions.reassignment_file import NUMBER_MAX
    from tidelog.types import TopicPartition

    topic, colon, index = text.rpartition(":")
    if not colon or not topic or not index.isdecimal():
        raise Failure(f"{text!r} is not of the form TOPIC:PARTITION")
    if int(index[:12]) > NUMBER_MAX:
        raise Failure(f"{text!r}: the partition number is too large")
    return TopicPartition(topic, int(index))


def _ids(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise Failure(f"{text!r} is not a list of broker ids: write them as 1,2,3") from None
