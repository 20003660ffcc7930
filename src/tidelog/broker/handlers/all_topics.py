"""Metadata of all topics (api 3), where there are many: described, judged and encoded some at a time.

Between two steps everybody else has a turn, so that clients that ask for 100,000 topics in a loop delay others by a
millisecond.  The router lets one such answer be made at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from time import perf_counter_ns
from typing import Any

from tidelog.broker.services import Context
from tidelog.wire.error_codes import error_codes
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.metadata_pieces import MetadataPieces

MANY = 200
"""With fewer topics the answer is made in one go."""
TOPICS_A_STEP = 20
STEP_NS = 1_000_000


def asks_for_many(request: MetadataRequest, context: Context) -> bool:
    asks_all = request.topics is None or (context.version == 0 and not request.topics)
    return asks_all and len(context.services.image().topics) > MANY


async def all_topics(
    request: MetadataRequest,
    context: Context,
    handle: Callable[[Any, Context], Awaitable[MetadataResponse]],
    failed: Callable[[Iterable[int]], None],
) -> tuple[MetadataResponse, MetadataPieces]:
    """`handle` is the handler of Metadata behind its guard; `failed` hears the error codes in the answer.

    A topic that may not be described, or was deleted meanwhile, is left out."""
    pieces, began_ns, around = MetadataPieces(context.version), perf_counter_ns(), None
    request.allow_auto_topic_creation = False
    names = iter(context.services.image().topics)
    while some := list(islice(names, TOPICS_A_STEP)):
        request.topics = [MetadataRequestTopic(name=name) for name in some]
        around = await handle(request, context)
        topics = [topic for topic in around.topics if not topic.error_code]
        pieces.add(topics)
        around.topics = topics
        failed(error_codes(around))
        if perf_counter_ns() - began_ns > STEP_NS:
            await asyncio.sleep(0)
            began_ns = perf_counter_ns()
    return around or MetadataResponse(), pieces
