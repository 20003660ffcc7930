from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest

from tests.unit.groups.share.share_node import GROUP, LETTERS, LOCK_MS, TOPIC, ShareNode
from tests.unit.storage.elsewhere import ARRIVES_S, RecordsElsewhere
from tidelog import errors
from tidelog.groups.share import state_coordinator
from tidelog.groups.share.group_state import ShareKey
from tidelog.groups.share.partition import AcknowledgeType, AcquiredRange
from tidelog.groups.share.sessions import SharePartitionId
from tidelog.groups.share.state_coordinator import STATE_TOPIC, coordinator_key, parse_coordinator_key
from tidelog.record.reader import read_records

pytestmark = pytest.mark.simulated

VALUES = [b"a", b"b", b"c", b"d"]


async def node_with_records(**settings: str) -> tuple[ShareNode, SharePartitionId]:
    node = await ShareNode().start()
    part = await node.make()
    await node.configure(share_record_lock_duration_ms=str(LOCK_MS), **settings)
    node.write(*VALUES)
    return node, part


async def test_a_lock_lasts_to_the_millisecond(random: Random) -> None:
    node, part = await node_with_records()
    assert await node.fetch("ann", part) == [AcquiredRange(0, 3, 1)]
    waiting = asyncio.ensure_future(node.fetch("ben", part, wait_ms=60_000))
    await asyncio.sleep((LOCK_MS - 1) / 1000)
    assert not waiting.done()
    await asyncio.sleep(0.01)
    assert await waiting == [AcquiredRange(0, 3, 2)]


async def test_a_fetch_waits_for_records_and_for_enough_of_them(random: Random) -> None:
    node, part = await node_with_records()
    await node.fetch("ann", part)
    waiting = asyncio.ensure_future(node.fetch("ben", part, wait_ms=5_000))
    await asyncio.sleep(1)
    assert not waiting.done()
    node.write(b"e")
    await asyncio.sleep(0)
    assert await waiting == [AcquiredRange(4, 4, 1)]
    started = node.clock.monotonic_ms()
    assert await node.fetch("ben", part, wait_ms=5_000) == []
    assert node.clock.monotonic_ms() - started == 5_000


async def test_an_acknowledgement_that_could_not_be_written_is_not_told_and_not_kept(random: Random) -> None:
    node, part = await node_with_records()
    await node.fetch("ann", part)
    state_log = node.partitions.led_here(STATE_TOPIC, 0)
    state_log.leader = None
    with pytest.raises(errors.CoordinatorNotAvailable):
        await node.acknowledge("ann", part, 0, 3, AcknowledgeType.ACCEPT)
    state_log.leader = node.topic().state.node
    await node.acknowledge("ann", part, 0, 1, AcknowledgeType.ACCEPT)
    await asyncio.sleep(LOCK_MS / 1000 + 0.01)
    assert await node.fetch("ben", part) == [AcquiredRange(2, 3, 2)]


async def test_what_was_acknowledged_outlives_a_kill_and_what_was_held_comes_back(random: Random) -> None:
    node, part = await node_with_records()
    await node.fetch("ann", part)
    await node.acknowledge("ann", part, 1, 2, AcknowledgeType.ACCEPT)
    await node.crash()
    await node.start()
    assert await node.fetch("ben", part) == [AcquiredRange(0, 0, 1), AcquiredRange(3, 3, 1)]
    await node.acknowledge("ben", part, 0, 0, AcknowledgeType.ACCEPT)
    await node.acknowledge("ben", part, 3, 3, AcknowledgeType.RELEASE)
    await node.crash()
    await node.start()
    assert await node.fetch("cid", part) == [AcquiredRange(3, 3, 2)]
    assert node.kept(part[0]) == (3, 0)


async def test_where_a_group_starts_is_remembered_before_anything_is_read(random: Random) -> None:
    node, part = await node_with_records()
    await node.shards.initialize(ShareKey(GROUP, *part), 2, -1)
    await node.configure(share_auto_offset_reset="latest")
    assert await node.fetch("ann", part) == []
    await node.crash()
    await node.start()
    node.write(b"e", b"f")
    assert await node.fetch("ann", part) == [AcquiredRange(4, 5, 1)]


