"""The topics of the cluster: found, sorted, made, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.amounts import count, size
from tidelog.gateways.console.chart import sparkline
from tidelog.gateways.console.condition import troubles
from tidelog.gateways.console.console import Console, asked, number
from tidelog.gateways.console.forms import field, form, search, sent
from tidelog.gateways.console.frame import go, page
from tidelog.gateways.console.markup import Child, Markup, h, path
from tidelog.gateways.console.overview import per_second, problem_of
from tidelog.gateways.console.table import Column, Pages, Sort, badge, card, table
from tidelog.gateways.http.problem import Problem
from tidelog.metadata.topics.names import INTERNAL

if TYPE_CHECKING:
    from tidelog.metadata.image import TopicImage

COLUMNS = (
    Column("Topic", key="name"),
    Column("Partitions", True, "partitions"),
    Column("Replicas", True),
    Column(
        "Messages", True, "messages", "What is between the ends and 0: more than is kept, after retention"
    ),
    Column("In", True, "rate"),
    Column("Last minutes"),
    Column("Size", True, "size", "On disk, all replicas"),
    Column("State"),
)
SORTS = frozenset(one.key for one in COLUMNS if one.key)


async def topics(console: Console, request: Request) -> Response:
    wanted, internal = asked(request, "q"), asked(request, "internal") == "yes"
    names = [
        name
        for name in console.around.image.topics
        if wanted.lower() in name.lower() and (internal or not is_internal(name))
    ]
    sort_by = asked(request, "sort", "name")
    query = {key: value for key, value in (("q", wanted), ("internal", "yes" if internal else "")) if value}
    sort = Sort("topics", sort_by if sort_by in SORTS else "name", asked(request, "order") == "down", query)
    facts = Facts(console)
    names.sort()
    if sort.by != "name":
        names.sort(key=lambda name: facts.of(sort.by, name), reverse=sort.down)
    elif sort.down:
        names.reverse()
    order = {**query, "sort": sort.by, "order": "down" if sort.down else "up"}
    pages = Pages("topics", number(request, "page", 1, 1, 1_000_000), len(names), order)
    rows = [_row(console, facts, console.around.image.topics[name]) for name in pages.cut(names)]
    empty = f"No topic has {wanted!r} in its name." if wanted else "There are no topics yet: make the first."
    return page(
        request,
        "Topics",
        problem_of(console),
        h.div(
            _search(wanted, internal), h.a("New topic", href="#new", class_="button main"), class_="bar-row"
        ),
        table(COLUMNS, rows, empty, "Topics", sort),
        pages.links(),
        _new(request),
        place="Topics",
    )


def is_internal(name: str) -> bool:
    return name in INTERNAL or name == "_schemas"


class Facts:
    """Figures of all topics, each kind made once."""

    def __init__(self, console: Console) -> None:
        self._topics = console.around.image.topics
        self._history = console.lookout.history
        self.sizes = console.lookout.look.topic_sizes()

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


def _row(console: Console, facts: Facts, topic: TopicImage) -> list[Child]:
    wrong = list(troubles(console.around.image, topic))
    return [
        h.a(topic.name, href=path("topics", topic.name), class_="name"),
        count(len(topic.partitions)),
        count(len(topic.partitions[0].replicas)),
        count(facts.messages(topic.name)),
        per_second(facts.rate(topic.name)),
        sparkline(facts.rates(topic.name), f"messages in to {topic.name} in the last minutes"),
        size(facts.sizes.get(topic.name)),
        [badge(words, level) for level, words in wrong] or badge("ok", "good"),
    ]


def _search(wanted: str, internal: bool) -> Markup:
    box = h.label(
        h.input(type="checkbox", name="internal", value="yes", checked=internal),
        " internal topics",
        class_="check",
    )
    return search(path("topics"), wanted, box, length_max=249)


def _new(request: Request) -> Markup:
    return card(
        form(
            request,
            path("topics"),
            field("Name", h.input(name="name", required=True, maxlength=249, pattern="[a-zA-Z0-9._\\-]+")),
            field(
                "Partitions",
                h.input(name="partitions", type="number", min=1, max=10000, placeholder="default"),
            ),
            field("Replicas", h.input(name="replicas", type="number", min=1, max=100, placeholder="default")),
            field(
                "Settings",
                h.textarea(name="settings", rows=2, placeholder="cleanup.policy=compact", spellcheck="false"),
                "one key=value on each line",
                "wide",
            ),
            h.button("Make topic", class_="main"),
            class_="grid",
        ),
        title="New topic",
        id_="new",
    )


async def create(console: Console, request: Request) -> Response:
    from tidelog.client.admin.topics import NewTopic

    given = await sent(request)
    name = given.get("name", "").strip()
    asked_for: dict[str, Any] = {"configs": settings_of(given.get("settings", ""))}
    for key, option in (("partitions", "partitions"), ("replicas", "replication_factor")):
        text = given.get(key, "").strip()
        if text:
            if not text.isdecimal():
                raise Problem(400, f"{text!r} is no number of {key}: write a whole number")
            asked_for[option] = int(text)
    await (await console.admin()).create_topics([NewTopic(name, **asked_for)])
    return go(path("topics", name), f"Topic {name} is there.")


def settings_of(text: str) -> dict[str, str]:
    """From lines of key=value."""
    settings = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise Problem(400, f"{line!r} is no setting: write key=value, one on each line")
        settings[key.strip()] = value.strip()
    return settings


async def find(console: Console, request: Request) -> Response:
    """The search of every page: straight to what bears this name, otherwise to what has it in its name."""
    wanted = asked(request, "q")
    image = console.around.image
    if wanted in image.topics:
        return go(path("topics", wanted))
    groups = [one for one in console.lookout.look.groups if wanted.lower() in one.group_id.lower()]
    topics_found = any(wanted.lower() in name.lower() for name in image.topics)
    exact = [one for one in groups if one.group_id == wanted]
    if exact or (len(groups) == 1 and not topics_found):
        one = (exact or groups)[0]
        return go(path("shares" if one.type == "share" else "groups", "show", name=one.group_id))
    if groups and not topics_found:
        return go(path("groups", q=wanted))
    return go(path("topics", q=wanted or None))
