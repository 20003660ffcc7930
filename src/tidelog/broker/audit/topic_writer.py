"""Writes the events of the audit trail to its topic, wherever the topic's leader is.

Events are written at least once: a batch whose answer is not known is written again.  The writer asks the partition, or
the leader's broker, directly, so that writing events makes no events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidelog import errors
from tidelog.broker.audit.trail import AuditTrail
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.coordination.internal_topic import InternalTopic, TopicShape
from tidelog.metadata.controller import Controller
from tidelog.record.builder import BatchBuilder
from tidelog.replication.commit_status import committed_within
from tidelog.replication.partitions import Partitions
from tidelog.replication.peers import Peers
from tidelog.types import NodeId
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

log = logging.getLogger("tidelog.audit.topic")

EVENTS_MAX = 500
BYTES_MAX = 256 << 10
WRITE_MS_MAX = 10_000
STOP_S_MAX = 5.0
RETRY_S, RETRY_S_MAX = 0.1, 5.0
NOBODY = -1
ACKS_ALL = -1
VERSION_BY_NAME = 12
"""The last version of Produce in which topics have names, not ids."""


class AuditTopicWriter:
    def __init__(
        self,
        node: NodeId,
        trail: AuditTrail,
        controller: Controller,
        partitions: Partitions,
        peers: Peers,
        clock: Clock,
    ) -> None:
        self._node = node
        self._trail = trail
        self._partitions = partitions
        self._peers = peers
        self._clock = clock
        config: Callable[[], BrokerConfig] = controller.config
        self._topic = InternalTopic(config().tidelog_audit_topic, controller, lambda: _shape(config()))

    async def run(self) -> None:
        retry_s = RETRY_S
        while True:
            await self._something_came()
            try:
                await self._write_all()
                retry_s = RETRY_S
            except errors.TidelogError as problem:
                await asyncio.sleep(retry_s)
                if retry_s < RETRY_S_MAX <= 2 * retry_s:  # once, until the topic can be written again
                    log.warning("cannot write %d audit events yet: %s", self._trail.queued, problem)
                retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _something_came(self) -> None:
        trail = self._trail
        if not trail.queued:
            try:
                async with asyncio.timeout(trail.window_ends_in_s()):
                    await trail.came.wait()
            except TimeoutError:
                pass
        trail.came.clear()
        if trail.window_ends_in_s() == 0:
            trail.end_window()

    async def _write_all(self) -> None:
        while self._trail.queued:
            events = self._trail.take(EVENTS_MAX, BYTES_MAX)
            try:
                await self._write(events)
            except BaseException:
                self._trail.give_back(events)
                raise

    async def _write(self, events: list[bytes]) -> None:
        await self._topic.ensure()
        builder, now_ms = BatchBuilder(), self._clock.now_ms()
        for event in events:
            builder.add(None, event, now_ms)
        batch = bytearray(builder.build())
        try:
            await self._append_here(batch)
        except errors.NotLeaderOrFollower:
            leader = self._partitions.leader_of(self._topic.name, 0)
            if leader is None or leader[0] in (NOBODY, self._node):
                raise
            await self._produce(NodeId(leader[0]), batch)

    async def _append_here(self, batch: bytearray) -> None:
        partition = self._partitions.led_here(self._topic.name, 0)
        await committed_within(partition, partition.append_own(batch), WRITE_MS_MAX)

    async def _produce(self, leader: NodeId, batch: bytearray) -> None:
        data = [
            TopicProduceData(name=self._topic.name, partition_data=[PartitionProduceData(0, bytes(batch))])
        ]
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=WRITE_MS_MAX, topic_data=data)
        connection = await self._peers.connect(leader)
        try:
            answer = await connection.ask(
                request, ProduceResponse, version=VERSION_BY_NAME, timeout_ms=2 * WRITE_MS_MAX
            )
        finally:
            connection.close()
        for topic in answer.responses:
            for part in topic.partition_responses:
                if part.error_code != errors.NONE:
                    raise errors.by_code(part.error_code)(
                        f"{self._topic.name}: broker {leader} refused audit events"
                    )

    async def stop(self) -> None:
        """Writes what is left, if that takes no longer than a moment."""
        self._trail.end_window()
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await self._write_all()
        except (TimeoutError, errors.TidelogError) as problem:
            log.warning(
                "%d audit events are in the log, but not in %s: %s",
                self._trail.queued,
                self._topic.name,
                problem or "no answer in time",
            )


def _shape(config: BrokerConfig) -> TopicShape:
    return TopicShape(
        1,
        config.tidelog_audit_topic_replication_factor,
        {
            "cleanup.policy": "delete",
            "retention.ms": str(config.tidelog_audit_topic_retention_ms),
            "retention.bytes": str(config.tidelog_audit_topic_retention_bytes),
            "unclean.leader.election.enable": "false",
        },
    )
