"""Members of a share group: each takes records, accepts them, and is told once that this is stored.

A record whose acceptance was confirmed is never given out again; every acknowledged record is given out at least once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from tests.simulation.cluster.concurrent.machines import together
from tests.simulation.cluster.world import Cluster
from tests.simulation.invariants import Violated
from tests.simulation.readers import records_of
from tidelog import errors
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages import share_acknowledge, share_fetch
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from tidelog.wire.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse
from tidelog.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

GROUP = "sharing"
ACCEPT = 1
BEAT_S = 0.5
FORGOTTEN = {errors.UnknownMemberId.code, errors.FencedMemberEpoch.code, errors.GroupIdNotFound.code}


class AcceptedNeverAgain:
    """A record whose acceptance was confirmed before it was asked for is not given out."""

    @classmethod
    def check(cls, name: TopicPartition, offset: int, confirmed_ms: int | None, asked_ms: int) -> None:
        if confirmed_ms is not None and confirmed_ms < asked_ms:
            text = (
                f"{name}: {offset} was accepted at {confirmed_ms} ms and given out again after {asked_ms} ms"
            )
            raise Violated([(cls.__name__, text)])


@dataclass(slots=True)
class Taken:
    """What members were given and told."""

    delivered: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)
    confirmed: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    """When the acceptance of a record was confirmed."""
    accepted: int = 0
    losses: int = 0

    def lost(self) -> None:
        self.confirmed.clear()
        self.delivered.clear()
        self.losses += 1


@dataclass(slots=True)
class ShareMember:
    cluster: Cluster
    random: Random
    number: int
    topic: str
    taken: Taken
    epoch: int = 0
    assigned: list[tuple[UUID, int]] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    """Why heartbeats and sessions failed, for whoever looks at a run."""

    @property
    def member_id(self) -> str:
        return str(UUID(int=self.number + 1))

    async def run(self) -> None:
        await together(self._stay(), self._take())

    # Membership

    async def _stay(self) -> None:
        while True:
            connection: Requester | None = None
            try:
                connection = await self._coordinator()
                while True:
                    await self._beat(connection)
                    await asyncio.sleep(BEAT_S * self.random.random())
            except (OSError, errors.TidelogError) as problem:
                self.refusals[f"beat: {type(problem).__name__}"] += 1
                await asyncio.sleep(self.random.random() / 2)
            finally:
                if connection is not None:
                    connection.close()

    async def _coordinator(self) -> Requester:
        anyone = await self.cluster.connect_any("share")
        try:
            request = FindCoordinatorRequest(coordinator_keys=[GROUP])
            found = (await anyone.ask(request, FindCoordinatorResponse, version=4)).coordinators[0]
        finally:
            anyone.close()
        _check(found.error_code)
        return await self.cluster.connect(found.node_id, "share")

    async def _beat(self, connection: Requester) -> None:
        topics = [self.topic] if self.epoch == 0 else None
        request = ShareGroupHeartbeatRequest(GROUP, self.member_id, self.epoch, None, topics)
        answer = await connection.ask(request, ShareGroupHeartbeatResponse)
        if answer.error_code in FORGOTTEN:
            self.epoch = 0
        _check(answer.error_code)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = [
                (topic.topic_id, index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            ]

    # Records

    async def _take(self) -> None:
        while True:
            if self.assigned:
                topic_id, index = self.random.choice(self.assigned)
                try:
                    await self._session(topic_id, TopicPartition(self.topic, index))
                except (OSError, errors.TidelogError) as problem:
                    self.refusals[f"session: {type(problem).__name__}"] += 1
            await asyncio.sleep(self.random.random() / 4)

    async def _session(self, topic_id: UUID, name: TopicPartition) -> None:
        """One share session with the leader of a partition, for a few fetches."""
        node = await self.cluster.find_leader(name, "share")
        connection = await self.cluster.connect(node, "share")
        try:
            session = 0
            for _ in range(self.random.choice((2, 5))):
                asked_ms, losses = self.cluster.clock.monotonic_ms(), self.taken.losses
                leads = self.cluster.stored(name)
                part = await self._fetch(connection, topic_id, name, session)
                session += 1
                # A broker that does not lead any more and has not heard of it may give out what others have accepted.
                still = leads is not None and leads.leader == node and leads == self.cluster.stored(name)
                offsets = self._given(name, part, asked_ms if still else -1, losses)
                if offsets and self.random.random() < 0.9:
                    await self._accept(connection, topic_id, name, session, offsets)
                    session += 1
            await self._fetch(connection, topic_id, name, -1)
        finally:
            connection.close()

    async def _fetch(
        self, connection: Requester, topic_id: UUID, name: TopicPartition, session: int
    ) -> PartitionData | None:
        topics = [share_fetch.FetchTopic(topic_id, [share_fetch.FetchPartition(name.partition, [])])]
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=session,
            max_wait_ms=0 if session < 0 else 300,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=self.random.choice((20, 200)),
            batch_size=200,
            topics=topics if session == 0 else [],
        )
        answer = await connection.ask(request, ShareFetchResponse, version=2)
        _check(answer.error_code)
        parts = [part for topic in answer.responses for part in topic.partitions]
        for part in parts:
            _check(part.error_code)
        return parts[0] if parts else None

    def _given(
        self, name: TopicPartition, part: PartitionData | None, asked_ms: int, losses: int
    ) -> list[int]:
        if part is None or losses != self.taken.losses:
            return []
        records = dict(records_of(part, 0)[0])  # type: ignore[arg-type]
        offsets = [
            offset for run in part.acquired_records for offset in range(run.first_offset, run.last_offset + 1)
        ]
        for offset in offsets:
            AcceptedNeverAgain.check(name, offset, self.taken.confirmed.get((name, offset)), asked_ms)
            if offset in records:
                self.taken.delivered.setdefault(name, {})[offset] = records[offset]
        return offsets

    async def _accept(
        self, connection: Requester, topic_id: UUID, name: TopicPartition, session: int, offsets: list[int]
    ) -> None:
        losses = self.taken.losses
        batch = share_acknowledge.AcknowledgementBatch(offsets[0], offsets[-1], [ACCEPT])
        part = share_acknowledge.AcknowledgePartition(name.partition, [batch])
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=session,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id, [part])],
        )
        answer = await connection.ask(request, ShareAcknowledgeResponse, version=2)
        _check(answer.error_code)
        for topic in answer.responses:
            for told in topic.partitions:
                _check(told.error_code)
        if losses == self.taken.losses:
            now_ms = self.cluster.clock.monotonic_ms()
            self.taken.confirmed.update({(name, offset): now_ms for offset in offsets})
        self.taken.accepted += len(offsets)


def _check(code: int) -> None:
    if code != errors.NONE:
        raise errors.by_code(code)()
