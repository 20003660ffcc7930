"""The console: every page and every deed, by address."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tidelog.gateways.console import files, messages, overview, produce, settings, tail, topic, topics
from tidelog.gateways.console.console import Console
from tidelog.gateways.console.frame import refused
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
        files.route(),
        console.page("/console/{rest:path}", nowhere),
    ]


async def nowhere(console: Console, request: Request) -> Response:
    return refused(request, "Not there", f"There is no page at {request.url.path}.", 404)
