"""Simulated transactional producers and readers of what they committed.

A producer writes to all partitions in each transaction and notes how it meant to end it and what it was told.  What a
reader may find follows from that: all of what was committed, nothing of what was aborted, and of a transaction whose
end was asked for and never answered, all or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Protocol

from tests.simulation.invariants import Violated
from tests.simulation.world import REQUEST_TIMEOUT_MS, World
from tidelog import errors
from tidelog._speed.log.records import Record
from tidelog.net.requester import Requester
from tidelog.record.builder import Marker, build_batch, read_marker
from tidelog.record.reader import read_batches
from tidelog.testing import VirtualClock
from tidelog.types import TopicPartition
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

TRANSACTION = 1
READ_COMMITTED = 1
BYTES_MAX = 1 << 20
PROGRESS_S_MAX = 120


class Outcome(Enum):
    OPEN = "not ended: a later instance of the producer aborts it"
    ABORTED = "aborted"
    COMMITTED = "committed"
    UNKNOWN = "a commit was asked for and not answered"


@dataclass(slots=True)
class Transaction:
    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    outcome: Outcome = Outcome.OPEN


class Brokers(Protocol):
    """Where clients of transactions meet the brokers in charge."""

    clock: VirtualClock

    async def coordinator(self, transactional_id: str) -> Requester: ...

    async def leader(self, name: TopicPartition, client_id: str) -> Requester: ...


class OneBroker:
    def __init__(self, world: World) -> None:
        self.clock = world.clock
        self._world = world

    async def coordinator(self, transactional_id: str) -> Requester:
        requester = await self._world.connect(transactional_id)
        await find_coordinator(requester, transactional_id)
        return requester

    async def leader(self, name: TopicPartition, client_id: str) -> Requester:
        return await self._world.connect(client_id)


async def find_coordinator(requester: Requester, transactional_id: str) -> int:
    """The broker's number."""
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    found = (await requester.ask(request, FindCoordinatorResponse)).coordinators[0]
    _check(found.error_code)
    return found.node_id


class Refused(Exception):
    """The instance is of no use any more: the next one begins anew."""


def _check(code: int) -> None:
    if code != errors.NONE:
        raise Refused(errors.by_code(code).__name__)


@dataclass(slots=True)
class TransactionalProducer:
    brokers: Brokers
    random: Random
    number: int
    partitions: list[TopicPartition]
    new_protocol: bool
    transactions: list[Transaction] = field(default_factory=list)
    completed: int = 0
    _id: int = -1
    _epoch: int = -1
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)
    _leaders: dict[TopicPartition, Requester] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"transactional-{self.number}"

    async def run(self) -> None:
        """Until cancelled; every new connection is a new instance of the producer."""
        while True:
            try:
                await self._live()
            except (OSError, errors.TidelogError, Refused):
                await asyncio.sleep(self.random.uniform(0.01, 0.5))

    async def _live(self) -> None:
        self._leaders = {}
        requester = await self.brokers.coordinator(self.name)
        try:
            await self._begin(requester)
            while requester.broken is None:
                await self._transaction(requester)
                await asyncio.sleep(self.random.choice((0.0, 0.01, 0.2)) * self.random.random())
        finally:
            requester.close()
            for leader in self._leaders.values():
                leader.close()

    async def begin(self) -> None:
        """Anew, which aborts what is open."""
        requester = await self.brokers.coordinator(self.name)
        try:
            await self._begin(requester)
        finally:
            requester.close()

    async def _begin(self, requester: Requester) -> None:
        while True:
            request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=20_000)
            answer = await requester.ask(request, InitProducerIdResponse)
            if answer.error_code != errors.ConcurrentTransactions.code:
                break
            await asyncio.sleep(0.05)
        _check(answer.error_code)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    async def _transaction(self, requester: Requester) -> None:
        transaction = Transaction()
        self.transactions.append(transaction)
        if not self.new_protocol:
            await self._add(requester)
        for _ in range(self.random.choice((1, 2, 4))):
            await self._send(transaction, self.random.choice(self.partitions))
        if self.random.random() < 0.1:
            await asyncio.sleep(self.random.uniform(0, 30))  # it may take too long
        commit = self.random.random() < 0.6
        if commit:
            transaction.outcome = Outcome.UNKNOWN
        await self._end(requester, commit)
        transaction.outcome = Outcome.COMMITTED if commit else Outcome.ABORTED
        self.completed += 1

    async def _add(self, requester: Requester) -> None:
        topics: dict[str, list[int]] = {}
        for topic, index in self.partitions:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()],
        )
        while True:
            answer = await requester.ask(request, AddPartitionsToTxnResponse, version=3)
            codes = {
                part.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            }
            if errors.ConcurrentTransactions.code not in codes:
                break
            await asyncio.sleep(0.02)
        _check(max(codes))

    async def _send(self, transaction: Transaction, name: TopicPartition) -> None:
        if name not in self._leaders:
            self._leaders[name] = await self.brokers.leader(name, self.name)
        sequence = self._sequences.get(name, 0)
        number = sum(map(len, transaction.values.values()))
        filler = self.random.randbytes(self.random.choice((0, 10, 300)))
        value = b"%d.%d.%d|" % (self.number, len(self.transactions), number) + filler
        transaction.values.setdefault(name, []).append(value)
        request = self.request(name, sequence, value)
        version = 12 if self.new_protocol else 11
        answer = await self._leaders[name].ask(request, ProduceResponse, version=version)
        _check(answer.responses[0].partition_responses[0].error_code)
        self._sequences[name] = sequence + 1

    def request(self, name: TopicPartition, sequence: int, value: bytes) -> ProduceRequest:
        data = build_batch(
            [Record(0, self.brokers.clock.now_ms(), value[:6], value)],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        part = PartitionProduceData(index=name.partition, records=data)
        return ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=REQUEST_TIMEOUT_MS // 2,
            topic_data=[TopicProduceData(name=name.topic, partition_data=[part])],
        )

    async def _end(self, requester: Requester, commit: bool) -> None:
        request = EndTxnRequest(self.name, self._id, self._epoch, commit)
        while True:
            answer = await requester.ask(request, EndTxnResponse, version=5 if self.new_protocol else 3)
            if answer.error_code != errors.ConcurrentTransactions.code:
                break
            await asyncio.sleep(0.02)
        _check(answer.error_code)
        if self.new_protocol:
            self._id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()


