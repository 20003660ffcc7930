"""What many groups have committed, asked with one request for each coordinator.  `Admin` is the face of this."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog import errors
from tidelog.client.addresses import Address
from tidelog.client.answers import check
from tidelog.client.cluster import Cluster
from tidelog.client.coordinator import KEYS_VERSION_MIN, Kind
from tidelog.client.group_metadata import OffsetAndMetadata
from tidelog.client.group_offsets import GROUPS_VERSION_MIN, NAMES_VERSION_MAX, NO_OFFSET
from tidelog.types import TopicPartition
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

GROUPS_MAX = 200  # in one request

GroupsOffsets = dict[str, dict[TopicPartition, OffsetAndMetadata]]


async def list_all(cluster: Cluster, group_ids: Sequence[str], *, timeout_ms: int) -> GroupsOffsets:
    """Groups that are gone have none."""
    found: GroupsOffsets = {}

    async def ask_the_rest() -> None:
        rest = [one for one in dict.fromkeys(group_ids) if one not in found]
        for at in range(0, len(rest), GROUPS_MAX):
            for address, groups in (await _coordinators(cluster, rest[at : at + GROUPS_MAX])).items():
                await _ask(cluster, address, groups, found)

    await cluster.retrying("OffsetFetch", ask_the_rest, timeout_ms)
    return found


async def _coordinators(cluster: Cluster, groups: Sequence[str]) -> dict[Address, list[str]]:
    connection = await cluster.any()
    version = connection.version_of(FindCoordinatorRequest)
    if version < KEYS_VERSION_MIN:
        raise errors.UnsupportedVersion("this broker is too old to be asked about several groups at once")
    request = FindCoordinatorRequest(key_type=Kind.GROUP, coordinator_keys=list(groups))
    answer = await connection.ask(request, FindCoordinatorResponse, version=version)
    found: dict[Address, list[str]] = {}
    for one in answer.coordinators:
        check(one.error_code, f"the coordinator of group {one.key!r}", one.error_message)
        found.setdefault(Address(one.host, one.port), []).append(one.key)
    return found


async def _ask(cluster: Cluster, address: Address, groups: list[str], found: GroupsOffsets) -> None:
    connection = await cluster.at(address)
    version = connection.version_of(OffsetFetchRequest, NAMES_VERSION_MAX)
    if version < GROUPS_VERSION_MIN:
        raise errors.UnsupportedVersion("this broker is too old to be asked about several groups at once")
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=one, topics=None) for one in groups]
    )
    answer = await connection.ask(request, OffsetFetchResponse, version=version)
    problem: errors.TidelogError | None = None
    for group in answer.groups:
        try:
            found[group.group_id] = _offsets(group)
        except errors.GroupIdNotFound:
            found[group.group_id] = {}
        except errors.TidelogError as one:
            problem = one
    if problem is not None:
        raise problem


def _offsets(group: OffsetFetchResponseGroup) -> dict[TopicPartition, OffsetAndMetadata]:
    check(group.error_code, f"the offsets of group {group.group_id!r}")
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in group.topics:
        for part in topic.partitions:
            where = TopicPartition(topic.name, part.partition_index)
            check(part.error_code, f"the offset of group {group.group_id!r} for {where}")
            if part.committed_offset != NO_OFFSET:
                offsets[where] = OffsetAndMetadata(
                    part.committed_offset, part.metadata or "", part.committed_leader_epoch
                )
    return offsets
