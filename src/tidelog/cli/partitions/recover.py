"""`tidelog partitions recover`: what the replicas of partitions without a leader have, and the election of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.output import counted, print_json, print_table
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.aio import Admin, PartitionState, TopicPartition
    from tidelog.client.admin.unclean_election import ElectionChoices, ElectionLoss, Replica

BEST = "best"
COLUMNS = ("BROKER", "RUNNING", "LOG END", "EPOCH", "HIGH WATERMARK", "DAMAGED", "ELECTING IT LOSES", "DOUBT")
NUMBERS = ("BROKER", "LOG END", "EPOCH", "HIGH WATERMARK", "DAMAGED")


def _elected(_: click.Context, __: click.Parameter, text: str | None) -> int | str | None:
    if text is None or text == BEST:
        return text
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is neither the id of a broker nor 'best'")
    return int(text)


@click.command(
    help=command_help(
        "Show the replicas of partitions without a leader, and the records that electing each replica would lose.  "
        "Without --elect and --execute, the command changes nothing.  A broker that is not running may have records that "
        "no other broker has: start this broker rather than elect another one.",
        """
tidelog partitions recover
tidelog partitions recover --topic orders --partition 2
tidelog partitions recover --topic orders --partition 2 --elect 3 --execute
tidelog partitions recover --elect best --execute --yes
""",
        '{"partitions": [{"topic", "partition", "leader_epoch", "awaits": [ID...], "replicas": [{"broker", "running", '
        '"in_sync", "log_end_offset", "leader_epoch", "high_watermark", "damaged_ranges", "doubt", "loses": {"offsets", '
        '"committed", "at_least", "unknown": [ID...]}}], "best", "elected"}]}, null for what is not known and for what '
        "cannot be elected",
    )
)
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; repeat.")
@click.option(
    "--partition",
    "indexes",
    multiple=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Only this partition of the topic; repeat.",
)
@click.option("--elect", metavar="BROKER|best", callback=_elected, help="The new leader.")
@click.option(
    "--execute", is_flag=True, help="Elect it.  Records that only other replicas have are lost for good."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@broker_options
def recover(
    session: CommandSession,
    topics: tuple[str, ...],
    indexes: tuple[int, ...],
    elect: int | str | None,
    execute: bool,
    yes: bool,
) -> None:
    if execute and elect is None:
        raise Failure("--execute needs --elect BROKER or --elect best")
    if yes and not execute:
        raise Failure("--yes needs --execute")
    if indexes and len(topics) != 1:
        raise Failure("--partition needs exactly one --topic")
    offline = run(_look(session, topics, indexes))
    chosen = {} if elect is None else _chosen(offline, elect)
    if not session.json:
        _show(offline)
    leaders: dict[TopicPartition, int] = {}
    if execute and chosen:
        if not yes:
            _confirm(offline, chosen)
        leaders = run(_elect(session, chosen))
    if session.json:
        print_json({"partitions": [_row(choices_of_partition, leaders) for choices_of_partition in offline]})
    else:
        _tell_outcome(offline, chosen, leaders)
    wrong = [
        f"{name}: {_leader_text(leaders.get(name, -1))}, broker {node} was not elected"
        for name, node in chosen.items()
        if execute and leaders.get(name) != node
    ]
    if wrong:
        raise Failure(*wrong)


async def _look(
    session: CommandSession, topics: Sequence[str], indexes: Sequence[int]
) -> list[ElectionChoices]:
    from tidelog.cli.cluster.disks import each, tell_silent
    from tidelog.client.admin.unclean_election import choices

    async with session.admin() as admin:
        states = await _leaderless(admin, topics, indexes)
        if not states:
            return []
        running = (await admin.describe_cluster()).nodes

        async def ask(node: int) -> dict[TopicPartition, Any]:
            here = [name for name, state in states.items() if node in state.replicas]
            return await admin.describe_replica_logs(node, here) if here else {}

        logs, silent = await each(admin, ask)
    tell_silent(silent)
    return [
        choices(state, running, {node: reach.get(name) for node, reach in logs.items()})
        for name, state in states.items()
    ]


async def _leaderless(
    admin: Admin, topics: Sequence[str], indexes: Sequence[int]
) -> dict[TopicPartition, PartitionState]:
    """The state of the partitions that are named, or of the partitions of all topics."""
    if not topics:
        listed = await admin.list_topics(internal=True)
        topics = [topic.name for topic in listed if any(part.leader < 0 for part in topic.partitions)]
    states = await admin.describe_partitions(topics)
    if indexes:
        from tidelog.types import TopicPartition

        named = [TopicPartition(topics[0], index) for index in indexes]
        for name in named:
            if name not in states:
                raise Failure(f"{name} does not exist")
            if states[name].leader >= 0:
                raise Failure(f"{name} is led by broker {states[name].leader}: there is nothing to recover")
        states = {name: states[name] for name in named}
    return {name: state for name, state in states.items() if state.leader < 0}


def _name(partition: ElectionChoices) -> TopicPartition:
    from tidelog.types import TopicPartition

    return TopicPartition(partition.state.topic, partition.state.index)


def _chosen(offline: Sequence[ElectionChoices], elect: int | str) -> dict[TopicPartition, int]:
    chosen = {}
    for partition in offline:
        name = _name(partition)
        node = partition.best if isinstance(elect, str) else elect
        if node is None:
            raise Failure(
                f"{name} has no best choice: no replica that runs has records, and brokers that do not run may have some; "
                "start them, or name a broker with --elect"
            )
        if node not in partition.losses:
            able = ", ".join(map(str, partition.losses)) or "none"
            raise Failure(
                f"{name} cannot be led by broker {node}; brokers that run and have a log of it: {able}"
            )
        chosen[name] = node
    return chosen


async def _elect(session: CommandSession, chosen: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Elects leaders; the leader of each partition afterwards."""
    async with session.admin() as admin:
        outcome = await admin.elect_leaders(chosen, unclean=True, chosen=chosen)
        states = await admin.describe_partitions(sorted({name.topic for name in chosen}))
    problems = [str(problem) for problem in outcome.values() if problem is not None]
    if problems:
        raise Failure(*problems)
    return {name: states[name].leader for name in chosen if name in states}


