"""Group offsets in transactions whose coordinator mostly is another broker than the group's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from tests.simulation.cluster.concurrent.group_clients import OFFSETS
from tests.simulation.cluster.concurrent.transaction_clients import STATE
from tests.simulation.cluster.survivors import Problems
from tests.simulation.cluster.test_transactions import ManyBrokers
from tests.simulation.cluster.world import Cluster
from tests.simulation.invariants import Violated
from tests.simulation.transactional import Refused
from tidelog import errors
from tidelog.groups.offsets.committed import NO_TOPIC_ID
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

GROUP = "counting"
TOPIC = "counted"
PRODUCERS, PARTITIONS_EACH = 2, 2
TIMEOUTS_MS = (1_000, 3_000)


class AbortedOffsetsStayAway:
    """An offset of a transaction that was aborted is never told, and what was committed is not followed by less."""

    @classmethod
    def violated(cls, text: str) -> Violated:
        return Violated([(cls.__name__, text)])


@dataclass(slots=True)
class Ledger:
    """Offsets are numbers that grow: which transaction one is from can be seen from it."""

    last: int = 0
    promised: dict[int, int] = field(default_factory=dict)
    """By partition: the newest one whose commit was answered."""
    aborted: set[int] = field(default_factory=set)
    commits: int = 0
    reads: int = 0
    losses: int = 0

    def lost(self) -> None:
        self.losses += 1
        self.promised.clear()
        self.aborted.clear()

    def told(self, partition: int, offset: int, promised: int) -> None:
        self.reads += 1
        if offset in self.aborted:
            raise AbortedOffsetsStayAway.violated(
                f"{TOPIC}-{partition}: {offset} is of an aborted transaction"
            )
        if offset < promised:
            raise AbortedOffsetsStayAway.violated(
                f"{TOPIC}-{partition}: {promised} was committed, it is {offset}"
            )


def check(code: int) -> None:
    if code != errors.NONE:
        raise Refused(errors.by_code(code).__name__)


async def group_coordinator(cluster: Cluster, group: str) -> Requester:
    return await cluster.connect(await group_coordinator_id(cluster, group), group)


async def group_coordinator_id(cluster: Cluster, group: str) -> int:
    anyone = await cluster.connect_any(group)
    try:
        request = FindCoordinatorRequest(coordinator_keys=[group])
        found = (await anyone.ask(request, FindCoordinatorResponse, version=4)).coordinators[0]
    finally:
        anyone.close()
    check(found.error_code)
    return found.node_id


async def stable_offset(
    requester: Requester, group: str, topic: str, partition: int, topic_id: UUID | None = None
) -> int:
    """As a consumer asks that reads only what is committed; of the topic with this id, if that is given."""
    version = 9 if topic_id is None else 10
    wanted = OffsetFetchRequestTopics(topic, topic_id or NO_TOPIC_ID, [partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group, topics=[wanted])], require_stable=True
    )
    answer = (await requester.ask(request, OffsetFetchResponse, version=version)).groups[0]
    check(answer.error_code)
    part = answer.topics[0].partitions[0]
    check(part.error_code)
    return part.committed_offset


@dataclass(slots=True)
class OffsetsProducer:
    """`adds`: it speaks the versions in which a commit of offsets adds the group to the transaction."""

    cluster: Cluster
    random: Random
    ledger: Ledger
    number: int
    adds: bool
    _id: int = -1
    _epoch: int = -1

    @property
    def name(self) -> str:
        return f"offsets-{self.number}"

    async def run(self) -> None:
        """Until cancelled.  After whatever was not answered it begins anew, so that nothing of it comes late."""
        while True:
            try:
                await self._live()
            except (OSError, errors.TidelogError, Refused):
                await asyncio.sleep(self.random.uniform(0.01, 0.3))

    async def _live(self) -> None:
        coordinator = await ManyBrokers(self.cluster).coordinator(self.name)
        group: Requester | None = None
        try:
            group = await group_coordinator(self.cluster, GROUP)
            timeout_ms = await self._begin(coordinator)
            while coordinator.broken is None and group.broken is None:
                await self._transaction(coordinator, group, timeout_ms)
                await asyncio.sleep(self.random.choice((0.0, 0.1)) * self.random.random())
        finally:
            coordinator.close()
            if group is not None:
                group.close()

    async def _begin(self, coordinator: Requester) -> int:
        timeout_ms = self.random.choice(TIMEOUTS_MS)
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms)
        while True:
            answer = await coordinator.ask(request, InitProducerIdResponse)
            if answer.error_code != errors.ConcurrentTransactions.code:
                break
            await asyncio.sleep(0.05)
        check(answer.error_code)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch
        return timeout_ms

    async def _transaction(self, coordinator: Requester, group: Requester, timeout_ms: int) -> None:
        ledger, random = self.ledger, self.random
        ledger.last += 1
        partition = self.number * PARTITIONS_EACH + random.randrange(PARTITIONS_EACH)
        offset, losses = ledger.last, ledger.losses
        if not self.adds:
            await self._add_group(coordinator)
        if random.random() < 0.1:  # it takes about as long as it may
            await asyncio.sleep(timeout_ms / 1000 * random.uniform(0.9, 1.4))
        committing = asyncio.ensure_future(self._commit_offset(group, partition, offset))
        try:
            commit = random.random() < 0.5
            if commit:
                check(await committing)
            else:
                await asyncio.wait([committing], timeout=random.choice((0.0, 0.005, 0.1)))
                ledger.aborted.add(offset)
            await self._end(coordinator, commit)
            if commit and losses == ledger.losses:
                ledger.promised[partition] = offset
                ledger.commits += 1
            if not commit:
                await committing
        finally:
            committing.cancel()
            await asyncio.gather(committing, return_exceptions=True)

    async def _add_group(self, coordinator: Requester) -> None:
        request = AddOffsetsToTxnRequest(self.name, self._id, self._epoch, GROUP)
        while True:
            answer = await coordinator.ask(request, AddOffsetsToTxnResponse, version=3)
            if answer.error_code != errors.ConcurrentTransactions.code:
                break
            await asyncio.sleep(0.02)
        check(answer.error_code)

    async def _commit_offset(self, group: Requester, partition: int, offset: int) -> int:
        part = TxnOffsetCommitRequestPartition(partition, offset)
        request = TxnOffsetCommitRequest(
            self.name, GROUP, self._id, self._epoch, topics=[TxnOffsetCommitRequestTopic(TOPIC, [part])]
        )
        answer = await group.ask(request, TxnOffsetCommitResponse, version=5 if self.adds else 3)
        return answer.topics[0].partitions[0].error_code

    async def _end(self, coordinator: Requester, commit: bool) -> None:
        request = EndTxnRequest(self.name, self._id, self._epoch, commit)
        answer = await coordinator.ask(request, EndTxnResponse, version=5 if self.adds else 3)
        check(answer.error_code)
        if self.adds:
            self._id, self._epoch = answer.producer_id, answer.producer_epoch


class TransactionalOffsets:
    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self.ledger = Ledger()
        self.producers = [
            OffsetsProducer(
                cluster, Random(random.getrandbits(64)), self.ledger, number, random.random() < 0.4
            )
            for number in range(PRODUCERS)
        ]
        cluster.survivors.on_loss.append(self._lost)

    def _lost(self, name: TopicPartition) -> None:
        if name.topic in (OFFSETS, STATE):
            self.ledger.lost()

    async def hire(self) -> None:
        count = PRODUCERS * PARTITIONS_EACH
        await self._cluster.create_topic(TOPIC, count, {"min.insync.replicas": "2"}, watched=False)

    def start(self) -> list[asyncio.Task[None]]:
        work = [producer.run() for producer in self.producers]
        return [
            asyncio.ensure_future(each) for each in (*work, self._read(Random(self._random.getrandbits(64))))
        ]

    async def _read(self, random: Random) -> None:
        while True:
            await asyncio.sleep(random.random() / 4)
            try:
                await self._look(random.randrange(PRODUCERS * PARTITIONS_EACH))
            except (OSError, errors.TidelogError, Refused):
                continue

    async def _look(self, partition: int) -> None:
        requester = await group_coordinator(self._cluster, GROUP)
        try:
            promised, losses = self.ledger.promised.get(partition, -1), self.ledger.losses
            offset = await stable_offset(requester, GROUP, TOPIC, partition)
            if losses == self.ledger.losses:
                self.ledger.told(partition, offset, promised)
        finally:
            requester.close()

    def progress(self) -> dict[str, int]:
        return {"commits": self.ledger.commits, "reads": self.ledger.reads}

    async def check(self) -> Problems:
        return []
