from __future__ import annotations

import asyncio
import errno

import pytest

from tests.unit.coordination.node import TOPIC, Ledger, Node, entry
from tests.unit.storage.elsewhere import RecordsElsewhere
from tidelog import errors
from tidelog.coordination.internal_topic import partition_for
from tidelog.coordination.runtime import RELOAD_S, CoordinatorRuntime
from tidelog.coordination.shard import Shard, Writer
from tidelog.metadata.image.changes import Update
from tidelog.replication.partition import Ending
from tidelog.types import Offset

pytestmark = pytest.mark.simulated

WAIT_MS = 1_000


async def until_loaded(coordinator: CoordinatorRuntime[Ledger]) -> None:
    while coordinator.loading:
        await asyncio.sleep(0.01)


def test_names_go_to_the_partitions_that_kafka_puts_them_in() -> None:
    # Java: "hello".hashCode() is 99162322, "polygenelubricants".hashCode() the smallest int there is.
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("😀", 1 << 31) == 1772899
    assert partition_for("", 50) == 0


async def test_the_topic_is_made_at_first_use_with_as_many_replicas_as_there_are_brokers() -> None:
    node = Node()
    coordinator = await node.start()
    with pytest.raises(errors.CoordinatorNotAvailable):
        coordinator.shard("a")
    assert await asyncio.gather(*(coordinator.topic.ensure() for _ in range(3))) == [3, 3, 3]
    assert len(node.controller.image.topics[TOPIC].partitions[0].replicas) == 1
    assert coordinator.shard("a").machine.amounts == {}


async def test_what_was_appended_is_there_after_a_crash() -> None:
    node = Node()
    coordinator = await node.start()
    await coordinator.topic.ensure()
    for name, amount in (("a", 1), ("b", 2), ("a", 3), ("b", None)):
        shard = coordinator.shard(name)
        await shard.committed(shard.append([entry(name, amount)]), WAIT_MS)
    await node.crash()
    coordinator = await node.start()
    await until_loaded(coordinator)
    assert coordinator.shard("a").machine.amounts == {"a": 3}
    assert "b" not in coordinator.shard("b").machine.amounts


@pytest.mark.parametrize("commit", [True, False])
async def test_records_of_a_transaction_count_when_its_marker_says_so(commit: bool) -> None:
    node = Node()
    coordinator = await node.start()
    await coordinator.topic.ensure()
    shard = coordinator.shard("a")
    writer = Writer(7, 0)
    shard.append([entry("a", 5)], writer)
    assert shard.machine.amounts == {}
    await shard.committed(shard.end_transaction(Ending(*writer, 0, commit, 0)), WAIT_MS)
    expected = {"a": 5} if commit else {}
    assert shard.machine.amounts == expected
    await node.crash()
    coordinator = await node.start()
    await until_loaded(coordinator)
    assert coordinator.shard("a").machine.amounts == expected


async def test_an_append_that_fails_changes_nothing() -> None:
    node = Node()
    coordinator = await node.start()
    await coordinator.topic.ensure()
    shard = coordinator.shard("a")
    shard.append([entry("a", 1)])
    node.disk.fail("write", "*.log", errno.ENOSPC, times=2)  # the common case has a second try
    with pytest.raises(errors.NotCoordinator):
        shard.append([entry("a", 2)])
    assert shard.machine.amounts == {"a": 1}
    with pytest.raises(errors.UnknownServerError):
        shard.append([entry("x" * 30_000, 1)] * 50)
    assert shard.machine.amounts == {"a": 1}


async def test_a_shard_whose_sync_failed_is_loaded_again_from_what_the_log_has() -> None:
    node = Node({"flush.messages": "1"})
    coordinator = await node.start()
    await coordinator.topic.ensure()
    shard = coordinator.shard("a")
    await shard.committed(shard.append([entry("a", 1)]), WAIT_MS)
    node.disk.fail("write", "*.log", errno.ENOSPC)
    appended = shard.append([entry("a", 2)])
    with pytest.raises(errors.NotCoordinator):
        await shard.committed(appended, WAIT_MS)
    with pytest.raises(errors.CoordinatorLoadInProgress):
        coordinator.shard("a")
    with pytest.raises(errors.NotCoordinator):
        shard.append([entry("a", 3)])
    await until_loaded(coordinator)
    assert coordinator.shard("a").machine.amounts == {"a": 1}


async def test_loading_that_could_not_read_the_log_is_tried_again() -> None:
    node = Node()
    coordinator = await node.start()
    await coordinator.topic.ensure()
    shard = coordinator.shard("a")
    await shard.committed(shard.append([entry("a", 1)]), WAIT_MS)
    await coordinator.stop()
    node.disk.fail("read", "*.log", errno.ENOMEM)
    coordinator.start(node.controller.image)
    await asyncio.sleep(RELOAD_S / 2)
    with pytest.raises(errors.CoordinatorLoadInProgress):
        coordinator.shard("a")
    await asyncio.wait_for(until_loaded(coordinator), 60)
    assert coordinator.shard("a").machine.amounts == {"a": 1}


async def test_nothing_is_told_before_it_is_committed() -> None:
    node = Node()
    coordinator = await node.start()
    await coordinator.topic.ensure()
    shard = coordinator.shard("a")
    partition = node.partitions.led_here(TOPIC, shard.index)
    partition.led(partition.leader, shard.epoch, frozenset((1, 2)), 2)  # type: ignore[arg-type]
    appended = shard.append([entry("a", 1)])
    with pytest.raises(errors.CoordinatorNotAvailable):
        await shard.committed(appended, WAIT_MS)
    with pytest.raises(errors.CoordinatorNotAvailable):
        await shard.settled(WAIT_MS)
    reading = asyncio.ensure_future(shard.settled(WAIT_MS))
    await node.clock.advance_ms(10)
    assert not reading.done()
    partition.state.follower_fetched(2, Offset(1), 0)  # type: ignore[arg-type]
    partition.commit_waits.committed(partition.state.committed)
    await reading


async def test_a_shard_goes_when_its_topic_does() -> None:
    node = Node()
    coordinator = await node.start()
    await coordinator.topic.ensure()
    shard = coordinator.shard("a")
    closed: list[Shard[Ledger]] = []
    coordinator.closed.append(closed.append)
    await node.controller.delete_topics([TOPIC])
    assert shard in closed and len(closed) == 3
    with pytest.raises(errors.NotCoordinator):
        shard.append([entry("a", 1)])


async def test_records_that_are_not_here_yet_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    coordinator = await node.start()
    await coordinator.topic.ensure()
    shard = coordinator.shard("a")
    await shard.committed(shard.append([entry("a", 3)]), WAIT_MS)
    await node.crash()
    elsewhere = RecordsElsewhere(monkeypatch)
    coordinator = await node.start()
    await until_loaded(coordinator)
    assert elsewhere.waited > 0
    assert coordinator.shard("a").machine.amounts == {"a": 3}


async def test_nothing_is_loaded_after_the_stop_although_the_metadata_still_change() -> None:
    node = Node()
    coordinator = await node.start()
    await coordinator.topic.ensure()
    await coordinator.stop()
    image = node.controller.image
    coordinator.apply(Update(image, image, (TOPIC,), (), False, False))
    await asyncio.sleep(RELOAD_S)
    assert not coordinator.loading
    assert list(coordinator.shards()) == []
