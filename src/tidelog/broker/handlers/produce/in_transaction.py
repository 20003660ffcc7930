"""Produce requests with a transactional id: before a partition takes the first batch of a transaction, the transaction's
coordinator must have the partition in it.  Otherwise the batch would stay in a transaction that no coordinator ends.

Up to version 11 the producer has added the partition before, and the handler asks the coordinator; from version 12 on the
batch itself adds the partition.  Mostly the answer is there at once, and the batches are appended like all others.
Otherwise later requests of the same producer wait for it, which keeps their order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from tidelog import errors
from tidelog._speed.log.batch import Header, header_at
from tidelog.broker.handlers.produce.produce import Key, ProduceInFlight, append_all
from tidelog.broker.services import Services
from tidelog.replication.partition import Enlisted, HostedPartition
from tidelog.transactions.coordinator import PendingEnlistment
from tidelog.transactions.transaction import ProducerIdAndEpoch
from tidelog.types import TopicPartition

_ADDS_FROM = 12
_ABORTABLE_FROM = 11
ATTEMPTS_MAX = 20

Verdicts = dict[Key, Enlisted | errors.TidelogError]
Answer = bytes | asyncio.Future[bytes] | None


def produce_in_transaction(
    request: ProduceInFlight,
) -> bytes | asyncio.Future[bytes] | asyncio.Future[bytes | None] | None:
    batches = list(_batches(request))
    if not batches:
        return append_all(request, {})
    producer_id = batches[0][1].producer_id
    if any(_instance(header) != _instance(batches[0][1]) for _, header in batches):
        problem = errors.InvalidProducerIdMapping("batches of several producers in one transaction")
        return append_all(request, {key: problem for key, _ in batches})
    held = request.services.held_produces
    before = held.get(producer_id)
    verdicts: Verdicts = {}
    if before is None:
        verdicts, waits = _enlist(request, batches)
        if not waits and not _worth_waiting(request, verdicts):
            return append_all(request, verdicts)
    # The frame's bytes are the connection's again when this returns.
    own = request._replace(frame=memoryview(bytearray(request.frame)))
    appending = asyncio.ensure_future(_append_later(own, batches, before))
    held[producer_id] = appending
    request.services.queued.take(len(own.frame))
    appending.add_done_callback(lambda done: _let_go(own, producer_id, done))
    return asyncio.ensure_future(_answered(appending))


async def _append_later(
    request: ProduceInFlight,
    batches: list[tuple[Key, Header]],
    before: asyncio.Future[Answer] | None,
) -> Answer:
    if before is not None:
        await asyncio.wait([before])
    services, config = request.services, request.services.config()
    give_up_ms = services.clock.monotonic_ms() + config.add_partitions_to_txn_retry_backoff_max_ms
    for _ in range(ATTEMPTS_MAX):
        guards = _guards(request, batches)
        verdicts, waits = _enlist(request, batches)
        failed = await _wait(waits, request.version)
        if waits:
            # The transaction may have ended meanwhile: a batch behind its marker would begin one that nobody ends.
            verdicts = _enlist(request, batches)[0] | failed
        if _worth_waiting(request, verdicts) and services.clock.monotonic_ms() < give_up_ms:
            await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)
        elif guards == _guards(request, batches):
            return append_all(request, verdicts)
    busy = errors.NotEnoughReplicas("transactions end here faster than their coordinator can be asked")
    return append_all(request, {key: busy for key, _ in batches})


async def _wait(waits: list[tuple[Key, PendingEnlistment]], version: int) -> Verdicts:
    """What came of those that failed."""
    failed: Verdicts = {}
    for key, wait in waits:
        try:
            await wait.wait()
        except errors.TidelogError as problem:
            failed[key] = _for_producers(problem, version)
    return failed


def _guards(request: ProduceInFlight, batches: list[tuple[Key, Header]]) -> list[VerificationGuard | None]:
    return [
        verification_guard(request.services, *key, producer_id=header.producer_id) for key, header in batches
    ]


async def _answered(appending: asyncio.Future[Answer]) -> bytes | None:
    answer = await appending
    if answer is None or isinstance(answer, bytes):
        return answer
    return await answer


def _let_go(request: ProduceInFlight, producer_id: int, done: asyncio.Future[Answer]) -> None:
    held = request.services.held_produces
    request.services.queued.give_back(len(request.frame))
    if held.get(producer_id) is done:
        del held[producer_id]


def _batches(request: ProduceInFlight) -> Iterator[tuple[Key, Header]]:
    """The batches in a transaction; the partition refuses batches that cannot be read."""
    for topic, parts in request.ask.topics:
        for index, start, size in parts:
            header = header_at(request.frame[start : start + max(size, 0)])
            if header is not None and header.magic == 2 and header.transactional and header.producer_id >= 0:
                yield (topic, index), header


def _instance(header: Header) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(header.producer_id, header.producer_epoch)


def _enlist(
    request: ProduceInFlight, batches: list[tuple[Key, Header]]
) -> tuple[Verdicts, list[tuple[Key, PendingEnlistment]]]:
    """(the answers so far, the waits before a batch counts)."""
    verdicts: Verdicts = {}
    waits = []
    for key, header in batches:
        try:
            partition = request.services.partitions.led_here(*key)
            adds = request.version >= _ADDS_FROM
            wait = enlist(request.services, request.ask.transactional_id, _instance(header), partition, adds)
        except errors.TidelogError as problem:
            verdicts[key] = _for_producers(problem, request.version)
        else:
            verdicts[key] = Enlisted(from_the_first=adds)
            if wait is not None:
                waits.append((key, wait))
    return verdicts, waits


class VerificationGuard(NamedTuple):
    """A producer in one partition.  The coordinator's answer counts while the guard stays the same: a marker, or
    another leader whose log may hold one, changes it."""

    leader_epoch: int
    last_end: int


def verification_guard(
    services: Services, topic: str | bytes, index: int, producer_id: int
) -> VerificationGuard | None:
    """None while this broker does not lead the partition."""
    try:
        partition = services.partitions.led_here(topic, index)
    except errors.TidelogError:
        return None
    return VerificationGuard(partition.state.epoch, partition.log.producers.last_end(producer_id))


def enlist(
    services: Services,
    transactional_id: str | None,
    instance: ProducerIdAndEpoch,
    partition: HostedPartition,
    adds: bool,
) -> PendingEnlistment | None:
    """Whether the producer may write to the partition; raises if not, and gives what to wait for first."""
    producers = partition.log.producers
    if producers.has_open(*instance):
        return None
    producers.check_epoch(*instance)
    if not adds and not services.config().transaction_partition_verification_enable:
        return None
    return services.transactions.enlist(transactional_id or "", instance, partition.name, adds)


async def enlist_until_settled(
    services: Services,
    transactional_id: str,
    instance: ProducerIdAndEpoch,
    name: TopicPartition,
    adds: bool,
) -> None:
    """Returns when the producer may write to the partition, which this broker leads, with nothing in between."""
    config, clock = services.config(), services.clock
    give_up_ms = clock.monotonic_ms() + config.add_partitions_to_txn_retry_backoff_max_ms
    for _ in range(ATTEMPTS_MAX):
        guard = verification_guard(services, *name, producer_id=instance.producer_id)
        try:
            partition = services.partitions.led_here(*name)
            wait = enlist(services, transactional_id, instance, partition, adds)
            if wait is None:
                return
            await wait.wait()
        except errors.ConcurrentTransactions:
            if not adds or clock.monotonic_ms() >= give_up_ms:
                raise
            await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)
            continue
        # What lies behind the marker of its transaction would be in one that nobody ends.
        if guard == verification_guard(services, *name, producer_id=instance.producer_id):
            return
    raise errors.CoordinatorNotAvailable(
        f"{name}: transactions of {transactional_id!r} end faster than their coordinator answers"
    )


def _worth_waiting(request: ProduceInFlight, verdicts: Verdicts) -> bool:
    """The transaction before is being completed, which takes no time: a producer that ended it goes on at once."""
    return request.version >= _ADDS_FROM and any(
        isinstance(verdict, errors.ConcurrentTransactions) for verdict in verdicts.values()
    )


def _for_producers(problem: errors.TidelogError, version: int) -> errors.TidelogError:
    """As clients of Produce understand it: what a new attempt can put right must be retriable for all of them."""
    if isinstance(problem, errors.ProducerFenced):
        return errors.InvalidProducerEpoch(str(problem))
    if isinstance(problem, errors.TransactionAbortable) and version < _ABORTABLE_FROM:
        return errors.InvalidTxnState(str(problem))
    if isinstance(
        problem, errors.CoordinatorLoadInProgress | errors.CoordinatorNotAvailable | errors.NotCoordinator
    ) or (isinstance(problem, errors.ConcurrentTransactions) and version < _ADDS_FROM):
        return errors.NotEnoughReplicas(f"the transaction cannot be looked up now: {problem}")
    return problem
