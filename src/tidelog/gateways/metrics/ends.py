"""Where partitions end that groups coordinated here read, whoever leads them.

Other leaders are asked once for all of theirs, and not again for a few seconds; one that does not answer in time has no
figures until it does."""

from __future__ import annotations

import asyncio

from tidelog import errors
from tidelog.gateways.http.surroundings import Surroundings
from tidelog.types import NodeId, TopicPartition
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

ANSWER_S_MAX = 1.0
AGE_MS_MAX = 5_000
LATEST = -1
ASKED_AT_ONCE = 1000
SLICE = 200


class Ends:
    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._elsewhere: dict[TopicPartition, int] = {}
        self._asked_ms: int | None = None

    def of(self, topic: str, index: int) -> int | None:
        """The committed end; None when it is not known now."""
        leader = self._around.partitions.leader_of(topic, index)
        if leader is None or leader[0] < 0:
            return None
        if leader[0] != self._around.node_id:
            return self._elsewhere.get(TopicPartition(topic, index))
        try:
            return self._around.partitions.led_here(topic, index).state.committed
        except errors.TidelogError:
            return None

    async def look(self) -> None:
        now_ms = self._around.clock.monotonic_ms()
        if self._asked_ms is not None and now_ms - self._asked_ms < AGE_MS_MAX:
            return
        self._asked_ms = now_ms
        wanted = await self._wanted()
        found: dict[TopicPartition, int] = {}
        answers = await asyncio.gather(
            *(self._ask(leader, names) for leader, names in wanted.items()), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, dict):
                found.update(answer)
        self._elsewhere = found

    async def _wanted(self) -> dict[NodeId, set[TopicPartition]]:
        around = self._around
        wanted: dict[NodeId, set[TopicPartition]] = {}
        number = 0
        for shard in around.services.groups.coordinator.shards():
            offsets = shard.machine.offsets
            for group_id in list(offsets.groups()):
                for topic, index in list(offsets.of(group_id)):
                    leader = around.partitions.leader_of(topic, index)
                    if leader is not None and leader[0] not in (-1, around.node_id):
                        wanted.setdefault(NodeId(leader[0]), set()).add(TopicPartition(topic, index))
                    number += 1
                    if number % SLICE == 0:
                        await asyncio.sleep(0)
        return wanted

    async def _ask(self, leader: NodeId, names: set[TopicPartition]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        ordered = sorted(names)
        async with asyncio.timeout(ANSWER_S_MAX):
            for at in range(0, len(ordered), ASKED_AT_ONCE):
                topics: dict[str, list[ListOffsetsPartition]] = {}
                for topic, index in ordered[at : at + ASKED_AT_ONCE]:
                    part = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
                    topics.setdefault(topic, []).append(part)
                request = ListOffsetsRequest(
                    replica_id=-1, topics=[ListOffsetsTopic(topic, parts) for topic, parts in topics.items()]
                )
                answer = await self._around.figures.peers.ask(leader, request, ListOffsetsResponse)
                for told in answer.topics:
                    for part_told in told.partitions:
                        if part_told.error_code == errors.NONE:
                            found[TopicPartition(told.name, part_told.partition_index)] = part_told.offset
        return found
