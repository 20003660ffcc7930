"""`tidelog plan`: what a load needs, and what the cluster that runs now has of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidelog.cli.cluster.disks import disks, tell_silent
from tidelog.cli.output import counted, print_json, print_table
from tidelog.cli.session import CommandSession, Finite, broker_options, command_help, run
from tidelog.model import amounts
from tidelog.model.amounts import size_text

if TYPE_CHECKING:
    from tidelog.aio import Admin
    from tidelog.model.capacity import BrokerCapacity, CapacityComparison, CapacityPlan, Load, Measured

F = TypeVar("F", bound=Callable[..., Any])

SHAPE = """
{"load": {...}, "machine": {...},
 "plan": {"storage_bytes", "disk_bytes", "partitions", "partitions_by": {WHY: N}, "brokers",
          "brokers_by": {WHY: N}, "limit", "rate_in", "rate_out"},
 "measured": null or {"brokers", "partitions", "replicas", "stored_bytes", "disk_bytes", "disk_free_bytes",
              "messages_per_s", "message_bytes"},
 "comparison": null or {"fits", "limit", "needs": [{"resource", "needed", "there", "now", "share"}], "disk_full_s",
              "outgrown": null or {"resource", "months"}}}
rates are bytes a second
"""


class Amount(click.ParamType[float]):
    def __init__(self, name: str, read: Callable[[str], float]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return self._read(str(value))
        except amounts.BadAmount as problem:
            self.fail(str(problem), param, ctx)


SIZE, RATE = Amount("size", amounts.size), Amount("rate", amounts.size)
TIME, COUNT = Amount("time", amounts.duration), Amount("count", amounts.count)


def assumed(name: str, kind: click.ParamType[Any], default: object, about: str) -> Callable[[F], F]:
    """An option with a default that people are told."""
    return click.option(name, type=kind, default=default, show_default=True, help=about)


@click.command(
    help=command_help(
        "Storage, brokers, partitions and network for a load, and which of them limits first.  A cluster that runs is "
        "measured for a few seconds and compared.  Sizes are in powers of 1000 (KB) or 1024 (KiB).",
        """
