"""The list of topics, and the search for a topic or group that every page has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.cluster.health import topic_problems
from tidelog.gateways.console.console import Console, query_number, query_text
from tidelog.gateways.console.pages.cluster.overview import per_second, problem_of
from tidelog.gateways.console.parts.amounts import count, size
from tidelog.gateways.console.parts.chart import sparkline
from tidelog.gateways.console.parts.forms import search
from tidelog.gateways.console.parts.layout import page, redirect
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, Pages, Sort, badge, table
from tidelog.gateways.http.rights import GROUP, TOPIC, visible
from tidelog.metadata.topics.names import INTERNAL

if TYPE_CHECKING:
    from tidelog.metadata.image.image import TopicImage

COLUMNS = (
    Column("Topic", key="name"),
    Column("Partitions", True, "partitions"),
    Column("Replicas", True),
    Column(
        "Messages",
        True,
        "messages",
        "The sum of the end offsets: more than the messages that retention has kept",
    ),
    Column("Messages in", True, "rate"),
    Column("Trend", hint="Messages in, over the last minutes"),
    Column("Size", True, "size", "On disk, all replicas"),
    Column("State"),
)
SORTS = frozenset(column.key for column in COLUMNS if column.key)


async def topics(console: Console, request: Request) -> Response:
    wanted, internal = query_text(request, "q"), query_text(request, "internal") == "yes"
    names = [
        name
        for name in console.around.image.topics
        if wanted.lower() in name.lower()
        and (internal or not is_internal(name))
        and visible(console.around, TOPIC, name)
    ]
    sort_by = query_text(request, "sort", "name")
    query = {key: value for key, value in (("q", wanted), ("internal", "yes" if internal else "")) if value}
    sort = Sort(
        "topics", sort_by if sort_by in SORTS else "name", query_text(request, "order") == "down", query
    )
    facts = TopicFigures(console)
    names.sort()
    if sort.by != "name":
        names.sort(key=lambda name: facts.of(sort.by, name), reverse=sort.down)
    elif sort.down:
        names.reverse()
    order = {**query, "sort": sort.by, "order": "down" if sort.down else "up"}
    pages = Pages("topics", query_number(request, "page", 1, 1, 1_000_000), len(names), order)
    rows = [_row(console, facts, console.around.image.topics[name]) for name in pages.cut(names)]
    empty = f"No topic name contains {wanted!r}." if wanted else "There are no topics yet."
    return page(
        request,
        "Topics",
        problem_of(console),
        h.div(
            _search(wanted, internal),
            h.a("Create topic", href=path("create-topic"), class_="button main"),
            class_="bar-row",
        ),
        table(COLUMNS, rows, empty, "Topics", sort),
        pages.links(),
        place="Topics",
    )


def is_internal(name: str) -> bool:
    return name in INTERNAL or name == "_schemas"


class TopicFigures:
    """Figures of topics, for the rows and for sorting."""

    def __init__(self, console: Console) -> None:
        self._topics = console.around.image.topics
        self._history = console.poller.history
        self.sizes = console.poller.snapshot.topic_sizes()

    def of(self, key: str, name: str) -> float:
        if key == "partitions":
            return len(self._topics[name].partitions)
        if key == "size":
            return self.sizes.get(name, 0)
        if key == "rate":
            return self.rate(name) or 0
        return self.messages(name) or 0

    def messages(self, name: str) -> int | None:
        ends = self._history.ends.of(name)
        return ends[-1] if ends else None

    def rates(self, name: str) -> list[float | None]:
        return self._history.rates(self._history.ends.of(name))

    def rate(self, name: str) -> float | None:
        rates = self.rates(name)
        return rates[-1] if rates else None


def _row(console: Console, facts: TopicFigures, topic: TopicImage) -> list[Child]:
    problems = list(topic_problems(console.around.image, topic))
    return [
        h.a(topic.name, href=path("topics", topic.name), class_="name"),
        count(len(topic.partitions)),
        count(len(topic.partitions[0].replicas)),
        count(facts.messages(topic.name)),
        per_second(facts.rate(topic.name)),
        sparkline(facts.rates(topic.name), f"Messages in to {topic.name} over the last minutes"),
        size(facts.sizes.get(topic.name)),
        [badge(text, severity) for severity, text in problems] or badge("OK", "good"),
    ]


def _search(wanted: str, internal: bool) -> Markup:
    box = h.label(
        h.input(type="checkbox", name="internal", value="yes", checked=internal),
        " Show internal topics",
        class_="check",
    )
    return search(path("topics"), wanted, box, length_max=249)


async def find(console: Console, request: Request) -> Response:
    """The search of every page: opens the topic or group of that name, otherwise lists the names that contain it."""
    wanted = query_text(request, "q")
    around = console.around
    names = [name for name in around.image.topics if visible(around, TOPIC, name)]
    if wanted in names:
        return redirect(path("topics", wanted))
    groups = [
        group
        for group in console.poller.snapshot.groups
        if wanted.lower() in group.group_id.lower() and visible(around, GROUP, group.group_id)
    ]
    any_topic = any(wanted.lower() in name.lower() for name in names)
    exact = [group for group in groups if group.group_id == wanted]
    if exact or (len(groups) == 1 and not any_topic):
        group = (exact or groups)[0]
        return redirect(path("shares" if group.type == "share" else "groups", "show", name=group.group_id))
    if groups and not any_topic:
        return redirect(path("groups", q=wanted))
    return redirect(path("topics", q=wanted or None))
