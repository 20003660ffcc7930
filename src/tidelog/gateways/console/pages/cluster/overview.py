"""The overview: health and traffic of the cluster, with charts that refresh."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.cluster.alert_rules import AlertStatus
from tidelog.gateways.console.cluster.health import ClusterHealth, cluster_health, many
from tidelog.gateways.console.console import Console
from tidelog.gateways.console.parts.amounts import count, duration, short, size
from tidelog.gateways.console.parts.chart import Line, legend, line_chart
from tidelog.gateways.console.parts.layout import fragment, notice, page, redirect
from tidelog.gateways.console.parts.markup import Child, Markup, h, path
from tidelog.gateways.console.parts.table import Column, badge, card, figure, table
from tidelog.gateways.http.rights import sees_cluster

BUSIEST = 8  # topics and groups in a table
ALERTS_NAMED = 3


async def overview(console: Console, request: Request) -> Response:
    if not sees_cluster(console.around):
        return redirect(path("topics"))
    return page(request, "Overview", live(path("live"), _content(console)), place="Overview")


async def overview_live(console: Console, request: Request) -> Response:
    return fragment(_content(console))


def live(address: str, content: Child) -> Markup:
    """A fragment of the page that the script fetches again every few seconds."""
    return h.div(content, data_live=address)


def per_second(value: float | None) -> str:
    return "–" if value is None else f"{short(value)}/s"


def _content(console: Console) -> list[Child]:
    image = console.around.image
    history = console.poller.history
    health = cluster_health(image, console.around.config.topic_defaults.min_insync_replicas)
    severity, summary, note = health_figure(health, console.poller.alerts.firing(console.now_ms()))
    lag, stored = history.totals.of("lag"), history.totals.of("bytes")
    messages = _both(console, "messages_in", "messages_out")
    traffic = _both(console, "bytes_in", "bytes_out")
    p99_ms = [None if p99 is None else p99 / 1000 for p99 in history.totals.of("produce_p99_us")]
    now = messages[0].values[-1] if messages[0].values else None
    return [
        problem_of(console),
        h.div(
            figure("Health", summary, note, severity, path("alerts")),
            figure("Messages in", per_second(now)),
            figure("Lag", count(lag[-1]) if lag else "–", "all groups", href=path("groups")),
            figure("Stored", size(stored[-1]) if stored else "–", "all replicas"),
            figure(
                "Brokers",
                count(health.brokers),
                f"controller {image.controller if image.controller is not None else 'none'}",
                "warn" if health.missing else "",
                path("brokers"),
            ),
            figure(
                "Topics", count(health.topics), f"{count(health.partitions)} partitions", "", path("topics")
            ),
            class_="figures",
        ),
        h.div(
            _card("Messages", history.times_ms, messages, per_second),
            _card("Traffic", history.times_ms, traffic, bytes_per_second),
            _card("Lag of all groups", history.times_ms, [Line("messages", lag)]),
            _card("Produce latency (p99)", history.times_ms, [Line("p99", p99_ms)], duration),
            class_="two",
        ),
        h.div(
            card(_busiest(console), title="Busiest topics", more=h.a("All topics", href=path("topics"))),
            card(_with_lag(console), title="Groups with lag", more=h.a("All groups", href=path("groups"))),
            class_="two",
        ),
        h.p(_age(console), class_="muted small"),
    ]


def health_figure(health: ClusterHealth, firing: Sequence[AlertStatus]) -> tuple[str, str, str]:
    """Level, value and note: a problem of the cluster, otherwise the alerts that fire, otherwise that all is well."""
    severity, summary = health.summary
    if severity == "good" and firing:
        urgent = any(status.rule.severity == "P0" for status in firing)
        names = ", ".join(status.rule.name for status in firing[:ALERTS_NAMED])
        return "bad" if urgent else "warn", f"{many(len(firing), 'alert')} firing", names
    return severity, summary, f"{many(len(firing), 'alert')} firing" if firing else "no alerts firing"


def _both(console: Console, *names: str) -> list[Line]:
    return [Line(name.rpartition("_")[2], console.poller.rates(name)) for name in names]


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
    problem = console.poller.snapshot.problem
    if problem is None:
        return None
    return notice(f"Some figures are out of date: {problem}", "warn")


def _age(console: Console) -> str:
    at_ms = console.poller.snapshot.at_ms
    if not at_ms:
        return "No figures yet."
    return f"Last updated {max(0, console.now_ms() - at_ms) // 1000} s ago."


def _busiest(console: Console) -> Markup:
    history = console.poller.history
    rates = []
    for name in console.around.image.topics:
        rate = history.recent_rate(history.ends.of(name))
        if rate:
            rates.append((rate, name))
    rates.sort(reverse=True)
    rows = [(h.a(name, href=path("topics", name)), per_second(rate)) for rate, name in rates[:BUSIEST]]
    return table(
        [Column("Topic"), Column("Messages in", right=True, hint="In the last minute")],
        rows,
        "No messages were produced in the last minute.",
        "Busiest topics",
    )


def _with_lag(console: Console) -> Markup:
    snapshot = console.poller.snapshot
    states = {group.group_id: group.state for group in snapshot.groups}
    largest = sorted(((lag, name) for name, lag in snapshot.lags.items() if lag), reverse=True)[:BUSIEST]
    rows = [
        (h.a(name, href=path("groups", "show", name=name)), state_badge(states.get(name, "")), count(lag))
        for lag, name in largest
    ]
    return table(
        [Column("Group"), Column("State"), Column("Lag", right=True)],
        rows,
        "No group has lag.",
        "Groups with lag",
    )


def state_badge(state: str) -> Markup:
    levels = {"Stable": "good", "Empty": "", "Dead": "bad"}
    return badge(state or "unknown", levels.get(state, "warn"))
