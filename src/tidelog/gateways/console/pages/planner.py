"""The capacity planner: what a load needs, beside what this cluster has and does now."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console
from tidelog.gateways.console.pages.topics import is_internal
from tidelog.gateways.console.parts.amounts import count, duration, percent
from tidelog.gateways.console.parts.chart import bar
from tidelog.gateways.console.parts.forms import field
from tidelog.gateways.console.parts.layout import notice, page
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, badge, card, figure, table
from tidelog.model import amounts
from tidelog.model.amounts import BadAmount, size_text
from tidelog.model.capacity import BadLoad, Comparison, Load, Machine, Measured, Need, Plan, compare, plan

WORDS = {
    "throughput": "Throughput of brokers",
    "storage": "Disks",
    "network": "Network",
    "replicas": "Replicas on a broker",
    "replication": "A broker for each copy",
    "partitions": "Partitions",
    "consumers": "Speed of consumers",
    "writes": "Speed of a partition",
}
RATES = frozenset({"throughput", "network"})


class Asked(NamedTuple):
    """One field of the form."""

    label: str
    default: str
    read: Callable[[str], float]


def _whole(text: str) -> float:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise BadAmount(f"{text!r} is not a whole number")
    return int(text)


LOAD = {
    "messages": Asked("Messages a day", "1e9", amounts.count),
    "size": Asked("Size of a message", "1KB", amounts.size),
    "retention": Asked("Kept for", "7d", amounts.duration),
    "replication": Asked("Copies of each", "3", _whole),
    "peak": Asked("Busiest time, times the mean", "2", amounts.count),
    "throughput": Asked("Or: written at the busiest time", "", amounts.size),
    "groups": Asked("Groups that read all of it", "1", _whole),
}
MACHINE = {
    "broker": Asked("A broker takes", "50MB/s", amounts.size),
    "consumer": Asked("A consumer reads", "10MB/s", amounts.size),
    "network": Asked("Network of a broker", "10Gbit", amounts.size),
    "disk": Asked("Disk of a broker", "4TB", amounts.size),
}


async def planner(console: Console, request: Request) -> Response:
    given = {
        name: request.query_params.get(name, "").strip() or one.default
        for name, one in (LOAD | MACHINE).items()
    }
    form = card(_form(given), title="What is asked of the cluster")
    try:
        load, machine = _read(given)
        wanted = plan(load, machine)
    except (BadAmount, BadLoad) as problem:
        words = str(problem)
        told = notice(f"{words[:1].upper()}{words[1:]}.", "bad")
        return page(request, "Planner", told, form, place="Planner", status=400)
    measured = await measure(console)
    return page(
        request,
        "Planner",
        form,
        _figures(load, wanted),
        card(_comparison(compare(load, machine, measured), measured), title="On this cluster"),
        card(_limits(wanted), title="Why so many brokers"),
        place="Planner",
    )


def _read(given: dict[str, str]) -> tuple[Load, Machine]:
    read = {name: one.read(given[name]) for name, one in (LOAD | MACHINE).items() if given[name]}
    load = Load(
        messages_per_day=read["messages"],
        message_bytes=read["size"],
        retention_s=read["retention"],
        replication=int(read["replication"]),
        peak=read["peak"],
        throughput=read.get("throughput"),
        groups=int(read["groups"]),
    )
    machine = Machine(
        broker_rate=read["broker"],
        consumer_rate=read["consumer"],
        network_rate=read["network"],
        disk_bytes=read["disk"],
    )
    return load, machine


def _form(given: dict[str, str]) -> Markup:
    def fields(asked: dict[str, Asked]) -> list[Markup]:
        return [
            field(one.label, h.input(name=name, value=given[name], size=10, spellcheck="false"))
            for name, one in asked.items()
        ]

    return h.form(
        fields(LOAD),
        h.details(
            h.summary("What one broker and one consumer can do"),
            h.div(fields(MACHINE), class_="grid-form"),
            open=any(given[name] != one.default for name, one in MACHINE.items()),
            class_="field wide",
        ),
        h.button("Plan", class_="main"),
        method="get",
        action=path("plan"),
        class_="grid",
    )


def _figures(load: Load, wanted: Plan) -> Markup:
    return h.div(
        figure("Storage", size_text(wanted.storage_bytes), "all copies"),
        figure("Brokers", count(wanted.brokers), f"limited by {WORDS[wanted.limit].lower()}"),
        figure("Partitions", count(wanted.partitions), "at least"),
        figure("Written at the peak", f"{size_text(load.peak_rate)}/s", "by producers"),
        figure("Into all brokers", f"{size_text(wanted.rate_in)}/s", "with replication"),
        figure("Out of all brokers", f"{size_text(wanted.rate_out)}/s", "replication and readers"),
        class_="figures",
    )


def _limits(wanted: Plan) -> Markup:
    most = max(wanted.brokers_by.values())
    rows: list[list[Child]] = [
        [
            [WORDS[name], " ", badge("limits first", "warn") if name == wanted.limit else None],
            count(needed),
            bar(needed / most, f"{needed} brokers"),
        ]
        for name, needed in sorted(wanted.brokers_by.items(), key=lambda one: -one[1])
    ]
    return table([Column("By"), Column("Brokers", True), Column("")], rows, caption="Brokers by resource")


def _comparison(found: Comparison, measured: Measured) -> list[Child]:
    limit = WORDS[found.limit.resource].lower()
    told = f"It would fit. Used most: {limit}, {percent(found.limit.share)} of what is there."
    if not found.fits:
        told = f"It would not fit. What limits first: {limit}, needed {found.limit.share:,.1f} times."
    rows: list[list[Child]] = [
        [
            WORDS[one.resource],
            _amount(one, one.needed),
            _amount(one, one.there),
            "–" if one.now is None else _amount(one, one.now),
            bar(min(1.0, one.share), f"{WORDS[one.resource]}: {one.share:.2f} of what is there", _level(one)),
        ]
        for one in found.needs
    ]
    columns = [
        Column(""),
        Column("Needed", True),
        Column("There", True),
        Column("Used now", True),
        Column(""),
    ]
    now = f"Now {measured.messages_per_s:,.0f} messages come each second"
    if found.message_bytes is not None:
        now += f", of {size_text(found.message_bytes)} each"
    if found.disk_full_s is not None:
        now += f"; at this pace, and if nothing is deleted, disks are full in {duration(1000 * found.disk_full_s)}"
    return [
        notice(told, "good" if found.fits else "warn"),
        table(columns, rows, caption="What is needed and what is there"),
        h.p(f"{now}.", class_="muted small"),
    ]


def _level(need: Need) -> str:
    return "bad" if need.share > 1 else "warn" if need.share > 0.8 else ""


def _amount(need: Need, amount: float) -> str:
    if need.resource in ("partitions", "replication"):
        return count(int(amount))
    return size_text(amount) + ("/s" if need.resource in RATES else "")


async def measure(console: Console) -> Measured:
    """From what the lookout has seen; disks are looked at now when it has not come to them yet."""
    image, look = console.around.image, console.lookout.look
    topics = [one for one in image.topics.values() if not is_internal(one.name)]
    known = look.disks or await (await console.admin()).describe_log_dirs()
    disks = [one for folders in known.values() for one in folders if one.total_bytes > 0]
    messages = sum(one["messages_in"] for one in look.processes.values())
    rate = console.lookout.rates("messages_in")
    return Measured(
        brokers=len(image.reachable_brokers),
        partitions=sum(len(one.partitions) for one in topics),
        replicas=sum(len(part.replicas) for one in topics for part in one.partitions),
        stored_bytes=sum(look.topic_sizes().values()),
        disk_bytes=sum(one.total_bytes for one in disks),
        disk_free_bytes=sum(one.usable_bytes for one in disks),
        messages_per_s=(rate[-1] or 0) if rate else 0,
        message_bytes=sum(one["bytes_in"] for one in look.processes.values()) / messages
        if messages
        else None,
    )
