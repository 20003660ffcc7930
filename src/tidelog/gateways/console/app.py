"""The console: the address of every page and action."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tidelog.gateways.console import static_files
from tidelog.gateways.console.console import Console
from tidelog.gateways.console.pages import login, settings, tenants
from tidelog.gateways.console.pages.cluster import alerts, broker, brokers, clients, overview, planner
from tidelog.gateways.console.pages.groups import group, group_reset, groups, share_group, share_groups
from tidelog.gateways.console.pages.schemas import register_schema, schemas, subject
from tidelog.gateways.console.pages.topics import (
    create_topic,
    message,
    messages,
    produce,
    tail,
    topic,
    topics,
)
from tidelog.gateways.console.pages.transactions import transaction, transactions
from tidelog.gateways.console.parts.layout import error_page
from tidelog.gateways.http.services import GatewayServices


def routes(around: GatewayServices) -> list[BaseRoute]:
    console = Console(around)
    return [
        console.page("/", overview.overview),
        console.page("/console", overview.overview),
        console.page("/console/live", overview.overview_live),
        console.page("/console/find", topics.find),
        console.page("/console/create-topic", create_topic.show),
        console.page("/console/topics", topics.topics),
        console.action("/console/topics", create_topic.create),
        console.page("/console/topics/{topic}", topic.topic),
        console.page("/console/topics/{topic}/live", topic.topic_live),
        console.action("/console/topics/{topic}/partitions", topic.add_partitions),
        console.action("/console/topics/{topic}/delete", topic.delete),
        console.page("/console/topics/{topic}/messages", messages.messages),
        console.page("/console/topics/{topic}/messages/{partition:int}/{offset:int}", message.message),
        console.page("/console/topics/{topic}/tail", tail.tail),
        console.page("/console/topics/{topic}/tail/events", tail.events),
        console.page("/console/topics/{topic}/settings", settings.topic_settings),
        console.page("/console/topics/{topic}/produce", produce.produce),
        console.action("/console/topics/{topic}/produce", produce.write),
        console.action("/console/settings", settings.change),
        console.page("/console/groups", groups.groups),
        console.page("/console/groups/show", group.group),
        console.page("/console/groups/live", group.group_live),
        console.page("/console/groups/settings", group.group_settings),
        console.action("/console/groups/delete", group.delete),
        console.action("/console/groups/remove", group.remove),
        console.page("/console/groups/reset", group_reset.preview),
        console.action("/console/groups/reset", group_reset.execute),
        console.page("/console/shares", share_groups.shares),
        console.page("/console/shares/show", share_group.share),
        console.page("/console/shares/live", share_group.share_live),
        console.peer("/console/peer/shares", share_group.peer_shares),
        console.page("/console/tenants", tenants.tenants),
        console.page("/console/transactions", transactions.transactions),
        console.page("/console/transactions/show", transaction.transaction),
        console.action("/console/transactions/abort", transaction.abort),
        console.page("/console/schemas", schemas.schemas),
        console.page("/console/register-schema", register_schema.show),
        console.action("/console/schemas", register_schema.register),
        console.page("/console/schemas/show", subject.subject),
        console.action("/console/schemas/try", subject.try_out),
        console.action("/console/schemas/compatibility", subject.set_compatibility),
        console.action("/console/schemas/delete", subject.delete),
        console.page("/console/brokers", brokers.brokers),
        console.page("/console/brokers/live", brokers.brokers_live),
        console.page("/console/brokers/{node:int}", broker.broker),
        console.peer("/console/peer/process", brokers.peer_process),
        console.page("/console/clients", clients.clients),
        console.page("/console/clients/show", clients.client),
        console.peer("/console/peer/clients", clients.peer_clients),
        console.page("/console/alerts", alerts.alerts),
        console.page("/console/alerts/live", alerts.alerts_live),
        console.page("/console/plan", planner.planner),
        *login.routes(console),
        console.action("/console/logout", login.log_out),
        static_files.route(),
        console.page("/console/{rest:path}", not_found),
    ]


async def not_found(console: Console, request: Request) -> Response:
    return error_page(request, "Not found", f"There is no page at {request.url.path}.", 404)
