"""One topic: its partitions, who reads it, what can be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.gateways.console.amounts import count, short, size
from tidelog.gateways.console.chart import WIDE, Line, line_chart
from tidelog.gateways.console.condition import behind, why_leaderless
from tidelog.gateways.console.console import Console, number
from tidelog.gateways.console.forms import field, form, sent
from tidelog.gateways.console.frame import go, page, part
from tidelog.gateways.console.markup import Child, Markup, h, path
from tidelog.gateways.console.overview import live, per_second, problem_of, state_badge
from tidelog.gateways.console.table import Column, Pages, badge, card, figure, table
from tidelog.gateways.http.problem import Problem
from tidelog.types import NodeId, TopicPartition

if TYPE_CHECKING:
    from tidelog.metadata.image import PartitionImage, TopicImage

TABS = (
    ("Partitions", ()),
    ("Messages", ("messages",)),
    ("Settings", ("settings",)),
    ("Produce", ("produce",)),
)


def topic_of(console: Console, request: Request) -> TopicImage:
    name = request.path_params["topic"]
    found = console.around.image.topics.get(name)
    if found is None:
        raise errors.UnknownTopicOrPartition(f"there is no topic {name!r}: check the name")
    return found


def topic_page(request: Request, name: str, tab: str, *body: Child, status: int = 200) -> Response:
    """A page of a topic, with the way to its others."""
    tabs = h.nav(
        h.ul(
            [
                h.li(
                    h.a(
                        title,
                        href=path("topics", name, *below),
                        aria_current="page" if title == tab else None,
                    )
                )
                for title, below in TABS
            ]
        ),
        class_="tabs",
        aria_label=f"Pages of {name}",
    )
    above = {"Topics": path("topics")}
    return page(request, name, tabs, body, place="Topics", crumbs=above, status=status)


async def topic(console: Console, request: Request) -> Response:
    found = topic_of(console, request)
    pages = Pages(f"topics/{found.name}", number(request, "page", 1, 1, 1_000_000), len(found.partitions), {})
    shown = pages.cut(found.partitions)
    return topic_page(
        request,
        found.name,
        "Partitions",
        problem_of(console),
        live(path("topics", found.name, "live"), _figures(console, found)),
        card(
            await _partitions(console, found, [one.index for one in shown]), pages.links(), title="Partitions"
        ),
        card(await _readers(console, found.name), title="Groups that read it"),
        _deeds(request, found),
    )


async def topic_live(console: Console, request: Request) -> Response:
    return part(_figures(console, topic_of(console, request)))


def _figures(console: Console, found: TopicImage) -> list[Child]:
    history, look = console.lookout.history, console.lookout.look
    rates = history.rates(history.ends.of(found.name))
    settings = console.around.image.topic_overrides(found.name)
    return [
        h.div(
            figure("Messages in", per_second(rates[-1] if rates else None)),
            figure("Size", size(look.topic_sizes().get(found.name)), "all replicas"),
            figure(
                "Partitions",
                count(len(found.partitions)),
                _each(len(found.partitions[0].replicas)),
            ),
            figure(
                "Settings of its own",
                count(len(settings)),
                ", ".join(sorted(settings)[:2]) or "all as the brokers have them",
                href=path("topics", found.name, "settings"),
            ),
            class_="figures",
        ),
        card(
            line_chart(
                f"Messages in to {found.name}", history.times_ms, [Line("in", rates)], per_second, WIDE
            ),
            title="Messages in",
        ),
    ]


def _each(replicas: int) -> str:
    return "one replica each" if replicas == 1 else f"{replicas} replicas each"


async def _partitions(console: Console, found: TopicImage, indexes: list[int]) -> Markup:
    image, look = console.around.image, console.lookout.look
    live_nodes = {one.node_id for one in image.reachable_brokers}
    leading = {one.node_id for one in image.live_brokers}
    wanted = [
        TopicPartition(found.name, index) for index in indexes if found.partitions[index].leader in live_nodes
    ]
    admin = await console.admin()
    starts = await admin.list_offsets(dict.fromkeys(wanted, "earliest")) if wanted else {}
    ends = await admin.list_offsets(dict.fromkeys(wanted, "latest")) if wanted else {}
    sizes = _sizes(look.disks, found.name)
    rows: list[list[Child]] = []
    for index in indexes:
        one, name = found.partitions[index], TopicPartition(found.name, index)
        start, end = starts.get(name), ends.get(name)
        rows.append(
            [
                h.a(index, href=path("topics", found.name, "messages", partition=index)),
                one.leader if one.leader in live_nodes else badge("none", "bad"),
                _nodes(one.replicas, set(one.in_sync)),
                _state(one, leading),
                count(start.offset if start else None),
                count(end.offset if end else None),
                count(end.offset - start.offset if start and end else None),
                size(sizes.get((index, one.leader if one.leader is not None else -1))),
            ]
        )
    columns = [
        Column("Partition", True),
        Column("Leader", True),
        Column("Replicas"),
        Column("State"),
        Column("First offset", True),
        Column("End", True),
        Column("Offsets", True, hint="Markers of transactions and what compaction took are counted too"),
        Column("Size", True, hint="On the leader's disk"),
    ]
    return table(columns, rows, "No partitions.", f"Partitions of {found.name}")


def _state(partition: PartitionImage, live: set[NodeId]) -> Child:
    reasons = why_leaderless(partition, live)
    if reasons:
        return [badge("offline", "bad"), [h.p(reason, class_="muted small") for reason in reasons]]
    return badge("catching up", "warn") if behind(partition) else badge("in sync", "good")


def _sizes(disks: object, topic: str) -> dict[tuple[int, int], int]:
    """By partition and broker."""
    assert isinstance(disks, dict)
    return {
        (partition.partition, node): taken
        for node, folders in disks.items()
        for folder in folders
        for partition, taken in folder.partitions.items()
        if partition.topic == topic
    }


def _nodes(replicas: tuple[int, ...], in_sync: set[int]) -> list[Child]:
    return [
        h.span(
            node,
            class_="node" if node in in_sync else "node late",
            title=f"broker {node}" + ("" if node in in_sync else ": not in sync"),
        )
        for node in replicas
    ]


async def _readers(console: Console, name: str) -> Markup:
    look = console.lookout.look
    listed = {one.group_id: one for one in look.groups}
    offsets = await (await console.admin()).list_groups_offsets(
        [one for one in listed if listed[one].type != "share"]
    )
    rows = []
    for group, committed in offsets.items():
        of_topic = {one: offset.offset for one, offset in committed.items() if one.topic == name}
        if of_topic:
            lag = sum(max(0, look.ends.get(one, offset) - offset) for one, offset in of_topic.items())
            rows.append(
                (
                    h.a(group, href=path("groups", "show", name=group)),
                    state_badge(listed[group].state),
                    count(len(of_topic)),
                    short(lag),
                )
            )
    columns = [Column("Group"), Column("State"), Column("Partitions", True), Column("Lag", True)]
    return table(columns, rows, "No group has committed an offset for it.", f"Groups that read {name}")


def _deeds(request: Request, found: TopicImage) -> Markup:
    return card(
        form(
            request,
            path("topics", found.name, "partitions"),
            field(
                "Partitions in the end",
                h.input(name="total", type="number", min=len(found.partitions) + 1, max=10000, required=True),
                "keys go to other partitions from then on",
            ),
            h.button("Add partitions"),
            class_="grid",
        ),
        form(
            request,
            path("topics", found.name, "delete"),
            field(
                "Write the name of the topic",
                h.input(name="name", required=True, autocomplete="off", spellcheck="false"),
                "its messages are gone for good",
            ),
            h.button("Delete topic", class_="bad"),
            class_="grid",
        ),
        title="Change it",
    )


async def add_partitions(console: Console, request: Request) -> Response:
    given = await sent(request)
    name, total = topic_of(console, request).name, given.get("total", "").strip()
    if not total.isdecimal():
        raise Problem(400, f"{total!r} is no number of partitions: write a whole number")
    await (await console.admin()).create_partitions({name: int(total)})
    return go(path("topics", name), f"{name} has {total} partitions.")


async def delete(console: Console, request: Request) -> Response:
    given = await sent(request)
    name = topic_of(console, request).name
    if given.get("name", "").strip() != name:
        raise errors.InvalidRequest(f"nothing was deleted: write {name} into the field to delete it")
    await (await console.admin()).delete_topics([name])
    return go(path("topics"), f"Topic {name} is deleted.")