def _confirm(offline: Sequence[ElectionChoices], chosen: dict[TopicPartition, int]) -> None:
    for partition in offline:
        name = _name(partition)
        lost = _loss_text(partition.losses[chosen[name]])
        click.echo(f"{name}: electing broker {chosen[name]} loses {lost}", err=True)
    leaders_text = "this leader" if len(chosen) == 1 else f"these {len(chosen)} leaders"
    click.confirm(f"Lost records cannot be recovered.  Elect {leaders_text}?", abort=True, err=True)


def _show(offline: Sequence[ElectionChoices]) -> None:
    for partition in offline:
        click.echo(f"{_name(partition)} {waits_text(partition.state.awaited)}")
        rows = [_cells(replica, partition) for replica in partition.replicas]
        print_table(COLUMNS, rows, right=NUMBERS)
        if partition.best is not None:
            click.echo(f"broker {partition.best} is the best choice")
        click.echo()


def waits_text(awaited: Sequence[int]) -> str:
    """Why a partition has no leader."""
    if awaited:
        return f"has no leader, and waits for broker {' or '.join(map(str, awaited))}"
    return "has no leader, and no replica is known to have all of its records"


def _cells(replica: Replica, partition: ElectionChoices) -> list[object]:
    from tidelog.client.admin.replica_states import cause_words

    log, loss = replica.reach, partition.losses.get(replica.node)
    figures: list[object] = [None] * 4
    if log is not None:
        numbers = log.log_end_offset, log.leader_epoch, log.high_watermark, log.damaged_ranges
        figures = [None if number < 0 else number for number in numbers]
    return [
        replica.node,
        "yes" if replica.running else "no",
        *figures,
        None if loss is None else _loss_text(loss),
        None if replica.doubt is None else cause_words(replica.doubt.cause),
    ]


def _loss_text(loss: ElectionLoss) -> str:
    """`30 offsets (12 committed)`, and which brokers may have more."""
    if loss.offsets:
        text = f"{'at least ' * loss.at_least}{counted(loss.offsets, 'offset')}"
        text += f" ({loss.committed} committed)" if loss.committed > 0 else ""
    else:
        text = "an unknown number of offsets" if loss.at_least else "nothing known"
    if loss.unknown:
        text += f"; unknown: what broker {', '.join(map(str, loss.unknown))} has"
    return text


def _tell_outcome(
    offline: Sequence[ElectionChoices], chosen: dict[TopicPartition, int], leaders: dict[TopicPartition, int]
) -> None:
    if not offline:
        click.echo("every partition has a leader: there is nothing to recover")
    elif leaders:
        for name, leader in leaders.items():
            click.echo(f"{name}: {_leader_text(leader)}")
    elif chosen:
        click.echo("nothing was changed: --execute elects " + _named(chosen))
    else:
        click.echo("nothing was changed: use --elect BROKER --execute to elect a replica that runs")


def _named(chosen: dict[TopicPartition, int]) -> str:
    nodes = sorted(set(chosen.values()))
    return f"broker {', '.join(map(str, nodes))} for {counted(len(chosen), 'partition')}"


def _leader_text(leader: int) -> str:
    return f"broker {leader} leads" if leader >= 0 else "it has no leader"


def _row(partition: ElectionChoices, leaders: dict[TopicPartition, int]) -> dict[str, Any]:
    state = partition.state
    return {
        "topic": state.topic,
        "partition": state.index,
        "leader_epoch": state.leader_epoch,
        "awaits": list(state.awaited),
        "replicas": [
            _replica_row(replica, partition.losses.get(replica.node)) for replica in partition.replicas
        ],
        "best": partition.best,
        "elected": leaders.get(_name(partition)),
    }


def _replica_row(replica: Replica, loss: ElectionLoss | None) -> dict[str, Any]:
    log, doubt = replica.log, replica.doubt
    return {
        "broker": replica.node,
        "running": replica.running,
        "in_sync": replica.in_sync,
        "log_end_offset": None if log is None else log.log_end_offset,
        "leader_epoch": None if log is None or not log.epochs else log.leader_epoch,
        "high_watermark": None if log is None else log.high_watermark,
        "damaged_ranges": None if log is None else log.damaged_ranges,
        "doubt": None if doubt is None else doubt_row(doubt),
        "loses": None
        if loss is None
        else {
            "offsets": loss.offsets,
            "committed": loss.committed,
            "at_least": loss.at_least,
            "unknown": list(loss.unknown),
        },
    }


def doubt_row(doubt: Any) -> dict[str, Any]:
    """A replica in doubt, for JSON."""
    return {
        "broker": doubt.node,
        "cause": doubt.cause,
        "leader_epoch": None if doubt.leader_epoch < 0 else doubt.leader_epoch,
        "log_end_offset": None if doubt.log_end_offset < 0 else doubt.log_end_offset,
    }
