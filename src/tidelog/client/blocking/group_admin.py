"""The blocking admin client's part for groups: each method runs the asyncio one on the clients' thread."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidelog.client.admin import groups
from tidelog.client.admin.groups import GroupDescription, GroupListing
from tidelog.client.admin.lag import Lag
from tidelog.client.admin.share_group_offsets import ShareOffset
from tidelog.client.blocking.admin_part import AdminPart
from tidelog.client.groups.metadata import OffsetAndMetadata, Offsets
from tidelog.types import TopicPartition


class BlockingGroupAdmin(AdminPart):
    def list_groups(
        self,
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        brokers: Collection[int] | None = None,
    ) -> list[GroupListing]:
        """By name; `types`: "classic", "consumer", "share"; `brokers`: only those that these coordinate.

        groups = admin.list_groups(types=["share"])
        """
        return self._run(self._core.list_groups(states=states, types=types, brokers=brokers))

    def describe_groups(
        self, group_ids: Iterable[str], *, missing_ok: bool = False
    ) -> dict[str, GroupDescription]:
        """Groups of any type, with their members and who has which partition; many take few requests.  With
        `missing_ok` those that are not there are left out.

            members = admin.describe_groups(["billing"])["billing"].members
        """
        return self._run(self._core.describe_groups(group_ids, missing_ok=missing_ok))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Groups without members, and their offsets.

        admin.delete_groups(["billing"])
        """
        self._run(self._core.delete_groups(group_ids))

    def remove_group_members(
        self,
        group_id: str,
        members: Iterable[groups.GroupMember],
        reason: str = "removed by an administrator",
    ) -> None:
        """From a classic group, such as static members that will not return.

        admin.remove_group_members("billing", members)
        """
        self._run(self._core.remove_group_members(group_id, members, reason))

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed: for these partitions, or for all it has offsets for.

        offsets = admin.list_group_offsets("billing")
        """
        return self._run(self._core.list_group_offsets(group_id, partitions, require_stable=require_stable))

    def list_groups_offsets(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """The same for many groups, with few requests.

        offsets = admin.list_groups_offsets(["billing", "kitchen"])
        """
        return self._run(self._core.list_groups_offsets(group_ids))

    def alter_group_offsets(self, group_id: str, offsets: Offsets) -> None:
        """Sets where the group goes on; it must have no members.

        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
        """
        self._run(self._core.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Of topics that no member is subscribed to.

        admin.delete_group_offsets("billing", [TopicPartition("orders", 0)])
        """
        self._run(self._core.delete_group_offsets(group_id, partitions))

    def group_lag(self, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, Lag]:
        """How many records lie between these offsets and the end that a reader can still get: markers and
        aborted records are not counted.  Partitions that are gone are left out.

            lag = admin.group_lag({TopicPartition("orders", 0): 42})
        """
        return self._run(self._core.group_lag(committed))

    def list_share_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareOffset]:
        """Where the share group has got to in each partition.

        offsets = admin.list_share_group_offsets("workers")
        """
        return self._run(self._core.list_share_group_offsets(group_id, partitions))

    def list_share_groups_offsets(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, ShareOffset]]:
        """The same for many share groups, with few requests; without partitions that nobody can tell of now.

        offsets = admin.list_share_groups_offsets(["workers", "mailers"])
        """
        return self._run(self._core.list_share_groups_offsets(group_ids))

    def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets where the share group goes on; it must have no members.

        admin.alter_share_group_offsets("workers", {TopicPartition("jobs", 0): 0})
        """
        self._run(self._core.alter_share_group_offsets(group_id, offsets))

    def delete_share_group_offsets(self, group_id: str, topics: Collection[str]) -> None:
        """Forgets what the share group has done with these topics; it must have no members.

        admin.delete_share_group_offsets("workers", ["jobs"])
        """
        self._run(self._core.delete_share_group_offsets(group_id, topics))
