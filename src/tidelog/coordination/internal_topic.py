"""The internal topics of coordinators: creates them at first use, and maps a name to its partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from tidelog import errors
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.image import Image
from tidelog.metadata.topics.placement import replicas_max
from tidelog.metadata.topics.plans import TopicSpec

NAMES_MAX = 16_384  # names whose partition is cached


class TopicShape(NamedTuple):
    """The settings that a topic is created with."""

    partitions: int
    replication: int
    configs: Mapping[str, str]


class InternalTopic:
    def __init__(self, name: str, controller: Controller, shape: Callable[[], TopicShape]) -> None:
        self.name = name
        self._controller = controller
        self._shape = shape
        self._making = asyncio.Lock()

    def count(self, image: Image) -> int | None:
        """The number of partitions; None if the topic does not exist."""
        topic = image.topics.get(self.name)
        return None if topic is None else len(topic.partitions)

    async def ensure(self) -> int:
        """The number of partitions; creates the topic if it does not exist.  With fewer machines than its
        replication factor, it gets one replica on each of them, and the others when more brokers join
        (`metadata/internal_replicas.py`)."""
        count = self.count(self._controller.image)
        if count is not None:
            return count
        async with self._making:
            count = self.count(self._controller.image)
            return await self._make() if count is None else count

    async def _make(self) -> int:
        shape = self._shape()
        live = replicas_max(self._controller.image.placeable_brokers)
        if live == 0:
            raise errors.CoordinatorNotAvailable(
                f"{self.name} cannot be created: no broker is live yet; try again"
            )
        wanted = TopicSpec(
            self.name, shape.partitions, min(shape.replication, live), configs=dict(shape.configs)
        )
        (made,) = await self._controller.create_topics([wanted])
        if isinstance(made, errors.TidelogError) and not isinstance(made, errors.TopicAlreadyExists):
            raise errors.CoordinatorNotAvailable(f"{self.name} cannot be created: {made}")
        count = self.count(self._controller.image)
        if count is None:
            raise errors.CoordinatorNotAvailable(f"{self.name} is being created: try again")
        return count


@lru_cache(maxsize=NAMES_MAX)
def partition_for(name: str, count: int) -> int:
    """The partition that holds the state of `name`: Java's string hash, as in Kafka."""
    value = 0
    encoded = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        value = (31 * value + (encoded[at] << 8) + encoded[at + 1]) & 0xFFFFFFFF
    if value >= 1 << 31:
        value = (1 << 32) - value  # Java's Math.abs of a negative number
    return value % (1 << 31) % count  # the smallest number has no absolute value, and counts as 0
