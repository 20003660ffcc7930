"""The first page: how the cluster is and what it does, with charts that move."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.cluster.health import condition, many
from tidelog.gateways.console.console import Console
from tidelog.gateways.console.parts.amounts import count, duration, short, size
from tidelog.gateways.console.parts.chart import Line, legend, line_chart
from tidelog.gateways.console.parts.layout import notice, page, part
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, badge, card, figure, table

BUSIEST = 8


async def overview(console: Console, request: Request) -> Response:
    return page(request, "Overview", live(path("live"), _content(console)), place="Overview")


async def overview_live(console: Console, request: Request) -> Response:
    return part(_content(console))


def live(address: str, content: Child) -> Markup:
    """A piece of the page that is fetched anew every few seconds."""
    return h.div(content, data_live=address)


def per_second(value: float | None) -> str:
    return "–" if value is None else f"{short(value)}/s"


def _content(console: Console) -> list[Child]:
    image = console.around.image
    history, look = console.lookout.history, console.lookout.look
    found = condition(image, console.around.config.topic_defaults.min_insync_replicas)
    level, words = found.words
    firing = len(console.lookout.alerts.firing(console.now_ms()))
    lag, stored = history.totals.of("lag"), history.totals.of("bytes")
    messages = _both(console, "messages_in", "messages_out")
    traffic = _both(console, "bytes_in", "bytes_out")
    waits = [None if one is None else one / 1000 for one in history.totals.of("produce_p99_us")]
    now = messages[0].values[-1] if messages[0].values else None
    return [
        problem_of(console),
        h.div(
            figure("Health", words, f"{many(firing, 'alert')} firing", level, path("alerts")),
            figure("Messages in", per_second(now)),
            figure("Lag", count(lag[-1]) if lag else "–", "messages, all groups", href=path("groups")),
            figure("Stored", size(stored[-1]) if stored else "–", "all replicas"),
            figure(
                "Brokers",
                count(found.brokers),
                f"controller {image.controller if image.controller is not None else 'none'}",
                "warn" if found.missing else "",
                path("brokers"),
            ),
            figure(
                "Topics", count(found.topics), f"{count(found.partitions)} partitions", "", path("topics")
            ),
            class_="figures",
        ),
        h.div(
            _card("Messages", history.times_ms, messages, per_second),
            _card("Traffic", history.times_ms, traffic, bytes_per_second),
            _card("Lag of all groups", history.times_ms, [Line("messages", lag)]),
            _card("Produce, 99 of 100 within", history.times_ms, [Line("p99", waits)], duration),
            class_="two",
        ),
        h.div(
            card(_busiest(console), title="Busiest topics", more=h.a("All topics", href=path("topics"))),
            card(_behind(console), title="Groups behind", more=h.a("All groups", href=path("groups"))),
            class_="two",
        ),
        h.p(f"Figures of {(look.at_ms and _seconds(console)) or 'no'} ago.", class_="muted small"),
    ]


def _both(console: Console, *names: str) -> list[Line]:
    return [Line(name.rpartition("_")[2], console.lookout.rates(name)) for name in names]


def bytes_per_second(value: float | None) -> str:
    return "–" if value is None else f"{size(value)}/s"


def _card(
    title: str,
    times_ms: Sequence[int],
    lines: Sequence[Line],
    shown: Callable[[float | None], str] = short,
) -> Markup:
    unit = 1024 if shown is bytes_per_second else 10
    return card(line_chart(title, times_ms, lines, shown, unit=unit), legend(lines, shown), title=title)


def problem_of(console: Console) -> Markup | None:
    problem = console.lookout.look.problem
    if problem is None:
        return None
    return notice(f"Not all figures are new: {problem}", "warn")


def _seconds(console: Console) -> str:
    seconds = max(0, console.now_ms() - console.lookout.look.at_ms) // 1000
    return f"{seconds} s"


def _busiest(console: Console) -> Markup:
    history = console.lookout.history
    now = []
    for name in console.around.image.topics:
        rate = history.rate_of_late(history.ends.of(name))
        if rate:
            now.append((rate, name))
    now.sort(reverse=True)
    rows = [(h.a(name, href=path("topics", name)), per_second(rate)) for rate, name in now[:BUSIEST]]
    return table(
        [Column("Topic"), Column("Messages in", right=True, hint="In the last minute")],
        rows,
        "Nothing was produced in the last minute.",
        "Busiest topics",
    )


def _behind(console: Console) -> Markup:
    look = console.lookout.look
    states = {one.group_id: one.state for one in look.groups}
    most = sorted(((lag, name) for name, lag in look.lags.items() if lag), reverse=True)[:BUSIEST]
    rows = [
        (h.a(name, href=path("groups", "show", name=name)), state_badge(states.get(name, "")), count(lag))
        for lag, name in most
    ]
    return table(
        [Column("Group"), Column("State"), Column("Lag", right=True)],
        rows,
        "No group is behind.",
        "Groups that are behind",
    )


def state_badge(state: str) -> Markup:
    levels = {"Stable": "good", "Empty": "", "Dead": "bad"}
    return badge(state or "unknown", levels.get(state, "warn"))
