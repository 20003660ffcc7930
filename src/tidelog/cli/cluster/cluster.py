"""`tidelog cluster`: status; `topic_diff` has diff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.cluster.disks import disks, each, tell_silent
from tidelog.cli.cluster.topic_diff import diff
from tidelog.cli.output import bytes_text, counted, print_json, print_table
from tidelog.cli.session import CommandSession, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.aio import Admin, Topic

SHOWN_MAX = 20


@click.group(help="Show the health of the cluster, and how two clusters differ.")
def cluster() -> None:
    pass


cluster.add_command(diff)


@cluster.command(
    help=command_help(
        "Show brokers that do not run, partitions without a leader, below min.insync.replicas, under-replicated, or with "
        "damaged records, and the leaders, replicas and disks of each broker.  For a partition without a leader, show the "
        "brokers that the partition waits for, and why replicas are in doubt.  The exit code is 1 when a partition is "
        "offline, below min.insync.replicas or damaged.",
        """
tidelog cluster status
tidelog cluster status --json
""",
        '{"id", "controller", "brokers": [{"id", "leaders", "bytes"}], "dead": [ID...], "partitions", '
        '"under_replicated": [NAME...], "below_min_in_sync": [NAME...], "offline": [NAME...], '
        '"leaderless": [{"partition": NAME, "awaits": [ID...], '
        '"doubts": [{"broker", "cause", "leader_epoch", "log_end_offset"}]}], "moving": [NAME...], "silent": [ID...], '
        '"damaged": [{"partition", "broker", "ranges": [{"start_offset", "end_offset"}]}]}, '
        "null for the bytes of a silent broker: one that runs and does not answer; dead brokers have replicas and do not "
        "run",
    )
)
@broker_options
def status(session: CommandSession) -> None:
    cluster_status = run(_status(session))
    if session.json:
        print_json(cluster_status)
    else:
        _print(cluster_status)
    if cluster_status["offline"] or cluster_status["below_min_in_sync"] or cluster_status["damaged"]:
        click.get_current_context().exit(1)


async def _status(session: CommandSession) -> dict[str, Any]:
    from tidelog.client.cluster.topology import under_replicated

    async with session.admin() as admin:
        cluster = await admin.describe_cluster()
        topics = await admin.list_topics(internal=True)
        least = await _least_in_sync(admin, topics)
        moving = {reassignment.partition: reassignment for reassignment in await admin.list_reassignments()}
        leaderless = await _leaderless(admin, topics)
        disk_usage = await disks(admin)
        damaged = await _damaged(admin)
    tell_silent(disk_usage.silent)
    adding: dict[tuple[str, int], tuple[int, ...]] = {
        name: reassignment.adding for name, reassignment in moving.items()
    }
    # The user's topics first: internal topics would fill the lists.
    parts = [part for topic in sorted(topics, key=lambda topic: topic.internal) for part in topic.partitions]
    leaders = Counter(part.leader for part in parts)
    names = {id(part): f"{part.topic}-{part.index}" for part in parts}
    return {
        "id": cluster.id,
        "controller": cluster.controller,
        "brokers": [
            {
                "id": node,
                "leaders": leaders[node],
                "bytes": disk_usage.bytes_of(node),
            }
            for node in sorted(cluster.nodes)
        ],
        "dead": dead_brokers(topics, cluster.nodes),
        "partitions": len(parts),
        "under_replicated": [
            names[id(p)]
            for p in parts
            if under_replicated(p.replicas, adding.get((p.topic, p.index), ()), p.in_sync)
        ],
        "below_min_in_sync": [
            names[id(p)] for p in parts if len(p.in_sync) < min(least[p.topic], len(p.replicas))
        ],
        "offline": [names[id(p)] for p in parts if p.leader < 0],
        "leaderless": leaderless,
        "moving": [str(name) for name in moving],
        "damaged": damaged,
        "silent": list(disk_usage.silent),
    }


def dead_brokers(topics: Iterable[Topic], nodes: Container[int]) -> list[int]:
    """The brokers that have replicas and do not run."""
    holders = {node for topic in topics for part in topic.partitions for node in part.replicas}
    return sorted(node for node in holders if node not in nodes)


async def _damaged(admin: Any) -> list[dict[str, Any]]:
    """Each broker reports its own disks; an older version reports nothing."""
    from tidelog.aio import ConfigResource
    from tidelog.config.damaged_partitions import DAMAGED, parse_damaged

    async def ask(node: int) -> str:
        resource = ConfigResource("broker", str(node))
        entries = (await admin.describe_configs([resource], [DAMAGED]))[resource]
        return entries[0].value or "" if entries else ""

    damage_texts, _ = await each(admin, ask)
    return [
        {
            "partition": str(name),
            "broker": node,
            "ranges": [{"start_offset": start, "end_offset": end} for start, end in ranges],
        }
        for node, text in sorted(damage_texts.items())
        for name, ranges in parse_damaged(text).items()
    ]


async def _leaderless(admin: Admin, topics: list[Topic]) -> list[dict[str, Any]]:
    """What partitions without a leader wait for; empty when the brokers do not report it."""
    from tidelog.cli.partitions.recover import doubt_row
    from tidelog.errors import UnsupportedVersion

    names = [topic.name for topic in topics if any(part.leader < 0 for part in topic.partitions)]
    try:
        states = await admin.describe_partitions(names)
    except UnsupportedVersion:
        return []
    return [
        {
            "partition": str(name),
            "awaits": list(state.awaited),
            "doubts": [doubt_row(doubt) for doubt in state.doubts],
        }
        for name, state in states.items()
        if state.leader < 0
    ]


async def _least_in_sync(admin: Any, topics: list[Topic]) -> dict[str, int]:
    from tidelog.aio import ConfigResource

    resources = {ConfigResource("topic", topic.name): topic.name for topic in topics}
    if not resources:
        return {}
    described = await admin.describe_configs(list(resources), ["min.insync.replicas"])
    return {resources[resource]: int(entries[0].value or 1) for resource, entries in described.items()}


def _print(cluster_status: dict[str, Any]) -> None:
    partitions = counted(cluster_status["partitions"], "partition")
    click.echo(f"cluster {cluster_status['id']}, controller {cluster_status['controller']}, {partitions}")
    rows = [
        (broker["id"], broker["leaders"], bytes_text(broker["bytes"]) or "unknown")
        for broker in cluster_status["brokers"]
    ]
    rows += [(node, "not running", "unknown") for node in cluster_status["dead"]]
    rows.sort(key=lambda row: row[0])
    print_table(("BROKER", "LEADS", "BYTES"), rows, right=("BROKER", "LEADS", "BYTES"))
    for key, words in (
        ("offline", "without a leader"),
        ("below_min_in_sync", "below min.insync.replicas"),
        ("under_replicated", "under-replicated"),
        ("moving", "being moved"),
    ):
        names = cluster_status[key]
        if names:
            more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
            click.echo(f"{len(names)} {words}: {', '.join(names[:SHOWN_MAX])}{more}")
    for replica in cluster_status["damaged"][:SHOWN_MAX]:
        offsets = ", ".join(
            f"{damaged_range['start_offset']}..{damaged_range['end_offset'] - 1}"
            for damaged_range in replica["ranges"]
        )
        click.echo(f"{replica['partition']} is damaged on broker {replica['broker']}: offsets {offsets}")
    _print_leaderless(cluster_status["leaderless"])
    if not any(
        cluster_status[key] for key in ("offline", "below_min_in_sync", "under_replicated", "damaged")
    ):
        click.echo("all replicas are in sync")


def _print_leaderless(leaderless: list[dict[str, Any]]) -> None:
    from tidelog.cli.partitions.recover import waits_text
    from tidelog.client.admin.replica_states import cause_words

    for partition in leaderless[:SHOWN_MAX]:
        todo = "start it, or see" if partition["awaits"] else "see"
        click.echo(
            f"{partition['partition']} {waits_text(partition['awaits'])}: {todo} `tidelog partitions recover`"
        )
        for doubt in partition["doubts"]:
            click.echo(
                f"  the replica on broker {doubt['broker']} is in doubt: {cause_words(doubt['cause'])}"
            )
    if len(leaderless) > SHOWN_MAX:
        click.echo(f"{len(leaderless) - SHOWN_MAX} more without a leader: see `tidelog partitions recover`")
