"""The alerts as they stand, without a Prometheus."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.console import Console
from tidelog.gateways.console.pages.overview import live, problem_of
from tidelog.gateways.console.parts.amounts import duration
from tidelog.gateways.console.parts.layout import page, part
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
            "Worked out by this console from what it sees, while somebody looks. For alerts that reach people, "
            "Prometheus and AlertManager take the same rules from the folder deploy.",
            class_="muted small",
        ),
        place="Alerts",
    )


async def alerts_live(console: Console, request: Request) -> Response:
    return part(_content(console))


def _content(console: Console) -> list[Child]:
    now_ms = console.now_ms()
    standings = console.lookout.alerts.standings
    states = [one.state(now_ms) for one in standings]
    rows: list[list[Child]] = []
    worst_first = sorted(
        standings, key=lambda one: (-list(LEVELS).index(one.state(now_ms)), one.rule.severity)
    )
    for one in worst_first:
        state = one.state(now_ms)
        details = [h.li(detail) for detail in one.details[:DETAILS_MAX]]
        if len(one.details) > DETAILS_MAX:
            details.append(h.li(f"… {len(one.details) - DETAILS_MAX:,} more"))
        rows.append(
            [
                badge(one.rule.severity, {"P0": "bad", "P1": "warn"}.get(one.rule.severity, "")),
                [
                    h.b(one.rule.name),
                    h.p(one.rule.about, class_="muted small"),
                    h.ul(details) if details else None,
                ],
                badge(state, LEVELS[state]),
                duration(None if one.since_ms is None else now_ms - one.since_ms),
                duration(one.rule.after_ms) if one.rule.after_ms else "at once",
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
            figure("Firing", states.count("firing"), level="bad" if "firing" in states else "good"),
            figure("Pending", states.count("pending"), level="warn" if "pending" in states else ""),
            figure("Well", states.count("ok")),
            class_="figures",
        ),
        table(columns, rows, caption="Alerts"),
    ]
