"""OffsetCommit (api 8) in the common case, versions 8-10: existing partitions, a member of the group.

Read, written and answered without a message object in between.  Whatever is different is left to `handlers.offsets`,
which has all the rules and does the same in this case: a property test holds the two against each other.  Nothing is
changed before the records are in the log."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any
from uuid import UUID

from tidelog import errors
from tidelog._speed.log.commits import CommitRequest, read_commit
from tidelog.broker.services import Services
from tidelog.broker.session import Session
from tidelog.groups.offsets.commits import CommittingMember
from tidelog.groups.offsets.committed import Partition
from tidelog.metadata.image.image import Image, TopicImage
from tidelog.wire.acls import AclOperation, AclResourceType
from tidelog.wire.frame import encode_response
from tidelog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

OFFSET_COMMIT = 8

Known = list[tuple[TopicImage, list[Partition]]]


def commit_plainly(
    frame: memoryview, at: int, version: int, correlation_id: int, session: Session, services: Services
) -> bytes | Coroutine[Any, Any, bytes] | None:
    """The answer, or what it waits for; None when nothing was done."""
    config = services.config()
    request = read_commit(frame, at, version, correlation_id)
    if request is None or config.offsets_topic_compression_codec:
        return None  # what this path writes is not compressed
    if request.epoch < 0 and services.gate.audit.enabled:
        return None  # what no member commits may be for the audit trail
    commits = _known(request, services.image(), config.offset_metadata_max_bytes)
    if commits is None or not _may_commit(session, request.group, commits, services):
        return None
    who = CommittingMember(request.group, request.member, request.instance, request.epoch, version)
    done = services.group_offsets.commit_at_once(who, commits)
    if done is None:
        return None
    return (
        request.answer
        if done.wait is None
        else _committed(request, commits, done.wait, version, correlation_id)
    )


def _may_commit(session: Session, group: str, commits: Known, services: Services) -> bool:
    """What is refused is left to the handler that has the words for it."""
    allows = services.gate.sees  # the other handler records what it refuses
    return allows(session, AclOperation.READ, AclResourceType.GROUP, group) and all(
        allows(session, AclOperation.READ, AclResourceType.TOPIC, topic.name) for topic, _ in commits
    )


def _known(request: CommitRequest, image: Image, metadata_max: int) -> Known | None:
    commits = []
    for name, partitions in request.topics:
        if type(name) is str:
            topic = image.topics.get(name)
        else:
            assert isinstance(name, bytes)
            topic = image.topic_by_id(UUID(bytes=name))
        if topic is None:
            return None
        end = len(topic.partitions)
        for index, _, _, metadata in partitions:
            if not 0 <= index < end or (metadata is not None and len(metadata) > metadata_max):
                return None
        commits.append((topic, partitions))
    return commits


async def _committed(
    request: CommitRequest, commits: Known, wait: Awaitable[None], version: int, correlation_id: int
) -> bytes:
    try:
        await wait
    except errors.TidelogError as problem:
        return encode_response(
            OFFSET_COMMIT, version, correlation_id, _failed(commits, problem.code).encode(version)
        )
    return request.answer


def _failed(commits: Known, code: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.id,
                [OffsetCommitResponsePartition(index, code) for index, *_ in partitions],
            )
            for topic, partitions in commits
        ]
    )