tidelog plan --messages-per-day 1e9 --size 1KB --retention 7d --replication 3
tidelog plan --messages-per-day 1e9 --size 1KB --throughput 500MB/s --offline
tidelog plan --messages-per-day 1e9 --size 1KB --compression 4 --growth 5 --months 24
tidelog plan --messages-per-day 20M --size 400B --peak 5 --groups 3 --broker-disk 2TB --json
""",
        SHAPE,
    )
)
@click.option("--messages-per-day", type=COUNT, required=True, help="Messages written per day: 1e9, 20M.")
@click.option(
    "--size",
    type=SIZE,
    required=True,
    help="Mean size of a message, with key and headers, before compression.",
)
@assumed("--retention", TIME, "7d", "How long messages are kept.")
@assumed("--replication", click.IntRange(1, 32), 3, "Replication factor.")
@assumed("--peak", Finite(min=1), 2.0, "Peak throughput, as a multiple of the mean.")
@click.option("--throughput", type=RATE, help="Peak throughput, instead of --peak: 500MB/s.")
@assumed("--groups", click.IntRange(min=0), 1, "Consumer groups that read all messages.")
@assumed("--compression", Finite(1, 1000), 1.0, "Compression ratio: 4 if messages become four times smaller.")
@assumed("--growth", Finite(-90, 1000), 0.0, "Growth of the load in a month, in percent.")
@assumed("--months", Finite(0, 120), 12.0, "With --growth: plan for the load after so many months.")
@assumed("--broker-throughput", RATE, "50MB/s", "Write throughput of one broker.")
@assumed("--consumer-throughput", RATE, "10MB/s", "Read throughput of one consumer.")
@assumed("--partition-throughput", RATE, "50MB/s", "Write throughput of one partition.")
@assumed("--broker-network", RATE, "10Gbit", "Network throughput of one broker, in each direction.")
@assumed("--broker-disk", SIZE, "4TB", "Disk of one broker.")
@assumed("--disk-fill", Finite(0, 1, min_open=True), 0.8, "The share of a disk that may be used.")
@assumed("--broker-replicas", click.IntRange(min=1), 4_000, "Partition replicas on one broker.")
@click.option("--offline", is_flag=True, help="Do not compare with a running cluster.")
@click.option(
    "--measure",
    type=Finite(min=0.1, max=3600),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to measure the cluster.",
)
@broker_options
def plan(session: CommandSession, offline: bool, measure: float, **given: Any) -> None:
    from tidelog.model import capacity

    load = capacity.Load(
        messages_per_day=given["messages_per_day"],
        message_bytes=given["size"],
        retention_s=given["retention"],
        replication=given["replication"],
        peak=given["peak"],
        throughput=given["throughput"],
        groups=given["groups"],
        compression=given["compression"],
        growth=given["growth"] / 100,
        months=given["months"],
    )
    machine = capacity.BrokerCapacity(
        broker_rate=given["broker_throughput"],
        consumer_rate=given["consumer_throughput"],
        partition_rate=given["partition_throughput"],
        network_rate=given["broker_network"],
        disk_bytes=given["broker_disk"],
        disk_fill=given["disk_fill"],
        replicas_max=given["broker_replicas"],
    )
    try:
        wanted = capacity.plan(load, machine)
    except capacity.BadLoad as problem:
        raise click.UsageError(f"{problem}.") from None
    cluster = None if offline else _measured(session, measure)
    compared = None if cluster is None else capacity.compare(load, machine, cluster)
    if session.json:
        print_json(_body(load, machine, wanted, cluster, compared))
        return
    _print(load, machine, wanted)
    if cluster is not None and compared is not None:
        click.echo()
        _print_comparison(session, cluster, compared)


def _measured(session: CommandSession, seconds: float) -> Measured | None:
    """None, with a message on stderr, when no cluster answers: a plan needs none."""
    from tidelog.errors import TidelogError

    async def watched() -> Measured | None:
        try:
            async with session.admin() as admin:
                return await _watch(admin, seconds)
        except TidelogError as problem:
            click.echo(f"No cluster to compare with: {problem}", err=True)
            return None

    return run(watched())


async def _watch(admin: Admin, seconds: float) -> Measured:
    from tidelog.model.capacity import Measured
    from tidelog.types import TopicPartition

    topics = await admin.list_topics()
    parts = [part for topic in topics for part in topic.partitions]
    led = {
        TopicPartition(partition.topic, partition.index): partition.leader
        for partition in parts
        if partition.leader >= 0
    }
    loop = asyncio.get_running_loop()
    starts = await admin.list_offsets(dict.fromkeys(led, "earliest"))
    before, begun = await admin.list_offsets(dict.fromkeys(led, "latest")), loop.time()
    await asyncio.sleep(seconds)
    ends, took = await admin.list_offsets(dict.fromkeys(led, "latest")), loop.time() - begun
    disk_usage = await disks(admin)
    tell_silent(disk_usage.silent)
    folders = disk_usage.folders
    sizes = {
        partition: size
        for node, listed in folders.items()
        for folder in listed
        for partition, size in folder.partitions.items()
        if led.get(partition) == node
    }
    kept = sum(ends[partition].offset - starts[partition].offset for partition in sizes)
    every = [folder for listed in folders.values() for folder in listed]
    return Measured(
        brokers=len((await admin.describe_cluster()).nodes),
        partitions=len(parts),
        replicas=sum(len(partition.replicas) for partition in parts),
        stored_bytes=sum(size for folder in every for size in folder.partitions.values()),
        disk_bytes=sum(max(0, folder.total_bytes) for folder in every),
        disk_free_bytes=sum(max(0, folder.usable_bytes) for folder in every),
        messages_per_s=sum(max(0, ends[partition].offset - before[partition].offset) for partition in ends)
        / took,
        message_bytes=sum(sizes.values()) / kept if kept > 0 else None,
    )


def _body(
    load: Load,
    machine: BrokerCapacity,
    wanted: CapacityPlan,
    cluster: Measured | None,
    compared: CapacityComparison | None,
) -> dict[str, Any]:
    return {
        "load": asdict(load) | {"mean_rate": load.mean_rate, "peak_rate": load.peak_rate},
        "machine": asdict(machine),
        "plan": asdict(wanted),
        "measured": None if cluster is None else asdict(cluster),
        "comparison": None
        if compared is None
        else {
            "fits": compared.fits,
            "limit": compared.limit.resource,
            "needs": [
                asdict(need) | {"share": need.share if need.there else None} for need in compared.needs
            ],
            "disk_full_s": compared.disk_full_s,
            "outgrown": None if compared.outgrown is None else compared.outgrown._asdict(),
        },
    }


def _print(load: Load, machine: BrokerCapacity, wanted: CapacityPlan) -> None:
    days = load.retention_s / 86_400
    replicas = f"{load.replication} copies" if load.replication > 1 else "1 copy"
    by = wanted.brokers_by
    smaller = f" / {load.compression:g}" if load.compression > 1 else ""
    grown = f" * {load.factor:,.2f}" if load.growth else ""
    rows = [
        (
            "storage",
            size_text(wanted.storage_bytes),
            f"{load.messages_per_day:,.0f} a day * {size_text(load.message_bytes)}{smaller}{grown} * {days:g} days "
            f"* {replicas}",
        ),
        ("disks", size_text(wanted.disk_bytes), f"so that they stay below {machine.disk_fill:.0%} full"),
        (
            "brokers",
            wanted.brokers,
            "by " + ", ".join(f"{name} {number}" for name, number in by.items()),
        ),
        (
            "partitions",
            wanted.partitions,
            f"{size_text(load.peak_rate)}/s at the peak, {size_text(machine.consumer_rate)}/s each consumer",
        ),
        ("network in", f"{size_text(wanted.rate_in)}/s", "at the peak: producers and replication"),
        ("network out", f"{size_text(wanted.rate_out)}/s", "at the peak: replication and consumers"),
    ]
    print_table(("NEEDED", "AMOUNT", "WHY"), rows, right=("AMOUNT",))
    if load.growth:
        click.echo(f"\nFor the load in {load.months:g} months, growing by {100 * load.growth:g} % a month.")
    click.echo(
        f"\n{wanted.limit.capitalize()} is the bottleneck: the load needs {counted(wanted.brokers, 'broker')}."
    )


def _print_comparison(session: CommandSession, cluster: Measured, compared: CapacityComparison) -> None:
    of = "nothing is kept" if cluster.message_bytes is None else f"{size_text(cluster.message_bytes)} each"
    click.echo(
        f"The cluster at {session.bootstrap} has {counted(cluster.brokers, 'broker')} and takes "
        f"{cluster.messages_per_s:,.0f} messages/s ({of})."
    )
    rows = []
    for need in compared.needs:
        plain = need.resource in ("partitions", "replication")
        unit = "" if plain or need.resource == "storage" else "/s"
        cells = [
            None if amount is None else f"{amount:g}" if plain else size_text(amount) + unit
            for amount in (need.now, need.needed, need.there)
        ]
        rows.append((need.resource, *cells, f"{need.share:.0%}" if need.there else "all"))
    print_table(
        ("RESOURCE", "NOW", "NEEDED", "AVAILABLE", "SHARE"),
        rows,
        right=("NOW", "NEEDED", "AVAILABLE", "SHARE"),
    )
    words = "has room for the plan" if compared.fits else "is too small for the plan"
    click.echo(f"\nThis cluster {words}: {compared.limit.resource} runs out first.")
    if compared.outgrown is not None:
        resource, months = compared.outgrown
        after = (
            "The load exceeds its"
            if not months
            else f"After {months:,.1f} months of growth the load exceeds its"
        )
        click.echo(f"{after} {resource}{' now' if not months else ''}.")
    if compared.disk_full_s is not None:
        days = compared.disk_full_s / 86_400
        click.echo(f"At the current write rate, without retention, its disks are full in {days:,.1f} days.")
