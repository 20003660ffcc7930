"""ListGroups, DescribeGroups and DeleteGroups: lists groups of all types, finds classic ones, deletes empty ones."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog import errors
from tidelog.groups.classic.coordinator import ClassicGroups
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.coordinator import Groups
from tidelog.groups.group import Group
from tidelog.groups.offsets import commits


class GroupDirectory:
    def __init__(self, groups: Groups, classic: ClassicGroups) -> None:
        self._groups = groups
        self._classic = classic

    async def list(self, states: Sequence[str], kinds: Sequence[str]) -> list[Group]:
        """Groups in one of `states` and of one of the types `kinds`, in any case; an empty sequence selects all."""
        coordinator = self._groups.coordinator
        if coordinator.loading:
            raise errors.CoordinatorLoadInProgress("groups are being loaded: try again")
        wanted_states = {state.strip().lower() for state in states}
        wanted_kinds = {kind.lower() for kind in kinds}
        groups = []
        for shard in coordinator.shards():
            for group in shard.machine.groups.values():
                if wanted_states and group.state_name.lower() not in wanted_states:
                    continue
                if not wanted_kinds or group.kind in wanted_kinds:
                    groups.append(group)
            await shard.settled(self._groups.commit_timeout_ms)
        return groups

    async def classic(self, group_id: str) -> ClassicGroup:
        shard = self._groups.shard(group_id)
        await shard.settled(self._groups.commit_timeout_ms)
        group = shard.machine.groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ClassicGroup):
            raise errors.GroupIdNotFound(f"Group {group_id} is not a classic group.")
        return group

    def kind_of(self, group_id: str) -> str | None:
        """The group's type; None if the group does not exist."""
        group = self._groups.shard(group_id).machine.groups.get(group_id)
        return None if group is None else group.kind

    async def delete(self, group_id: str) -> None:
        """The group and all its offsets, in one batch."""
        shard = self._groups.shard(group_id)
        group = shard.machine.groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        group.check_delete()
        entries = [*commits.delete_all(shard.machine, group_id), *group.tombstones()]
        appended = shard.append(entries)
        if isinstance(group, ClassicGroup):
            self._classic.forget(group)
        await shard.committed(appended, self._groups.commit_timeout_ms)
