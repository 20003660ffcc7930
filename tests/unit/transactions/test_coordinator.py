from __future__ import annotations

import asyncio
import errno
from dataclasses import replace

import pytest

from tests.unit.coordination.node import entry
from tests.unit.transactions.node import DATA, LEDGER, OTHER, TransactionNode
from tidelog import errors
from tidelog.coordination.internal_topic import partition_for
from tidelog.coordination.shard import Writer
from tidelog.replication.partition import Ending
from tidelog.transactions.state_machine import TOPIC as STATE_TOPIC
from tidelog.transactions.state_machine import entry as record
from tidelog.transactions.transaction import (
    DECIDED,
    NO_EPOCH,
    ProducerIdAndEpoch,
    Transaction,
    TransactionStatus,
    ended,
)
from tidelog.types import TopicPartition

pytestmark = pytest.mark.simulated

TIMEOUT_MS = 60_000


async def test_a_transaction_over_several_partitions_ends_in_all_of_them_at_once() -> None:
    node = TransactionNode()
    await node.start()
    me = await node.transactions.initialize("t", TIMEOUT_MS, None)
    await node.write(me)
    await node.write(me, OTHER)
    assert node.partition(DATA).last_stable == node.partition(OTHER).last_stable == 0
    assert await node.transactions.end("t", me, True, 2) == ProducerIdAndEpoch(me.producer_id, 1)
    assert node.partition(DATA).last_stable == node.partition(OTHER).last_stable == 2
    assert node.transactions.describe("t").state is TransactionStatus.COMPLETE_COMMIT


async def test_an_aborted_transaction_is_told_to_readers() -> None:
    node = TransactionNode()
    await node.start()
    me = await node.transactions.initialize("t", TIMEOUT_MS, None)
    await node.write(me)
    await node.transactions.end("t", me, False, 2)
    log = node.partition().log
    assert [aborted[:3] for aborted in log.aborted(0, log.end)] == [(me.producer_id, 0, 1)]


async def test_a_new_instance_aborts_what_the_old_one_left_open_and_fences_it() -> None:
    node = TransactionNode()
    await node.start()
    old = await node.transactions.initialize("t", TIMEOUT_MS, None)
    await node.write(old)
    with pytest.raises(errors.ConcurrentTransactions):
        await node.transactions.initialize("t", TIMEOUT_MS, None)
    assert node.transactions.describe("t").state is TransactionStatus.COMPLETE_ABORT
    new = await node.transactions.initialize("t", TIMEOUT_MS, None)
    assert new == ProducerIdAndEpoch(old.producer_id, 2)
    with pytest.raises(errors.ProducerFenced):
        await node.write(old, OTHER)
    with pytest.raises(errors.ProducerFenced):
        await node.transactions.end("t", old, True, 2)
    with pytest.raises(errors.ProducerFenced):
        await node.transactions.initialize("t", TIMEOUT_MS, old)


async def test_a_zombie_that_begins_anew_does_not_disturb_the_instance_that_fenced_it() -> None:
    node = TransactionNode()
    await node.start()
    old = await node.transactions.initialize("t", TIMEOUT_MS, None)
    new = await node.transactions.initialize("t", TIMEOUT_MS, None)
    await node.write(new)
    with pytest.raises(errors.ProducerFenced):
        await node.transactions.initialize("t", TIMEOUT_MS, old)
    await node.transactions.end("t", new, True, 2)


async def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    node = TransactionNode()
    await node.start()
    me = await node.transactions.initialize("t", 5_000, None)
    await node.write(me)
    await asyncio.sleep(4.9)
    assert node.transactions.describe("t").state is TransactionStatus.ONGOING
    await asyncio.sleep(10.2)  # looked for every ten seconds
    assert node.transactions.describe("t").state is TransactionStatus.COMPLETE_ABORT
    assert node.partition().last_stable == 2
    with pytest.raises(errors.InvalidTxnState):
        await node.transactions.end("t", me, True, 2)
    with pytest.raises(errors.ProducerFenced):
        await node.write(me, OTHER)
    assert (await node.transactions.initialize("t", 5_000, me)).epoch == 1


async def test_one_that_cannot_be_aborted_now_does_not_stand_in_the_way_of_others() -> None:
    node = TransactionNode()
    await node.start()
    names = [f"t{number}" for number in range(6)]
    for name in names:
        me = await node.transactions.initialize(name, 5_000, None)
        await node.transactions.add_partitions(name, me, frozenset((OTHER,)), 0)
    stuck = node.transactions.coordinator.shard(names[0]).index
    node.disk.fail("write", f"*/__transaction_state-{stuck}/*", errno.ENOSPC, times=1_000)
    await asyncio.sleep(30)
    for name in names:
        here = node.transactions.coordinator.shard(name).index == stuck
        state = node.transactions.describe(name).state
        assert state is (TransactionStatus.ONGOING if here else TransactionStatus.COMPLETE_ABORT), name
    node.disk.heal()
    await asyncio.sleep(20)
    assert {node.transactions.describe(name).state for name in names} == {TransactionStatus.COMPLETE_ABORT}


async def test_an_id_that_nobody_uses_is_forgotten() -> None:
    node = TransactionNode()
    await node.start()
    await node.transactions.initialize("t", TIMEOUT_MS, None)
    await asyncio.sleep(7 * 86_400 + 3_700)
    with pytest.raises(errors.TransactionalIdNotFound):
        node.transactions.describe("t")
    await node.crash()
    await node.start()
    assert list(node.transactions.all()) == []


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_timeout_that_the_broker_does_not_allow_is_refused(timeout_ms: int) -> None:
    node = TransactionNode()
    await node.start()
    with pytest.raises(errors.InvalidTransactionTimeout):
        await node.transactions.initialize("t", timeout_ms, None)
    assert list(node.transactions.all()) == []