async def test_records_that_retention_took_are_passed_over(random: Random) -> None:
    node, part = await node_with_records()
    assert await node.fetch("ann", part, most=2) == [AcquiredRange(0, 1, 1)]
    node.topic().delete_records(3)
    assert await node.fetch("ben", part) == [AcquiredRange(3, 3, 1)]
    await node.acknowledge("ann", part, 0, 1, AcknowledgeType.ACCEPT)


async def test_rotten_bytes_are_not_given_out_and_are_reported(random: Random) -> None:
    node, part = await node_with_records()
    log = node.topic().log
    first_batch = log.size
    node.write(b"e", b"f")
    node.write(b"g")
    node.disk.rot(log.segments.active.path, first_batch + 70)
    assert await node.fetch("ann", part) == [AcquiredRange(0, 3, 1)]
    assert log.volume.suspects.pop(log.name) == 4
    with pytest.raises(errors.CorruptMessage):
        await node.fetch("ben", part, wait_ms=5_000)
    assert log.volume.suspects.pop(log.name) == 4
    assert node.kept(part[0]) == (0, 0)


async def test_a_state_that_is_ahead_of_its_log_does_not_hide_new_records(random: Random) -> None:
    node, part = await node_with_records()
    await node.fetch("ann", part)
    await node.acknowledge("ann", part, 1, 3, AcknowledgeType.ACCEPT)
    node.shares.reset(GROUP, [part[0]])
    log = node.topic().log
    log.restart_at(0)
    node.topic().state.truncated(0)  # type: ignore[arg-type]
    node.write(b"new", b"newer")
    assert await node.fetch("ben", part) == [AcquiredRange(0, 0, 1)]
    node.write(b"newest")
    assert await node.fetch("ben", part) == [AcquiredRange(2, 2, 1)]


async def test_sessions_that_end_give_back_and_the_last_one_takes_the_partition_along(random: Random) -> None:
    node, part = await node_with_records()
    for member in ("ann", "ben"):
        node.shares.begin_session((GROUP, member), f"{member}:1", [part])
    assert await node.fetch("ann", part, most=2) == [AcquiredRange(0, 1, 1)]
    node.shares.connection_ended("ann:1")
    assert await node.fetch("ben", part) == [AcquiredRange(0, 1, 2), AcquiredRange(2, 3, 1)]
    await node.shares.end_session((GROUP, "ben"))
    assert node.shares.led(GROUP, part) is None
    assert len(node.shares.sessions) == 0
    assert await node.fetch("cid", part) == [AcquiredRange(0, 1, 3), AcquiredRange(2, 3, 2)]


async def test_a_session_begun_again_gives_back_what_the_one_before_had(random: Random) -> None:
    node, part = await node_with_records()
    node.shares.begin_session((GROUP, "ann"), "ann:1", [part])
    node.shares.begin_session((GROUP, "ben"), "ben:1", [part])
    await node.fetch("ann", part)
    node.shares.begin_session((GROUP, "ann"), "ann:2", [part])
    assert await node.fetch("ann", part, most=1) == [AcquiredRange(0, 0, 2)]
    await asyncio.sleep(0.1)
    assert await node.fetch("ben", part) == [AcquiredRange(1, 3, 2)]


async def test_more_sessions_than_allowed_are_refused(random: Random) -> None:
    node = await ShareNode({"group.share.max.share.sessions": "1"}).start()
    part = await node.make()
    node.shares.begin_session((GROUP, "ann"), "a:1", [part])
    with pytest.raises(errors.ShareSessionLimitReached):
        node.shares.begin_session((GROUP, "ben"), "b:1", [part])
    node.shares.begin_session((GROUP, "ann"), "a:1", [part])


async def test_a_topic_that_is_deleted_takes_its_states_along(random: Random) -> None:
    node, part = await node_with_records()
    await node.fetch("ann", part)
    await node.controller.delete_topics([TOPIC])
    await asyncio.sleep(0.1)
    assert node.shares.led(GROUP, part) is None
    assert next(node.shards.coordinator.shards()).machine.states == {}
    with pytest.raises(errors.UnknownTopicId):
        await node.fetch("ann", part)


