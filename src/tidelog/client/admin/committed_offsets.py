"""The committed offsets of many groups, with one request for each coordinator.  `Admin` is the face of this."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog import errors
from tidelog.client.admin.many_groups import ask_coordinators, offsets_by_group
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import check, raise_all
from tidelog.client.groups.metadata import OffsetAndMetadata
from tidelog.client.groups.offsets import GROUPS_VERSION_MIN, NAMES_VERSION_MAX, NO_OFFSET
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

Offsets = dict[TopicPartition, OffsetAndMetadata]


async def list_all(cluster: Cluster, group_ids: Sequence[str], *, timeout_ms: int) -> dict[str, Offsets]:
    """Groups that do not exist have no offsets."""
    offsets, problems = await ask_coordinators(cluster, group_ids, "OffsetFetch", _ask, timeout_ms=timeout_ms)
    raise_all("some offsets could not be fetched", list(dict.fromkeys(problems.values())))
    return offsets


async def _ask(connection: Requester, groups: list[str]) -> dict[str, Offsets | errors.TidelogError]:
    version = connection.version_of(OffsetFetchRequest, NAMES_VERSION_MAX)
    if version < GROUPS_VERSION_MIN:
        raise errors.UnsupportedVersion("this broker is too old for a request about several groups")
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in groups]
    )
    answer = await connection.ask(request, OffsetFetchResponse, version=version)
    return offsets_by_group(answer.groups, _offsets)


def _offsets(group: OffsetFetchResponseGroup) -> Offsets:
    check(group.error_code, f"the offsets of group {group.group_id!r}")
    offsets: Offsets = {}
    for topic in group.topics:
        for part in topic.partitions:
            where = TopicPartition(topic.name, part.partition_index)
            check(part.error_code, f"the offset of group {group.group_id!r} for {where}")
            if part.committed_offset != NO_OFFSET:
                offsets[where] = OffsetAndMetadata(
                    part.committed_offset, part.metadata or "", part.committed_leader_epoch
                )
    return offsets
