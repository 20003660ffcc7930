"""Metadata of very many topics is answered in steps, between which others have their turn."""

from __future__ import annotations

import asyncio
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.broker.handlers import all_topics as module
from tidelog.broker.handlers.all_topics import all_topics, asks_for_many
from tidelog.broker.services import Context
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

TOPICS = 1_000


def context(count: int = TOPICS) -> Context:
    image = SimpleNamespace(topics={f"topic-{number}": None for number in range(count)})
    return cast(Context, SimpleNamespace(services=SimpleNamespace(image=lambda: image), version=12))


async def describe(request: Any, _: Any) -> MetadataResponse:
    """Every tenth topic may not be described."""
    began_ns = perf_counter_ns()
    while perf_counter_ns() - began_ns <= module.STEP_NS:
        pass  # as long as a step may take
    topics = [
        MetadataResponseTopic(name=topic.name, error_code=29 if topic.name.endswith("0") else 0)
        for topic in request.topics
    ]
    return MetadataResponse(cluster_id="cluster", topics=topics)


async def test_others_have_a_turn_between_steps() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    codes: list[int] = []
    around, pieces = await all_topics(MetadataRequest(topics=None), context(), describe, codes.extend)
    beside.cancel()
    assert turns >= TOPICS / module.TOPICS_A_STEP
    answer = MetadataResponse.decode(b"".join(pieces.finish(around)), 12)
    assert len(answer.topics) == TOPICS * 9 // 10
    assert answer.cluster_id == "cluster"
    assert not codes, "who may not see a topic is not told of it, and nobody counts it as an error"


@pytest.mark.parametrize(
    ("topics", "count", "expected"),
    [(None, TOPICS, True), (None, module.MANY, False), ([], TOPICS, False), (["a"], TOPICS, False)],
)
def test_few_topics_are_answered_in_one_go(topics: list[str] | None, count: int, expected: bool) -> None:
    asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    assert asks_for_many(MetadataRequest(topics=asked), context(count)) == expected
