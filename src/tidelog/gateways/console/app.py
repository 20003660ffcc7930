"""The console: every page and every deed, by address."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tidelog.gateways.console import static_files
from tidelog.gateways.console.console import Console
from tidelog.gateways.console.pages import (
    alerts,
    brokers,
    group_reset,
    groups,
    messages,
    overview,
    planner,
    produce,
    schemas,
    settings,
    share_groups,
    tail,
    topic,
    topics,
    transactions,
)
from tidelog.gateways.console.parts.layout import refused
from tidelog.gateways.http.surroundings import Surroundings


def routes(around: Surroundings) -> list[BaseRoute]:
    console = Console(around)
    return [
        console.page("/", overview.overview),
        console.page("/console", overview.overview),
        console.page("/console/live", overview.overview_live),
        console.page("/console/find", topics.find),
        console.page("/console/topics", topics.topics),
        console.deed("/console/topics", topics.create),
        console.page("/console/topics/{topic}", topic.topic),
        console.page("/console/topics/{topic}/live", topic.topic_live),
        console.deed("/console/topics/{topic}/partitions", topic.add_partitions),
        console.deed("/console/topics/{topic}/delete", topic.delete),
        console.page("/console/topics/{topic}/messages", messages.messages),
        console.page("/console/topics/{topic}/messages/{partition:int}/{offset:int}", messages.message),
        console.page("/console/topics/{topic}/tail", tail.tail),
        console.page("/console/topics/{topic}/tail/events", tail.events),
        console.page("/console/topics/{topic}/settings", settings.topic_settings),
        console.page("/console/topics/{topic}/produce", produce.produce),
        console.deed("/console/topics/{topic}/produce", produce.write),
        console.deed("/console/settings", settings.change),
        console.page("/console/groups", groups.groups),
        console.page("/console/groups/show", groups.group),
        console.page("/console/groups/live", groups.group_live),
        console.page("/console/groups/settings", groups.group_settings),
        console.deed("/console/groups/delete", groups.delete),
        console.deed("/console/groups/remove", groups.remove),
        console.page("/console/groups/reset", group_reset.preview),
        console.deed("/console/groups/reset", group_reset.execute),
        console.page("/console/shares", share_groups.shares),
        console.page("/console/shares/show", share_groups.share),
        console.page("/console/shares/live", share_groups.share_live),
        console.peer("/console/peer/shares", share_groups.peer_shares),
        console.page("/console/transactions", transactions.transactions),
        console.page("/console/transactions/show", transactions.transaction),
        console.deed("/console/transactions/abort", transactions.abort),
        console.page("/console/schemas", schemas.schemas),
        console.deed("/console/schemas", schemas.register),
        console.page("/console/schemas/show", schemas.schema),
        console.deed("/console/schemas/try", schemas.try_out),
        console.deed("/console/schemas/compatibility", schemas.set_compatibility),
        console.deed("/console/schemas/delete", schemas.delete),
        console.page("/console/brokers", brokers.brokers),
        console.page("/console/brokers/live", brokers.brokers_live),
        console.page("/console/brokers/{node:int}", brokers.broker),
        console.peer("/console/peer/process", brokers.peer_process),
        console.page("/console/alerts", alerts.alerts),
        console.page("/console/alerts/live", alerts.alerts_live),
        console.page("/console/plan", planner.planner),
        static_files.route(),
        console.page("/console/{rest:path}", nowhere),
    ]


async def nowhere(console: Console, request: Request) -> Response:
    return refused(request, "Not there", f"There is no page at {request.url.path}.", 404)
