"""Plans a reset of a group's offsets, with the logs as they are now.  The command line and the console show the plan
before they apply it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.client.admin.reset_target import LogBounds, ResetTarget, placed
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin.admin import Admin


async def plan_reset(
    admin: Admin,
    target: ResetTarget,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The new offset of each partition; raises `NothingToShift`."""
    starts = await admin.list_offsets(dict.fromkeys(partitions, "earliest"))
    ends = await admin.list_offsets(dict.fromkeys(partitions, "latest"))
    bounds = {
        partition: LogBounds(starts[partition].offset, ends[partition].offset) for partition in partitions
    }
    at_time: dict[TopicPartition, int] = {}
    if target.kind == "time":
        offsets = await admin.list_offsets(dict.fromkeys(partitions, target.value))
        at_time = {partition: at.offset for partition, at in offsets.items()}
    return placed(target, partitions, committed, bounds, at_time)


async def is_share_group(admin: Admin, group_id: str) -> bool:
    return any(group.group_id == group_id for group in await admin.list_groups(types=["share"]))


async def offsets_of(admin: Admin, group_id: str) -> dict[TopicPartition, int]:
    """The current offsets of a group of any type."""
    if await is_share_group(admin, group_id):
        shared = await admin.list_share_group_offsets(group_id)
        return {partition: at.offset for partition, at in shared.items()}
    return {partition: at.offset for partition, at in (await admin.list_group_offsets(group_id)).items()}


async def set_offsets(admin: Admin, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Sets the offsets of a group of any type, which must have no members."""
    if await is_share_group(admin, group_id):
        await admin.alter_share_group_offsets(group_id, offsets)
    else:
        await admin.alter_group_offsets(group_id, dict(offsets))
