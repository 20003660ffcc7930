"""OffsetCommit requests through the handler of the common case and without it: the same answers, the same log."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.property.broker.inside import TOPICS, Inside, broker_inside
from tests.property.broker.requests import bent
from tidelog._speed.log.commits import offsets_batch, read_commit
from tidelog.broker import router
from tidelog.broker.handlers.groups import plain_commits
from tidelog.groups.coordinator import OFFSETS_TOPIC
from tidelog.groups.offsets.commits import OffsetCommit, entry_of
from tidelog.groups.offsets.committed import NEVER
from tidelog.groups.record_types import KINDS
from tidelog.record import BatchBuilder
from tidelog.testing import run, seeds
from tidelog.wire.frame import RequestHeader, encode_request, encode_response
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest

OFFSET_COMMIT, JOIN, SYNC, FIND = 8, 11, 14, 10
REQUESTS = 250
NOW_MS = 1_700_000_000_000
TEXTS = ["", "a", "grün", "x" * 126, "x" * 127, "x" * 128, "ü" * 4096, "x" * 4097]


def request(random: Random, version: int, ids: dict[str, Any], member: str, instance: str | None) -> Any:
    """What members send, and now and then something else."""
    topics = []
    for _ in range(random.choice([1] * 9 + [0, 2, 3])):
        name = random.choice([*TOPICS] * 12 + ["nowhere", "grün"])
        parts = [
            OffsetCommitRequestPartition(
                random.choice([0, 1] * 20 + [2, -1, 1 << 30]),
                random.choice([0, 5, (1 << 63) - 1, -1, random.randrange(1 << 40)]),
                random.choice([-1, 0, 7]) if version >= 6 else -1,
                random.choice([None, *TEXTS[:3] * 4, *TEXTS]),
            )
            for _ in range(random.choice([1] * 9 + [0, 2, 5, 130]))
        ]
        if version < 10:
            topics.append(OffsetCommitRequestTopic(name, partitions=parts))
        else:
            topics.append(
                OffsetCommitRequestTopic(topic_id=ids.get(name, random_id(random)), partitions=parts)
            )
    return OffsetCommitRequest(
        random.choice(["readers"] * 20 + ["alone", "alone", "fresh", ""]),
        random.choice([1] * 20 + [-1, -1, 0, 2]),
        random.choice([member] * 20 + ["", "", "stranger"]),
        random.choice([None] * 9 + [instance]) if version >= 7 else None,
        random.choice([-1, 1000]) if version <= 4 else -1,
        topics,
    )


def random_id(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)


async def form(inside: Inside) -> str:
    """A group of one member, in its first generation."""
    await inside.call(FIND, 3, FindCoordinatorRequest("readers"))
    join = JoinGroupRequest(
        "readers", 600_000, 600_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    joined = JoinGroupResponse.decode(await inside.call(JOIN, 3, join), 3)
    assert (joined.error_code, joined.generation_id) == (0, 1)
    await inside.call(SYNC, 3, SyncGroupRequest("readers", 1, joined.member_id))
    return joined.member_id


async def played(random: Random) -> tuple[list[bytes | None], list[tuple[str, bytes]], list[object]]:
    """All answers, all that was written, and what it adds up to."""
    answers: list[bytes | None] = []
    logs: list[tuple[str, bytes]] = []
    async with broker_inside(random) as inside:
        member = await form(inside)
        ids = dict(zip(inside.known.topics, inside.known.ids, strict=True))
        for number in range(REQUESTS):
            version = random.choice([8, 9, 10] * 4 + [2, 5, 6, 7])
            made = request(random, version, ids, member, random.choice(["", "some"]))
            frame = encode_request(RequestHeader(OFFSET_COMMIT, version, number, "me"), made.encode(version))[
                4:
            ]
            answers.append(
                await inside.ask(frame if random.random() < 0.9 else frame[:8] + bent(random, frame[8:]))
            )
        for partition in inside.held():
            if partition.topic == OFFSETS_TOPIC and partition.log.end:
                part = partition.log.reader.read(0, 1 << 30, partition.log.end)
                assert part is not None
                logs.append((str(partition.name), part.file.read(part.size, part.position)))
        states = list[object](inside.offsets())
    return answers, logs, states


@pytest.mark.parametrize("seed", seeds(12))
def test_both_handlers_answer_and_write_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = []
    commit = plain_commits.commit_plainly

    def watched(*asked: Any) -> Any:
        plain.append(commit(*asked))
        return plain[-1]

    monkeypatch.setattr(plain_commits, "commit_plainly", watched)
    with_it = run(played, seed)
    monkeypatch.setattr(router, "PLAIN", {})
    assert run(played, seed) == with_it
    assert sum(one is not None for one in plain) > REQUESTS / 10, "the common case is common"


@pytest.mark.parametrize("seed", seeds(30))
def test_what_is_read_and_written_natively_is_what_the_codec_says(seed: int) -> None:
    random = Random(seed)
    for number in range(20):
        ids = {name: random_id(random) for name in TOPICS}
        version = random.choice([8, 9, 10])
        made = request(random, version, ids, "member", "instance")
        body = made.encode(version)
        asked = read_commit(b"head" + body, 4, version, number)
        if not made.topics or not all(topic.partitions for topic in made.topics):
            assert asked is None  # there is nothing to commit
            continue
        assert asked is not None
        assert (asked.group, asked.epoch) == (made.group_id, made.generation_id_or_member_epoch)
        assert (asked.member, asked.instance) == (made.member_id, made.group_instance_id)
        assert asked.topics == [
            (
                topic.name if version < 10 else topic.topic_id.bytes,
                [
                    (
                        one.partition_index,
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.committed_metadata,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in made.topics
        ]
        assert asked.answer == encode_response(OFFSET_COMMIT, version, number, answered(made).encode(version))
        for cut in random.sample(range(len(body)), min(20, len(body))):
            assert read_commit(body[:cut], 0, version, number) is None


def answered(made: OffsetCommitRequest) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(one.partition_index) for one in topic.partitions],
            )
            for topic in made.topics
        ]
    )


@pytest.mark.parametrize("seed", seeds(30))
def test_a_batch_of_offsets_is_what_the_records_make(seed: int) -> None:
    random = Random(seed)
    made = request(random, 9, {}, "member", None)
    ids = {topic.name: random_id(random) for topic in made.topics}
    topics, builder = [], BatchBuilder()
    for topic in made.topics:
        parts = [
            (one.partition_index, one.committed_offset, one.committed_leader_epoch, one.committed_metadata)
            for one in topic.partitions
        ]
        topics.append((topic.name, ids[topic.name].bytes, parts))
        for one in parts:
            entry = entry_of(made.group_id, OffsetCommit(topic.name, ids[topic.name], *one), NOW_MS, NEVER)
            builder.add(*KINDS.encode(entry), NOW_MS)
    if len(builder):
        assert offsets_batch(made.group_id, topics, NOW_MS) == builder.build()
