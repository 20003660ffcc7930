"""One topic: its partitions, the groups that read it, and forms to grow and delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.gateways.console.cluster.health import is_under_replicated, why_leaderless
from tidelog.gateways.console.console import Console, query_number
from tidelog.gateways.console.pages.cluster.overview import live, per_second, problem_of, state_badge
from tidelog.gateways.console.parts.amounts import count, short, size
from tidelog.gateways.console.parts.chart import WIDE, Line, line_chart
from tidelog.gateways.console.parts.forms import field, form, sent
from tidelog.gateways.console.parts.layout import fragment, page, redirect
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, Pages, badge, card, figure, table
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.rights import GROUP, visible
from tidelog.types import NodeId, TopicPartition

if TYPE_CHECKING:
    from tidelog.metadata.image.image import PartitionImage, TopicImage

TABS = (
    ("Partitions", ()),
    ("Messages", ("messages",)),
    ("Settings", ("settings",)),
    ("Produce", ("produce",)),
)


def topic_of(console: Console, request: Request) -> TopicImage:
    name = request.path_params["topic"]
    topic = console.around.image.topics.get(name)
    if topic is None:
        raise errors.UnknownTopicOrPartition(f"topic {name!r} does not exist: check the name")
    return topic


def topic_page(request: Request, name: str, tab: str, *body: Child, status: int = 200) -> Response:
    """One of the pages of a topic, with tabs for the others."""
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
    topic = topic_of(console, request)
    pages = Pages(
        f"topics/{topic.name}", query_number(request, "page", 1, 1, 1_000_000), len(topic.partitions), {}
    )
    page_partitions = pages.cut(topic.partitions)
    return topic_page(
        request,
        topic.name,
        "Partitions",
        problem_of(console),
        live(path("topics", topic.name, "live"), _figures(console, topic)),
        card(
            await _partitions(console, topic, [partition.index for partition in page_partitions]),
            pages.links(),
            title="Partitions",
        ),
        card(await _readers(console, topic.name), title="Consumer groups"),
        _actions(request, topic),
    )


async def topic_live(console: Console, request: Request) -> Response:
    return fragment(_figures(console, topic_of(console, request)))


def _figures(console: Console, topic: TopicImage) -> list[Child]:
    history, snapshot = console.poller.history, console.poller.snapshot
    rates = history.rates(history.ends.of(topic.name))
    settings = console.around.image.topic_overrides(topic.name)
    return [
        h.div(
            figure("Messages in", per_second(rates[-1] if rates else None)),
            figure("Size", size(snapshot.topic_sizes().get(topic.name)), "all replicas"),
            figure(
                "Partitions",
                count(len(topic.partitions)),
                _replication(len(topic.partitions[0].replicas)),
            ),
            figure(
                "Overrides",
                count(len(settings)),
                ", ".join(sorted(settings)[:2]) or "all settings use broker defaults",
                href=path("topics", topic.name, "settings"),
            ),
            class_="figures",
        ),
        card(
            line_chart(
                f"Messages in to {topic.name}", history.times_ms, [Line("in", rates)], per_second, WIDE
            ),
            title="Messages in",
        ),
    ]


def _replication(replicas: int) -> str:
    return "replication factor 1" if replicas == 1 else f"replication factor {replicas}"


async def _partitions(console: Console, topic: TopicImage, indexes: list[int]) -> Markup:
    image, snapshot = console.around.image, console.poller.snapshot
    live_nodes = {broker.node_id for broker in image.reachable_brokers}
    leading = {broker.node_id for broker in image.live_brokers}
    led = [
        TopicPartition(topic.name, index) for index in indexes if topic.partitions[index].leader in live_nodes
    ]
    admin = await console.admin()
    starts = await admin.list_offsets(dict.fromkeys(led, "earliest")) if led else {}
    ends = await admin.list_offsets(dict.fromkeys(led, "latest")) if led else {}
    sizes = _sizes(snapshot.disks, topic.name)
    rows: list[list[Child]] = []
    for index in indexes:
        partition, name = topic.partitions[index], TopicPartition(topic.name, index)
        start, end = starts.get(name), ends.get(name)
        rows.append(
            [
                h.a(index, href=path("topics", topic.name, "messages", partition=index)),
                partition.leader if partition.leader in live_nodes else badge("none", "bad"),
                _nodes(partition.replicas, set(partition.in_sync)),
                _state(partition, leading),
                count(start.offset if start else None),
                count(end.offset if end else None),
                count(end.offset - start.offset if start and end else None),
                size(sizes.get((index, partition.leader if partition.leader is not None else -1))),
            ]
        )
    columns = [
        Column("Partition", True),
        Column("Leader", True),
        Column("Replicas"),
        Column("State"),
        Column("First offset", True),
        Column("End offset", True),
        Column(
            "Offsets",
            True,
            hint="End offset minus first offset; counts transaction markers and compacted messages, too",
        ),
        Column("Size", True, hint="On the leader's disk"),
    ]
    return table(columns, rows, "There are no partitions.", f"Partitions of {topic.name}")


def _state(partition: PartitionImage, live: set[NodeId]) -> Child:
    reasons = why_leaderless(partition, live)
    if reasons:
        return [badge("offline", "bad"), [h.p(reason, class_="muted small") for reason in reasons]]
    return badge("under-replicated", "warn") if is_under_replicated(partition) else badge("in sync", "good")


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
            title=f"Broker {node}" + ("" if node in in_sync else " is not in sync"),
        )
        for node in replicas
    ]


async def _readers(console: Console, name: str) -> Markup:
    snapshot = console.poller.snapshot
    listed = {
        group.group_id: group for group in snapshot.groups if visible(console.around, GROUP, group.group_id)
    }
    offsets = await (await console.admin()).list_groups_offsets(
        [group for group in listed if listed[group].type != "share"]
    )
    rows = []
    for group, committed in offsets.items():
        of_topic = {
            partition: offset.offset for partition, offset in committed.items() if partition.topic == name
        }
        if of_topic:
            lag = sum(
                max(0, snapshot.ends.get(partition, offset) - offset)
                for partition, offset in of_topic.items()
            )
            rows.append(
                (
                    h.a(group, href=path("groups", "show", name=group)),
                    state_badge(listed[group].state),
                    count(len(of_topic)),
                    short(lag),
                )
            )
    columns = [Column("Group"), Column("State"), Column("Partitions", True), Column("Lag", True)]
    return table(
        columns, rows, "No group has committed offsets for this topic.", f"Consumer groups of {name}"
    )


def _actions(request: Request, topic: TopicImage) -> Markup:
    return card(
        form(
            request,
            path("topics", topic.name, "partitions"),
            field(
                "New number of partitions",
                h.input(name="total", type="number", min=len(topic.partitions) + 1, max=10000, required=True),
                "messages with the same key may go to another partition than before",
            ),
            h.button("Add partitions"),
            class_="grid",
        ),
        form(
            request,
            path("topics", topic.name, "delete"),
            field(
                "Enter the topic name to confirm",
                h.input(name="name", required=True, autocomplete="off", spellcheck="false"),
                "deletes all of its messages; this cannot be undone",
            ),
            h.button("Delete topic", class_="bad"),
            class_="grid",
        ),
        title="Actions",
    )


async def add_partitions(console: Console, request: Request) -> Response:
    fields = await sent(request)
    name, total = topic_of(console, request).name, fields.get("total", "").strip()
    if not total.isdecimal():
        raise Problem(400, f"{total!r} is not a number of partitions: enter a whole number")
    await (await console.admin()).create_partitions({name: int(total)})
    return redirect(path("topics", name), f"{name} now has {total} partitions.")


async def delete(console: Console, request: Request) -> Response:
    fields = await sent(request)
    name = topic_of(console, request).name
    if fields.get("name", "").strip() != name:
        raise errors.InvalidRequest(f"nothing was deleted: enter {name} in the field to delete the topic")
    await (await console.admin()).delete_topics([name])
    return redirect(path("topics"), f"Topic {name} was deleted.")
