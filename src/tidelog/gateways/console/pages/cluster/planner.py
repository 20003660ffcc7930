"""The capacity planner: what a load needs, compared with what this cluster has and does now."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console
from tidelog.gateways.console.pages.topics.topics import is_internal
from tidelog.gateways.console.parts.amounts import count, duration, percent
from tidelog.gateways.console.parts.chart import bar
from tidelog.gateways.console.parts.forms import field
from tidelog.gateways.console.parts.layout import notice, page
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, badge, card, figure, table
from tidelog.model import amounts
from tidelog.model.amounts import BadAmount, size_text
from tidelog.model.capacity import (
    BadLoad,
    BrokerCapacity,
    CapacityComparison,
    CapacityPlan,
    Load,
    Measured,
    Need,
    compare,
    plan,
)

WORDS = {
    "throughput": "Broker throughput",
    "storage": "Disks",
    "network": "Network",
    "replicas": "Replicas per broker",
    "replication": "Brokers for the replication factor",
    "partitions": "Partitions",
    "consumers": "Consumer throughput",
    "writes": "Partition throughput",
}
RATES = frozenset({"throughput", "network"})


class PlannerField(NamedTuple):
    """One field of the form."""

    label: str
    default: str
    read: Callable[[str], float]


def _whole(text: str) -> float:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise BadAmount(f"{text!r} is not a whole number")
    return int(text)


def _percent(text: str) -> float:
    try:
        share = float(text) / 100
    except ValueError:
        share = math.nan
    if not math.isfinite(share):
        raise BadAmount(f"{text!r} is not a percentage, such as 5")
    return share


LOAD = {
    "messages": PlannerField("Messages per day", "1e9", amounts.count),
    "size": PlannerField("Message size", "1KB", amounts.size),
    "retention": PlannerField("Retention", "7d", amounts.duration),
    "replication": PlannerField("Replication factor", "3", _whole),
    "peak": PlannerField("Peak factor", "2", amounts.count),
    "throughput": PlannerField("Or peak throughput", "", amounts.size),
    "groups": PlannerField("Consumer groups", "1", _whole),
    "compression": PlannerField("Compression ratio", "1", amounts.count),
    "growth": PlannerField("Growth a month, %", "0", _percent),
    "months": PlannerField("Months of growth", "12", _whole),
}
MACHINE = {
    "broker": PlannerField("Broker throughput", "50MB/s", amounts.size),
    "consumer": PlannerField("Consumer throughput", "10MB/s", amounts.size),
    "network": PlannerField("Broker network", "10Gbit", amounts.size),
    "disk": PlannerField("Broker disk", "4TB", amounts.size),
}


async def planner(console: Console, request: Request) -> Response:
    given = {
        name: request.query_params.get(name, "").strip() or planned.default
        for name, planned in (LOAD | MACHINE).items()
    }
    form = card(_form(given), title="Load")
    try:
        load, machine = _read(given)
        wanted = plan(load, machine)
    except (BadAmount, BadLoad) as problem:
        text = str(problem)
        message = notice(f"{text[:1].upper()}{text[1:]}.", "bad")
        return page(request, "Planner", message, form, place="Planner", status=400)
    measured = await measure(console)
    return page(
        request,
        "Planner",
        form,
        _figures(load, wanted),
        card(_comparison(compare(load, machine, measured), measured), title="This cluster"),
        card(_limits(wanted), title="Brokers by resource"),
        place="Planner",
    )


def _read(given: dict[str, str]) -> tuple[Load, BrokerCapacity]:
    read = {name: planned.read(given[name]) for name, planned in (LOAD | MACHINE).items() if given[name]}
    load = Load(
        messages_per_day=read["messages"],
        message_bytes=read["size"],
        retention_s=read["retention"],
        replication=int(read["replication"]),
        peak=read["peak"],
        throughput=read.get("throughput"),
        groups=int(read["groups"]),
        compression=read["compression"],
        growth=read["growth"],
        months=read["months"],
    )
    machine = BrokerCapacity(
        broker_rate=read["broker"],
        consumer_rate=read["consumer"],
        network_rate=read["network"],
        disk_bytes=read["disk"],
    )
    return load, machine


def _form(given: dict[str, str]) -> Markup:
    def fields(planned: dict[str, PlannerField]) -> list[Markup]:
        return [
            field(item.label, h.input(name=name, value=given[name], size=10, spellcheck="false"))
            for name, item in planned.items()
        ]

    return h.form(
        fields(LOAD),
        h.details(
            h.summary("Capacity of one broker and one consumer"),
            h.div(fields(MACHINE), class_="grid-form"),
            open=any(given[name] != planned.default for name, planned in MACHINE.items()),
            class_="field wide",
        ),
        h.button("Plan", class_="main"),
        method="get",
        action=path("plan"),
        class_="grid",
    )


def _figures(load: Load, wanted: CapacityPlan) -> Markup:
    return h.div(
        figure("Storage", size_text(wanted.storage_bytes), "all replicas"),
        figure("Brokers", count(wanted.brokers), f"limited by {WORDS[wanted.limit].lower()}"),
        figure("Partitions", count(wanted.partitions), "at least"),
        figure("Peak produce rate", f"{size_text(load.peak_rate)}/s", "from producers"),
        figure("Network in", f"{size_text(wanted.rate_in)}/s", "producers and replication, all brokers"),
        figure("Network out", f"{size_text(wanted.rate_out)}/s", "replication and consumers, all brokers"),
        class_="figures",
    )


def _limits(wanted: CapacityPlan) -> Markup:
    most = max(wanted.brokers_by.values())
    rows: list[list[Child]] = [
        [
            [WORDS[name], " ", badge("bottleneck", "warn") if name == wanted.limit else None],
            count(needed),
            bar(needed / most, f"{needed} brokers"),
        ]
        for name, needed in sorted(wanted.brokers_by.items(), key=lambda item: -item[1])
    ]
    return table(
        [Column("Resource"), Column("Brokers", True), Column("")], rows, caption="Brokers by resource"
    )


def _comparison(comparison: CapacityComparison, measured: Measured) -> list[Child]:
    limit = WORDS[comparison.limit.resource].lower()
    verdict = (
        f"The load fits this cluster. Bottleneck: {limit}, at {percent(comparison.limit.share)} of capacity."
    )
    if not comparison.fits:
        verdict = (
            f"The load does not fit this cluster. Bottleneck: {limit}, "
            f"at {comparison.limit.share:,.1f} times the capacity."
        )
    rows: list[list[Child]] = [
        [
            WORDS[need.resource],
            _amount(need, need.needed),
            _amount(need, need.there),
            "–" if need.now is None else _amount(need, need.now),
            bar(min(1.0, need.share), f"{WORDS[need.resource]}: {need.share:.2f} of capacity", _level(need)),
        ]
        for need in comparison.needs
    ]
    columns = [
        Column("Resource"),
        Column("Needed", True),
        Column("Available", True),
        Column("Used now", True),
        Column(""),
    ]
    now = f"Current load: {measured.messages_per_s:,.0f} messages per second"
    if comparison.message_bytes is not None:
        now += f", of {size_text(comparison.message_bytes)} each"
    if comparison.disk_full_s is not None:
        now += (
            f"; at this rate, without retention, disks are full in {duration(1000 * comparison.disk_full_s)}"
        )
    if comparison.outgrown is not None:
        resource, months = comparison.outgrown
        when = f"in {months:,.1f} months" if months else "now"
        now += f"; with this growth the load exceeds {WORDS[resource].lower()} {when}"
    return [
        notice(verdict, "good" if comparison.fits else "warn"),
        table(columns, rows, caption="Needed and available capacity"),
        h.p(f"{now}.", class_="muted small"),
    ]


def _level(need: Need) -> str:
    return "bad" if need.share > 1 else "warn" if need.share > 0.8 else ""


def _amount(need: Need, amount: float) -> str:
    if need.resource in ("partitions", "replication"):
        return count(int(amount))
    return size_text(amount) + ("/s" if need.resource in RATES else "")


async def measure(console: Console) -> Measured:
    """Figures of the last poll; asks for the disks now if no poll has done so yet."""
    image, snapshot = console.around.image, console.poller.snapshot
    topics = [topic for topic in image.topics.values() if not is_internal(topic.name)]
    log_dirs_by_node = snapshot.disks or await (await console.admin()).describe_log_dirs()
    disks = [
        log_dir for log_dirs in log_dirs_by_node.values() for log_dir in log_dirs if log_dir.total_bytes > 0
    ]
    messages = sum(figures["messages_in"] for figures in snapshot.processes.values())
    rates = console.poller.rates("messages_in")
    return Measured(
        brokers=len(image.reachable_brokers),
        partitions=sum(len(topic.partitions) for topic in topics),
        replicas=sum(len(partition.replicas) for topic in topics for partition in topic.partitions),
        stored_bytes=sum(snapshot.topic_sizes().values()),
        disk_bytes=sum(log_dir.total_bytes for log_dir in disks),
        disk_free_bytes=sum(log_dir.usable_bytes for log_dir in disks),
        messages_per_s=(rates[-1] or 0) if rates else 0,
        message_bytes=sum(figures["bytes_in"] for figures in snapshot.processes.values()) / messages
        if messages
        else None,
    )