async def test_after_a_crash_everything_is_known_and_the_decided_is_completed() -> None:
    node = TransactionNode()
    await node.start()
    me = await node.transactions.initialize("t", TIMEOUT_MS, None)
    await node.write(me)
    shard = node.transactions.coordinator.shard("t")
    transaction = shard.machine.get("t")
    assert transaction is not None
    shard.append([record(ended(transaction, me, True, 2, None, node.clock.now_ms()))])
    await node.crash()  # decided, and no marker written
    await node.start()
    while node.transactions.describe("t").state is not TransactionStatus.COMPLETE_COMMIT:
        await asyncio.sleep(0.1)
    assert node.partition().last_stable == 2
    assert node.partition().log.aborted(0, 2) == []
    assert await node.transactions.end("t", me, True, 2) == ProducerIdAndEpoch(me.producer_id, 1)


async def test_the_outcome_reaches_the_state_of_other_coordinators() -> None:
    node = TransactionNode()
    ledger = await node.start()
    me = await node.transactions.initialize("t", TIMEOUT_MS, None)
    for commit, amount in ((True, 1), (False, 2)):
        assert node.transactions.enlist("t", me, LEDGER, True) is None
        shard = ledger.shard_at(0)
        shard.append([entry("a", amount)], Writer(*me))
        assert shard.machine.pending
        me = await node.transactions.end("t", me, commit, 2)
        assert shard.machine.amounts == {"a": 1} and not shard.machine.pending


async def test_a_full_disk_delays_the_end_and_does_not_lose_it() -> None:
    node = TransactionNode()
    await node.start()
    me = await node.transactions.initialize("t", TIMEOUT_MS, None)
    await node.write(me)
    node.disk.fail("write", "*/data-0/*", errno.ENOSPC, times=2)
    await node.transactions.end("t", me, True, 2)
    assert node.transactions.describe("t").state is TransactionStatus.PREPARE_COMMIT
    with pytest.raises(errors.ConcurrentTransactions):
        await node.transactions.initialize("t", TIMEOUT_MS, None)
    node.disk.heal()
    await asyncio.sleep(3)
    assert node.transactions.describe("t").state is TransactionStatus.COMPLETE_COMMIT
    assert node.partition().last_stable == 2


async def test_partitions_refuse_markers_from_the_past() -> None:
    node = TransactionNode()
    await node.start()
    me = await node.transactions.initialize("t", TIMEOUT_MS, None)
    await node.write(me)
    partition, now_ms = node.partition(), node.clock.now_ms()
    with pytest.raises(errors.InvalidProducerEpoch):
        partition.append_marker(Ending(me.producer_id, 0, 0, True, 2), now_ms)
    partition.append_marker(Ending(me.producer_id, 1, 5, True, 2), now_ms)
    partition.append_marker(Ending(me.producer_id, 1, 5, True, 2), now_ms)  # sent again
    with pytest.raises(errors.TransactionCoordinatorFenced):
        partition.append_marker(Ending(me.producer_id, 2, 4, True, 2), now_ms)
    with pytest.raises(errors.InvalidProducerEpoch):
        partition.append_marker(Ending(me.producer_id, 0, 6, True, 0), now_ms)
    assert partition.log.end == 3


async def test_a_batch_needs_a_transaction_that_has_its_partition() -> None:
    node = TransactionNode()
    await node.start()
    me = await node.transactions.initialize("t", TIMEOUT_MS, None)
    with pytest.raises(errors.TransactionAbortable):
        node.transactions.enlist("t", me, DATA, False)
    await node.transactions.add_partitions("t", me, frozenset((DATA,)), 0)
    assert node.transactions.enlist("t", me, DATA, False) is None
    with pytest.raises(errors.TransactionAbortable):
        node.transactions.enlist("t", me, OTHER, False)


async def test_a_log_cut_at_any_batch_is_loaded_as_it_was_then() -> None:
    node = TransactionNode()
    await node.start()
    name = TopicPartition(STATE_TOPIC, partition_for("t", 50))
    moments: dict[int, Transaction | None] = {0: None}

    def note() -> None:
        known = node.transactions.coordinator.shard("t").machine.get("t")
        assert known is not None
        moments[node.partition(name).log.next] = replace(known, last_epoch=NO_EPOCH)

    me = await node.transactions.initialize("t", TIMEOUT_MS, None)
    note()
    for commit in (True, False):
        await node.write(me)
        note()
        await node.write(me, OTHER)
        note()
        me = await node.transactions.end("t", me, commit, 2)
        note()
    for end in sorted(moments, reverse=True):
        node.partition(name).log.truncate_to(end)
        await node.crash()
        await node.start()
        known = node.transactions.coordinator.shard("t").machine.get("t")
        # What was decided is completed while nobody looks: only the record after it is new.
        expected = moments[end]
        if known is not None and expected is not None and expected.state in DECIDED:
            assert known.producer_id == expected.producer_id
        else:
            assert known == expected


async def test_a_partition_forgets_the_ends_of_transactions_once_they_are_committed() -> None:
    node = TransactionNode()
    await node.start()
    me = await node.transactions.initialize("t", TIMEOUT_MS, None)
    for _ in range(20):
        await node.write(me)
        me = await node.transactions.end("t", me, True, 2)
    assert len(node.partition().log.producers._decided) == 0