class CommittedReader:
    """Of one partition; what it was once told must stay so.  A new leader may have heard of less than was committed, and
    fetches are answered with what it knows meanwhile: then `stable` only holds while one connection does."""

    def __init__(self, name: TopicPartition, leaders_change: bool = False) -> None:
        self.name = name
        self.leaders_change = leaders_change
        self.stable = 0  # as told on this connection
        self.stable_max = 0
        self.found: dict[int, bytes] = {}
        self.losses = 0

    def lost(self) -> None:
        """Power cuts took records: what was read before holds no more."""
        self.found.clear()
        self.stable = 0
        self.losses += 1

    async def follow(self, brokers: Brokers, random: Random) -> None:
        while True:
            try:
                requester = await brokers.leader(self.name, "reader")
            except (OSError, errors.TidelogError):
                await asyncio.sleep(0.2)
                continue
            if self.leaders_change:
                self.stable = 0
            try:
                await self._read(requester, random, random.randint(0, self.stable_max))
            except (OSError, errors.TidelogError, Refused):
                await asyncio.sleep(0.1)
            finally:
                requester.close()

    async def _read(self, requester: Requester, random: Random, offset: int) -> None:
        while requester.broken is None:
            offset = await self.step(requester, random, offset)
            await asyncio.sleep(random.random() * 0.2)

    async def step(self, requester: Requester, random: Random, offset: int) -> int:
        losses = self.losses
        answer = await self._fetch(requester, random, offset)
        _check(answer.error_code)
        if losses != self.losses:
            return offset  # the answer was longer on its way than what it tells was there
        if answer.last_stable_offset < self.stable:
            raise Violated([("StableNeverBack", f"{self.name}: {self.stable} was stable once")])
        self.stable = answer.last_stable_offset
        self.stable_max = max(self.stable, self.stable_max)
        for at, value in committed_in(answer):
            if at >= offset and self.found.setdefault(at, value) != value:
                raise Violated([("OneValuePerOffset", f"{self.name}: offset {at} changed")])
        for batch in read_batches(answer.records or b""):
            offset = max(offset, batch.header.last_offset + 1)
        return offset

    async def _fetch(self, requester: Requester, random: Random, offset: int) -> PartitionData:
        part = FetchPartition(
            partition=self.name.partition,
            fetch_offset=offset,
            partition_max_bytes=random.choice((1, 500, BYTES_MAX)),
        )
        request = FetchRequest(
            max_wait_ms=random.choice((0, 50, 500)),
            min_bytes=random.choice((1, 1000)),
            max_bytes=BYTES_MAX,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=self.name.topic, partitions=[part])],
        )
        answer = await requester.ask(request, FetchResponse, version=random.randint(4, 12))
        return answer.responses[0].partitions[0]


def committed_in(answer: PartitionData) -> Iterator[tuple[int, bytes]]:
    told = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or ())
    aborted: set[int] = set()
    for batch in read_batches(answer.records or b""):
        header = batch.header
        while told and told[0][0] <= header.last_offset:
            aborted.add(told.pop(0)[1])
        for record in batch.records():
            if header.control:
                end = read_marker(record)
                if end is not None and end.marker is Marker.ABORT:
                    aborted.discard(header.producer_id)
            elif header.producer_id not in aborted:
                yield record.offset, record.value or b""
