"""`tidelog brokers`: list, describe, load, drain."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.cluster import dead_brokers
from tidelog.cli.disks import disks, tell_silent
from tidelog.cli.output import bytes_text, print_json, print_table
from tidelog.cli.partitions.command import ReassignRequest, carry_out, throttle_option
from tidelog.cli.session import Failure, Session, broker_options, command_help, run

if TYPE_CHECKING:
    from tidelog.aio import Admin
    from tidelog.client.admin.log_dirs import LogDir


@click.group(help="Show what brokers hold, and drain a broker.")
def brokers() -> None:
    pass


@brokers.command(
    "list",
    help=command_help(
        "List the brokers that run.",
        "tidelog brokers list",
        '[{"id", "host", "port", "rack", "controller"}]',
    ),
)
@broker_options
def list_(session: Session) -> None:
    async def found() -> list[dict[str, Any]]:
        async with session.admin() as admin:
            cluster = await admin.describe_cluster()
            return [
                {
                    "id": node.id,
                    "host": node.host,
                    "port": node.port,
                    "rack": node.rack,
                    "controller": node.id == cluster.controller,
                }
                for _, node in sorted(cluster.nodes.items())
            ]

    listed = run(found())
    if session.json:
        print_json(listed)
        return
    rows = [
        (one["id"], one["host"], one["port"], one["rack"], "yes" if one["controller"] else "")
        for one in listed
    ]
    print_table(("ID", "HOST", "PORT", "RACK", "CONTROLLER"), rows, right=("ID", "PORT"))


@brokers.command(
    help=command_help(
        "Show how much each broker holds and leads, and the free space of its disks.  Brokers that have replicas and do not "
        "run are named, too.",
        "tidelog brokers load",
        '[{"id", "running", "leaders", "replicas", "out_of_sync", "bytes", "disk_bytes", "disk_free_bytes"}], null where '
        "a broker does not answer",
    )
)
@broker_options
def load(session: Session) -> None:
    loads = run(_loads(session))
    if session.json:
        print_json(loads)
        return
    rows = [
        (
            one["id"],
            one["leaders"],
            one["replicas"],
            one["out_of_sync"],
            bytes_text(one["bytes"]) or ("unknown" if one["running"] else "not running"),
            bytes_text(one["disk_free_bytes"]) or "unknown",
        )
        for one in loads
    ]
    columns = ("ID", "LEADS", "REPLICAS", "OUT OF SYNC", "BYTES", "DISK FREE")
    print_table(columns, rows, right=columns)


async def _loads(session: Session) -> list[dict[str, Any]]:
    async with session.admin() as admin:
        nodes = (await admin.describe_cluster()).nodes
        leaders: Counter[int] = Counter()
        replicas: Counter[int] = Counter()
        missing: Counter[int] = Counter()
        topics = await admin.list_topics(internal=True)
        for topic in topics:
            for part in topic.partitions:
                leaders[part.leader] += 1
                replicas.update(part.replicas)
                missing.update(node for node in part.replicas if node not in part.in_sync)
        found = await disks(admin)
    tell_silent(found.silent)
    return [
        {
            "id": node,
            "running": node in nodes,
            "leaders": leaders[node],
            "replicas": replicas[node],
            "out_of_sync": missing[node],
            "bytes": found.bytes_of(node),
            "disk_bytes": _sum(found.folders.get(node), "total_bytes"),
            "disk_free_bytes": _sum(found.folders.get(node), "usable_bytes"),
        }
        for node in sorted([*nodes, *dead_brokers(topics, nodes)])
    ]


def _sum(folders: list[LogDir] | None, name: str) -> int | None:
    return None if folders is None else sum(getattr(one, name) for one in folders)


@brokers.command(
    help=command_help(
        "Show a broker: its log directories, and the settings that are not the default.",
        "tidelog brokers describe 1",
        '{"id", "host", "port", "rack", "log_dirs": [{"path", "partitions", "bytes", "problem"}], '
        '"settings": {NAME: VALUE}}',
    )
)
@click.argument("broker", type=int, metavar="ID")
@broker_options
def describe(session: Session, broker: int) -> None:
    described = run(_describe(session, broker))
    if session.json:
        print_json(described)
        return
    rack = f", rack {described['rack']}" if described["rack"] else ""
    click.echo(f"broker {broker} at {described['host']}:{described['port']}{rack}")
    rows = [
        (one["path"], one["partitions"], bytes_text(one["bytes"]), one["problem"])
        for one in described["log_dirs"]
    ]
    print_table(("LOG DIRECTORY", "PARTITIONS", "BYTES", "PROBLEM"), rows, right=("PARTITIONS", "BYTES"))
    if described["settings"]:
        click.echo()
        print_table(("SETTING", "VALUE"), sorted(described["settings"].items()))


async def _describe(session: Session, broker: int) -> dict[str, Any]:
    from tidelog.aio import ConfigResource
    from tidelog.client.admin.configs import ConfigSource

    async with session.admin() as admin:
        node = await _running(admin, broker)
        folders = (await admin.describe_log_dirs([broker]))[broker]
        resource = ConfigResource("broker", str(broker))
        settings = (await admin.describe_configs([resource]))[resource]
    return {
        "id": node.id,
        "host": node.host,
        "port": node.port,
        "rack": node.rack,
        "log_dirs": [
            {
                "path": one.path,
                "partitions": len(one.partitions),
                "bytes": sum(one.partitions.values()),
                "problem": None if one.problem is None else str(one.problem),
            }
            for one in folders
        ],
        "settings": {one.name: one.value for one in settings if one.source is not ConfigSource.DEFAULT},
    }


async def _running(admin: Admin, broker: int) -> Any:
    nodes = (await admin.describe_cluster()).nodes
    if broker not in nodes:
        there = ", ".join(map(str, sorted(nodes)))
        raise Failure(f"broker {broker} is not running: use one of {there}")
    return nodes[broker]


@brokers.command(
    help=command_help(
        "Move all replicas off a broker, so that it can be removed.  Without --execute, only shows the plan.",
        """
tidelog brokers drain 3
tidelog brokers drain 3 --execute --wait
""",
        '{"moves": [{"topic", "partition", "from": [ID...], "to": [ID...], "bytes"}], "bytes"}',
    )
)
@click.argument("broker", type=int, metavar="ID")
@click.option("--execute", is_flag=True, help="Start the moves.")
@click.option("--wait", is_flag=True, help="Wait until the moves are done.")
@throttle_option
@broker_options
def drain(session: Session, broker: int, execute: bool, wait: bool, throttle: int | None) -> None:
    act = "--execute" if execute else "--generate"
    run(carry_out(session, ReassignRequest(act, leaving=broker, wait=wait, throttle=throttle)))
