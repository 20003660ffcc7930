"""First and end offsets of the partitions that groups coordinated here read, whichever broker leads them.

Another leader is asked once for all of its partitions, and not again for a few seconds; partitions of a leader that does
not answer in time have no figures until it does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tidelog import errors
from tidelog.gateways.http.services import GatewayServices
from tidelog.types import NodeId, TopicPartition
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

ANSWER_S_MAX = 1.0
AGE_MS_MAX = 5_000
LATEST, EARLIEST = -1, -2
ASKED_AT_ONCE = 1000
SLICE = 200


class PartitionEnds:
    def __init__(self, around: GatewayServices) -> None:
        self._around = around
        self._elsewhere: dict[TopicPartition, int] = {}
        self._starts_elsewhere: dict[TopicPartition, int] = {}
        self._asked_ms: int | None = None

    def of(self, topic: str, index: int) -> int | None:
        """The high watermark; None when it is not known now."""
        if self._led_here(topic, index):
            try:
                return self._around.partitions.led_here(topic, index).state.committed
            except errors.TidelogError:
                return None
        return self._elsewhere.get(TopicPartition(topic, index))

    def start_of(self, topic: str, index: int) -> int | None:
        """The first offset, of partitions that share groups read."""
        if self._led_here(topic, index):
            try:
                return self._around.partitions.led_here(topic, index).log.start
            except errors.TidelogError:
                return None
        return self._starts_elsewhere.get(TopicPartition(topic, index))

    def _led_here(self, topic: str, index: int) -> bool:
        leader = self._around.partitions.leader_of(topic, index)
        return leader is not None and leader[0] == self._around.node_id

    async def look(self) -> None:
        now_ms = self._around.clock.monotonic_ms()
        if self._asked_ms is not None and now_ms - self._asked_ms < AGE_MS_MAX:
            return
        self._asked_ms = now_ms
        shared = await self._led_elsewhere(self._shared())
        wanted = await self._led_elsewhere(self._committed())
        for leader, names in shared.items():
            wanted.setdefault(leader, set()).update(names)
        self._elsewhere, self._starts_elsewhere = await asyncio.gather(
            self._ask_all(wanted, LATEST), self._ask_all(shared, EARLIEST)
        )

    def _committed(self) -> Iterator[TopicPartition]:
        for shard in self._around.services.groups.coordinator.shards():
            offsets = shard.machine.offsets
            for group_id in list(offsets.groups()):
                yield from (TopicPartition(topic, index) for topic, index in list(offsets.of(group_id)))

    def _shared(self) -> Iterator[TopicPartition]:
        names = self._around.image.names
        for shard in self._around.services.share_shards.coordinator.shards():
            for key in list(shard.machine.states):
                if key.topic_id in names:
                    yield TopicPartition(names[key.topic_id], key.partition)

    async def _led_elsewhere(self, partitions: Iterator[TopicPartition]) -> dict[NodeId, set[TopicPartition]]:
        around = self._around
        by_leader: dict[NodeId, set[TopicPartition]] = {}
        for number, (topic, index) in enumerate(partitions, 1):
            leader = around.partitions.leader_of(topic, index)
            if leader is not None and leader[0] not in (-1, around.node_id):
                by_leader.setdefault(NodeId(leader[0]), set()).add(TopicPartition(topic, index))
            if number % SLICE == 0:
                await asyncio.sleep(0)
        return by_leader

    async def _ask_all(
        self, wanted: dict[NodeId, set[TopicPartition]], time: int
    ) -> dict[TopicPartition, int]:
        answers = await asyncio.gather(
            *(self._ask(leader, names, time) for leader, names in wanted.items()), return_exceptions=True
        )
        offsets: dict[TopicPartition, int] = {}
        for answer in answers:
            if isinstance(answer, dict):
                offsets.update(answer)
        return offsets

    async def _ask(self, leader: NodeId, names: set[TopicPartition], time: int) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        ordered = sorted(names)
        async with asyncio.timeout(ANSWER_S_MAX):
            for at in range(0, len(ordered), ASKED_AT_ONCE):
                topics: dict[str, list[ListOffsetsPartition]] = {}
                for topic, index in ordered[at : at + ASKED_AT_ONCE]:
                    part = ListOffsetsPartition(partition_index=index, timestamp=time)
                    topics.setdefault(topic, []).append(part)
                request = ListOffsetsRequest(
                    replica_id=-1, topics=[ListOffsetsTopic(topic, parts) for topic, parts in topics.items()]
                )
                answer = await self._around.figures.peers.ask(leader, request, ListOffsetsResponse)
                for listed in answer.topics:
                    for partition in listed.partitions:
                        if partition.error_code == errors.NONE:
                            offsets[TopicPartition(listed.name, partition.partition_index)] = partition.offset
        return offsets
