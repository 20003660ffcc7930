"""Offsets in transactions whose coordinator is another broker than the group's: what is verified may have ended since."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.cluster.test_transactions import ManyBrokers
from tests.simulation.cluster.world import Cluster, host
from tests.simulation.transactional import find_coordinator
from tidelog import errors
from tidelog._speed.log.records import Record
from tidelog.net.requester import Requester
from tidelog.record.builder import build_batch
from tidelog.types import TopicPartition
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

pytestmark = pytest.mark.simulated

GROUP = "group"
TOPIC = "orders"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class OffsetsProducer:
    """A transactional producer that commits offsets of one group; its transactions are coordinated elsewhere."""

    def __init__(self, cluster: Cluster, adds: bool) -> None:
        self.cluster = cluster
        self.adds = adds  # speaks the versions in which a commit of offsets adds the group to the transaction
        self.id = self.epoch = -1
        self.name = ""
        self.group_node = self.coordinator_node = -1

    async def start(self) -> None:
        cluster = self.cluster
        anyone = await cluster.connect_any("client")
        request = FindCoordinatorRequest(coordinator_keys=[GROUP])
        answer = await anyone.ask(request, FindCoordinatorResponse, version=4)
        self.group_node = answer.coordinators[0].node_id
        number = 0
        while self.coordinator_node in (-1, self.group_node):
            self.name = f"producer-{number}"
            self.coordinator_node = await find_coordinator(anyone, self.name)
            number += 1
        self.coordinator: Requester = await ManyBrokers(cluster).coordinator(self.name)
        self.group: Requester = await cluster.connect(self.group_node, "client")
        begin = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        begun = await self.coordinator.ask(begin, InitProducerIdResponse)
        self.id, self.epoch = begun.producer_id, begun.producer_epoch

    async def add_group(self) -> None:
        if self.adds:
            return
        request = AddOffsetsToTxnRequest(self.name, self.id, self.epoch, GROUP)
        while True:
            answer = await self.coordinator.ask(request, AddOffsetsToTxnResponse, version=3)
            if answer.error_code != errors.ConcurrentTransactions.code:
                break
            await asyncio.sleep(0.02)
        assert answer.error_code == errors.NONE

    async def commit_offset(self, partition: int, offset: int) -> int:
        part = TxnOffsetCommitRequestPartition(partition, offset)
        request = TxnOffsetCommitRequest(
            self.name, GROUP, self.id, self.epoch, topics=[TxnOffsetCommitRequestTopic(TOPIC, [part])]
        )
        answer = await self.group.ask(request, TxnOffsetCommitResponse, version=5 if self.adds else 3)
        return answer.topics[0].partitions[0].error_code

    async def add(self, name: TopicPartition) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name.topic, [name.partition])],
        )
        answer = await self.coordinator.ask(request, AddPartitionsToTxnResponse, version=3)
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0

    async def produce(self, topic: str, partitions: list[int]) -> list[int]:
        """One request to the group's coordinator with a batch for each of these; the error codes."""
        batch = build_batch(
            [Record(0, self.cluster.clock.now_ms(), b"key", b"value")],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        parts = [PartitionProduceData(index=index, records=batch) for index in partitions]
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name=topic, partition_data=parts)],
        )
        answer = await self.group.ask(request, ProduceResponse, version=11)
        return [part.error_code for part in answer.responses[0].partition_responses]

    async def end(self, commit: bool) -> None:
        request = EndTxnRequest(self.name, self.id, self.epoch, commit)
        answer = await self.coordinator.ask(request, EndTxnResponse, version=5 if self.adds else 3)
        assert answer.error_code == errors.NONE
        if self.adds:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch

    async def transaction(self, partition: int, offset: int) -> None:
        """One that commits this offset."""
        await self.add_group()
        while await self.commit_offset(partition, offset) != errors.NONE:
            await asyncio.sleep(0.05)
        await self.end(commit=True)
        await asyncio.sleep(1)  # its markers are written


async def stable_offset(group: Requester, partition: int) -> tuple[int, int]:
    """(error code, offset), as a consumer asks that reads only what is committed."""
    topic = OffsetFetchRequestTopics(TOPIC, partition_indexes=[partition])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=[topic])], require_stable=True)
    answer = (await group.ask(request, OffsetFetchResponse, version=9)).groups[0]
    assert answer.error_code == errors.NONE
    found = answer.topics[0].partitions[0]
    return found.error_code, found.committed_offset


@pytest.mark.parametrize("adds", [False, True], ids=["added before", "added by the commit"])
@pytest.mark.parametrize("seed", range(6))
async def test_an_offset_that_was_verified_before_its_transaction_was_aborted_does_not_hang(
    random: Random, seed: int, adds: bool
) -> None:
    cluster = Cluster(random, 2, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic(TOPIC, 2, {})
    producer = OffsetsProducer(cluster, adds)
    await producer.start()
    await producer.transaction(1, 8)  # brokers are connected now
    await producer.add_group()
    # The answer to the group's coordinator and the abort's marker travel at the same time.
    cluster.network.cut(host(producer.coordinator_node), host(producer.group_node), one_way=True)
    committing = asyncio.ensure_future(producer.commit_offset(0, 7))
    await asyncio.sleep(0.1)
    await producer.end(commit=False)
    await asyncio.sleep(0.1)
    cluster.network.heal()
    await committing
    await asyncio.sleep(1)
    assert await stable_offset(producer.group, 0) == (errors.NONE, -1)
    await producer.transaction(1, 9)
    assert await stable_offset(producer.group, 1) == (errors.NONE, 9)
    assert await stable_offset(producer.group, 0) == (errors.NONE, -1)


@pytest.mark.parametrize("seed", range(6))
async def test_a_batch_beside_a_refused_one_is_not_taken_after_its_transaction_was_aborted(
    random: Random, seed: int
) -> None:
    cluster = Cluster(random, 2, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic(TOPIC, 4, {})
    producer = OffsetsProducer(cluster, adds=False)
    await producer.start()
    await producer.transaction(1, 8)  # brokers are connected now
    image = cluster.brokers[producer.group_node]._controller.image
    partitions = image.topics[TOPIC].partitions
    added, other = [part.index for part in partitions if part.leader == producer.group_node][:2]
    await producer.add(TopicPartition(TOPIC, added))
    cluster.network.cut(host(producer.coordinator_node), host(producer.group_node), one_way=True)
    producing = asyncio.ensure_future(producer.produce(TOPIC, [added, other]))
    await asyncio.sleep(0.1)
    await producer.end(commit=False)
    await asyncio.sleep(0.1)
    cluster.network.heal()
    assert (await producing)[1] != errors.NONE
    await asyncio.sleep(1)
    held = cluster.brokers[producer.group_node]._partitions.led_here(TOPIC, added)
    assert held.log.producers.first_unstable is None
