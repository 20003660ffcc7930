"""The alerts and their states, without Prometheus."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console
from tidelog.gateways.console.pages.cluster.overview import live, problem_of
from tidelog.gateways.console.parts.amounts import duration
from tidelog.gateways.console.parts.layout import fragment, page
from tidelog.gateways.console.parts.markup import Child, h, path
from tidelog.gateways.console.parts.table import Column, badge, figure, table

LEVELS = {"ok": "good", "pending": "warn", "firing": "bad"}
DETAILS_MAX = 20


async def alerts(console: Console, request: Request) -> Response:
    return page(
        request,
        "Alerts",
        problem_of(console),
        live(path("alerts", "live"), _content(console)),
        h.p(
            "This console evaluates the rules while a page of it is open. To be notified of alerts, load the same rules "
            "into Prometheus and Alertmanager: deploy/prometheus/tidelog.rules.yml.",
            class_="muted small",
        ),
        place="Alerts",
    )


async def alerts_live(console: Console, request: Request) -> Response:
    return fragment(_content(console))


def _content(console: Console) -> list[Child]:
    now_ms = console.now_ms()
    statuses = console.poller.alerts.statuses
    states = [status.state(now_ms) for status in statuses]
    rows: list[list[Child]] = []
    worst_first = sorted(
        statuses, key=lambda status: (-list(LEVELS).index(status.state(now_ms)), status.rule.severity)
    )
    for status in worst_first:
        rule, state = status.rule, status.state(now_ms)
        details = [h.li(detail) for detail in status.details[:DETAILS_MAX]]
        if len(status.details) > DETAILS_MAX:
            details.append(h.li(f"… {len(status.details) - DETAILS_MAX:,} more"))
        rows.append(
            [
                badge(rule.severity, {"P0": "bad", "P1": "warn"}.get(rule.severity, "")),
                [
                    h.b(rule.name),
                    h.p(rule.about, class_="muted small"),
                    h.ul(details) if details else None,
                ],
                badge(state, LEVELS[state]),
                duration(None if status.since_ms is None else now_ms - status.since_ms),
                duration(rule.after_ms) if rule.after_ms else "immediately",
            ]
        )
    columns = [
        Column("Severity"),
        Column("Alert"),
        Column("State"),
        Column("For", True),
        Column("Fires after", True),
    ]
    return [
        h.div(
            figure("Firing", states.count("firing"), severity="bad" if "firing" in states else "good"),
            figure("Pending", states.count("pending"), severity="warn" if "pending" in states else ""),
            figure("OK", states.count("ok")),
            class_="figures",
        ),
        table(columns, rows, caption="Alerts"),
    ]
