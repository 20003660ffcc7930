"""A topic that is deleted and made anew again and again, and a group that has offsets of it."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

from tests.simulation.cluster.concurrent.group_clients import OFFSETS
from tests.simulation.cluster.concurrent.offset_clients import (
    check,
    group_coordinator_id,
    stable_offset,
)
from tests.simulation.cluster.survivors import Problems
from tests.simulation.cluster.world import REQUEST_TIMEOUT_MS, Cluster
from tests.simulation.invariants import Violated
from tests.simulation.transactional import Refused
from tidelog import errors
from tidelog.types import TopicPartition
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

GROUP = "fleeting"
TOPIC = "fleeting"
LIFE_S = (0.1, 0.3, 1.0)


class OffsetsStayWithTheirTopic:
    """No offset that was committed to a topic is told of the next one of its name."""


class Fleeting:
    """Only commits that were answered while one topic had the name are judged: another one may come late, to the next.

    Who asks for the offset of a name, and not of a topic's id, is told that of the topic which the coordinator knows: it
    may not have learned of the next one yet."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._owners: dict[int, UUID] = {}
        """Of each offset, a number that grows: the topic that it was committed to."""
        self._last = 0
        self._reads = 0
        cluster.survivors.on_loss.append(self._lost)

    def _lost(self, name: TopicPartition) -> None:
        """Marks of what was deleted may be gone, too."""
        if name.topic == OFFSETS:
            self._owners.clear()

    async def hire(self) -> None:
        pass

    def start(self) -> list[asyncio.Task[None]]:
        return [asyncio.ensure_future(self._run(Random(self._random.getrandbits(64))))]

    def progress(self) -> dict[str, int]:
        return {"reads": self._reads}

    async def check(self) -> Problems:
        return []

    @property
    def _topic_id(self) -> UUID | None:
        topic = self._cluster.survivors.image.topics.get(TOPIC)
        return None if topic is None else topic.id

    def _known_to(self, node: int) -> UUID | None:
        """The topic of this name in the metadata of this broker."""
        broker = self._cluster.brokers.get(node)
        topic = None if broker is None else broker._controller.image.topics.get(TOPIC)
        return None if topic is None else topic.id

    async def _run(self, random: Random) -> None:
        while True:
            for work in (self._live, self._make_anew):
                try:
                    await work(random)
                except (OSError, errors.TidelogError, Refused):
                    await asyncio.sleep(random.uniform(0.01, 0.2))

    async def _live(self, random: Random) -> None:
        if self._topic_id is None:
            await self._create()
        node = await group_coordinator_id(self._cluster, GROUP)
        requester = await self._cluster.connect(node, GROUP)
        try:
            before = self._topic_id
            by_id = random.random() < 0.5
            known = self._known_to(node)
            offset = await stable_offset(requester, GROUP, TOPIC, 0, before if by_id else None)
            if before is not None and before == self._topic_id and (by_id or known == before):
                self._told(offset, before)
            self._last += 1
            offset = self._last
            part = OffsetCommitRequestPartition(0, offset)
            request = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic(TOPIC, partitions=[part])])
            answer = await requester.ask(request, OffsetCommitResponse, version=9)
            check(answer.topics[0].partitions[0].error_code)
            if before is not None and before == self._topic_id:
                self._owners[offset] = before
        finally:
            requester.close()
        await asyncio.sleep(random.choice(LIFE_S) * random.random())

    async def _make_anew(self, random: Random) -> None:
        """Also while the group has no coordinator."""
        if random.random() < 0.5:
            delete = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=REQUEST_TIMEOUT_MS)
            await self._cluster.ask(delete, DeleteTopicsResponse, version=5)
            await self._create()

    async def _create(self) -> None:
        await self._cluster.create_topic(TOPIC, 1, {"min.insync.replicas": "2"}, watched=False)

    def _told(self, offset: int, topic_id: UUID) -> None:
        self._reads += 1
        owner = self._owners.get(offset, topic_id)
        if owner != topic_id:
            text = f"{offset} was committed to {owner}, and is told of {topic_id}"
            raise Violated([(OffsetsStayWithTheirTopic.__name__, text)])
