"""A group's committed offsets at its coordinator: OffsetFetch and OffsetCommit.  Consumers commit as a member of the
group, in its generation; the admin client and consumers without a membership commit without a member id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.coordinator import CoordinatorLookup
from tidelog.client.cluster.response_errors import problem_of
from tidelog.client.errors import CommitFailed
from tidelog.client.groups.consumer_protocol import by_topic
from tidelog.client.groups.metadata import GroupMetadata, OffsetAndMetadata
from tidelog.types import TopicPartition
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

T = TypeVar("T")

NAMES_VERSION_MAX = 9  # later versions carry topic ids instead of names
GROUPS_VERSION_MIN = 8
STABLE_VERSION_MIN = 7
MEMBER_VERSION_MIN = 9
NO_OFFSET = -1
OUT_OF_GROUP = (
    errors.UnknownMemberId,
    errors.IllegalGeneration,
    errors.FencedInstanceId,
    errors.FencedMemberEpoch,
)
# Errors that pass: a transaction ends, a heartbeat brings a new epoch.
LATER = (errors.UnstableOffsetCommit, errors.StaleMemberEpoch)


# A coordinator may hear of a new topic a moment later than its readers.  A topic that is still missing after this time
# was deleted, or never existed, and waiting would only hold up the commit.
MISSING_MS = 1_000


class _Gone(errors.UnknownTopicOrPartition):
    """Not retriable here, though it is everywhere else."""


class _Again(errors.Retriable):
    """Retriable here, though not everywhere."""


class CoordinatorOffsets:
    def __init__(
        self,
        cluster: Cluster,
        coordinator: CoordinatorLookup,
        group_id: str,
        committer: Callable[[], GroupMetadata | None],
        *,
        require_stable: bool = False,
    ) -> None:
        """`committer` says who commits: None for a member that is not in the group now.  `require_stable`: offsets
        that an unfinished transaction may still change are waited for."""
        self._cluster = cluster
        self._coordinator = coordinator
        self._group_id = group_id
        self._committer = committer
        self._require_stable = require_stable

    async def load(
        self, partitions: Collection[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of the partitions that have one."""
        return await self._load(list(partitions), timeout_ms)

    async def load_all(self, timeout_ms: int | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        return await self._load(None, timeout_ms)

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int | None = None
    ) -> None:
        """Raises `CommitFailed` when the partitions may have gone to others, `RebalanceInProgress` when they
        may be about to."""
        clock = self._cluster.environment.clock
        begun_ms = clock.monotonic_ms()

        async def attempt() -> None:
            try:
                await self._commit(offsets)
            except errors.UnknownTopicOrPartition as problem:
                if clock.monotonic_ms() - begun_ms < MISSING_MS:
                    raise
                raise _Gone(str(problem)) from None

        if offsets:
            try:
                await self._retrying("OffsetCommit", attempt, timeout_ms)
            except _Gone as problem:
                raise errors.UnknownTopicOrPartition(str(problem)) from None

    async def _load(
        self, partitions: list[TopicPartition] | None, timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if partitions == []:
            return {}
        return await self._retrying("OffsetFetch", lambda: self._ask_load(partitions), timeout_ms)

    async def _retrying(self, purpose: str, attempt: Callable[[], Awaitable[T]], timeout_ms: int | None) -> T:
        async def watched() -> T:
            try:
                return await attempt()
            except LATER as problem:
                raise _Again(str(problem)) from problem
            except errors.TidelogError as problem:
                self._coordinator.failed(problem)
                raise

        options = self._cluster.options
        most_ms = options.request_timeout_ms if timeout_ms is None else timeout_ms
        # A rebalance ends when the member takes part in it, which a caller that waits here does not.
        return await self._cluster.retrying(purpose, watched, most_ms, (errors.RebalanceInProgress, _Gone))

    # Requests and answers

    async def _ask_load(
        self, partitions: list[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        connection = await self._coordinator.connection()
        version = connection.version_of(OffsetFetchRequest, NAMES_VERSION_MAX)
        answer = await connection.ask(
            self._load_request(partitions, version), OffsetFetchResponse, version=version
        )
        subject = f"the offsets of group {self._group_id!r}"
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        groups = answer.groups if version >= GROUPS_VERSION_MIN else [answer]
        for group in groups:
            if group.error_code != errors.NONE:
                raise problem_of(group.error_code, subject)
            for topic in group.topics:
                for part in topic.partitions:
                    if part.error_code != errors.NONE:
                        raise problem_of(part.error_code, f"{subject}, {topic.name}-{part.partition_index}")
                    if part.committed_offset != NO_OFFSET:
                        offsets[TopicPartition(topic.name, part.partition_index)] = OffsetAndMetadata(
                            part.committed_offset, part.metadata or "", part.committed_leader_epoch
                        )
        return offsets

    def _load_request(self, partitions: list[TopicPartition] | None, version: int) -> OffsetFetchRequest:
        topics = None if partitions is None else by_topic(partitions)
        stable = self._require_stable and version >= STABLE_VERSION_MIN
        if version < GROUPS_VERSION_MIN:
            plain = None
            if topics is not None:
                plain = [OffsetFetchRequestTopic(name, indexes) for name, indexes in topics.items()]
            return OffsetFetchRequest(group_id=self._group_id, topics=plain, require_stable=stable)
        group = OffsetFetchRequestGroup(group_id=self._group_id, topics=None)
        if topics is not None:
            group.topics = [
                OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ]
        committer = self._committer()
        if (
            version >= MEMBER_VERSION_MIN
            and committer is not None
            and committer.member_id
            and committer.generation_id >= 0
        ):
            group.member_id, group.member_epoch = committer.member_id, committer.generation_id
        return OffsetFetchRequest(groups=[group], require_stable=stable)

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        connection = await self._coordinator.connection()
        version = connection.version_of(OffsetCommitRequest, NAMES_VERSION_MAX)
        committer = self._committer()
        if committer is None:
            raise self._out_of_group("offsets")
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(index, offset.offset, offset.leader_epoch, offset.metadata)
            )
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=committer.generation_id,
            member_id=committer.member_id if committer.generation_id >= 0 else "",
            group_instance_id=committer.group_instance_id if committer.generation_id >= 0 else None,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        answer = await connection.ask(request, OffsetCommitResponse, version=version)
        for topic_answer in answer.topics:
            for part in topic_answer.partitions:
                if part.error_code != errors.NONE:
                    raise self._commit_problem(part.error_code, f"{topic_answer.name}-{part.partition_index}")

    def _commit_problem(self, code: int, partition: str) -> errors.TidelogError:
        problem = problem_of(code, f"committing {partition} for group {self._group_id!r}")
        return self._out_of_group(partition) if isinstance(problem, OUT_OF_GROUP) else problem

    def _out_of_group(self, subject: str) -> CommitFailed:
        committer = self._committer()
        if committer is not None and committer.generation_id < 0:
            return CommitFailed(
                f"committing {subject} for group {self._group_id!r}: the group has members, and only they may commit; "
                "stop them first"
            )
        return CommitFailed(
            f"committing {subject} for group {self._group_id!r}: this consumer is not in the group any more, and "
            "others may have its partitions; poll to join again, and poll more often, or raise "
            "max_poll_interval_ms"
        )