async def test_old_records_of_states_are_deleted_when_there_are_many(
    random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_coordinator, "PRUNE_RECORDS_MIN", 20)
    node, part = await node_with_records(share_delivery_count_limit="10")
    log = node.partitions.led_here(STATE_TOPIC, 0).log
    for _ in range(12):
        for given in await node.fetch("ann", part):
            for offset in range(given.first, given.last + 1):
                await node.acknowledge("ann", part, offset, offset, AcknowledgeType.RELEASE)
    await asyncio.sleep(0.1)
    assert log.start > 0
    assert log.next - log.start <= 30
    before = node.shards.coordinator.shard_at(0).machine.states
    await node.crash()
    await node.start()
    await node.shards.summary(ShareKey(GROUP, *part))
    after = node.shards.coordinator.shard_at(0).machine.states
    assert {key: state[1:6] for key, state in after.items()} == {
        key: state[1:6] for key, state in before.items()
    }


async def test_dead_letters_are_copied_before_they_are_archived(random: Random) -> None:
    node, part = await node_with_records(share_dead_letter_topic=LETTERS, share_delivery_count_limit="2")
    await node.fetch("ann", part)
    await node.acknowledge("ann", part, 0, 0, AcknowledgeType.REJECT)
    await node.acknowledge("ann", part, 1, 3, AcknowledgeType.ACCEPT)
    await asyncio.sleep(1)
    log = node.topic(LETTERS).log
    found = log.reader.read(0, 1 << 20, log.end)
    assert found is not None
    (letter,) = read_records(found.file.read(found.size, found.position))
    assert (letter.key, letter.value) == (b"a", b"a")
    assert dict(letter.headers)["of-a"] == b"x"
    assert dict(letter.headers)["tidelog.dead.letter.reason"] == b"rejected"
    assert node.kept(part[0]) == (4, 0)


async def test_a_dead_letter_that_cannot_be_written_is_kept_and_tried_again(
    random: Random,
    caplog: pytest.LogCaptureFixture,
) -> None:
    node, part = await node_with_records(share_dead_letter_topic=TOPIC, share_delivery_count_limit="2")
    await node.fetch("ann", part)
    await node.acknowledge("ann", part, 0, 3, AcknowledgeType.REJECT)
    await asyncio.sleep(60)
    assert node.kept(part[0]) == (0, 0)
    assert await node.fetch("ben", part) == []
    assert "cannot be jobs" in caplog.text
    await node.crash()
    await node.start()
    await node.configure(share_dead_letter_topic=LETTERS)
    assert await node.fetch("ben", part) == []
    await asyncio.sleep(60)
    assert node.topic(LETTERS).log.end == 4
    assert node.kept(part[0]) == (4, 0)


def test_keys_of_the_share_coordinator_are_kafkas() -> None:
    key = ShareKey("a:b", UUID(int=1), 3)
    text = coordinator_key(key)
    assert text == "a:b:AAAAAAAAAAAAAAAAAAAAAQ:3"
    assert parse_coordinator_key(text) == key
    for bad in (
        "",
        "a:b",
        "a:x:1",
        ":AAAAAAAAAAAAAAAAAAAAAQ:3",
        "g:AAAAAAAAAAAAAAAAAAAAAQ:-1",
        "g:AAAAAAAAAAAAAAAAAAAAAQ:x",
    ):
        with pytest.raises(errors.InvalidRequest):
            parse_coordinator_key(bad)


async def test_a_fetch_waits_for_records_that_are_not_here_yet(
    random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, part = await node_with_records()
    RecordsElsewhere(monkeypatch)
    started = node.clock.monotonic_ms()
    assert await node.fetch("ann", part, wait_ms=5_000) == [AcquiredRange(0, 3, 1)]
    assert node.clock.monotonic_ms() - started == ARRIVES_S * 1000


async def test_a_dead_letter_is_copied_when_its_record_is_here(
    random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, part = await node_with_records(share_dead_letter_topic=LETTERS, share_delivery_count_limit="2")
    await node.fetch("ann", part)
    elsewhere = RecordsElsewhere(monkeypatch)
    await node.acknowledge("ann", part, 0, 0, AcknowledgeType.REJECT)
    await asyncio.sleep(ARRIVES_S + 0.1)  # less than until the next try
    assert elsewhere.waited == 1
    assert node.topic(LETTERS).log.end == 1
