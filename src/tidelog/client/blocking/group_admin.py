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
        """Groups in these states and of these types ("classic", "consumer", "share"), sorted by name; `brokers`: only
        groups that these brokers coordinate.

        groups = admin.list_groups(types=["share"])
        """
        return self._run(self._core.list_groups(states=states, types=types, brokers=brokers))

    def describe_groups(
        self, group_ids: Iterable[str], *, missing_ok: bool = False
    ) -> dict[str, GroupDescription]:
        """Describes groups of any type, with their members and the partitions of each, in one request per
        coordinator.  With `missing_ok`, groups that do not exist are left out.

            members = admin.describe_groups(["billing"])["billing"].members
        """
        return self._run(self._core.describe_groups(group_ids, missing_ok=missing_ok))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Deletes groups, which must have no members, and their offsets.

        admin.delete_groups(["billing"])
        """
        self._run(self._core.delete_groups(group_ids))

    def remove_group_members(
        self,
        group_id: str,
        members: Iterable[groups.GroupMember],
        reason: str = "removed by an administrator",
    ) -> None:
        """Removes members from a classic group, such as static members that will not return.

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
        """The committed offsets of the group: of these partitions, or of all partitions that it has offsets for.

        offsets = admin.list_group_offsets("billing")
        """
        return self._run(self._core.list_group_offsets(group_id, partitions, require_stable=require_stable))

    def list_groups_offsets(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """The committed offsets of many groups, in one request per coordinator.

        offsets = admin.list_groups_offsets(["billing", "kitchen"])
        """
        return self._run(self._core.list_groups_offsets(group_ids))

    def alter_group_offsets(self, group_id: str, offsets: Offsets) -> None:
        """Sets committed offsets of the group, which must have no members.

        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
        """
        self._run(self._core.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Deletes committed offsets of topics that no member is subscribed to.

        admin.delete_group_offsets("billing", [TopicPartition("orders", 0)])
        """
        self._run(self._core.delete_group_offsets(group_id, partitions))

    def group_lag(self, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, Lag]:
        """The number of records between these offsets and the end of the log that a reader can still get: transaction
        markers and aborted records do not count.  Partitions that no longer exist are left out.

            lag = admin.group_lag({TopicPartition("orders", 0): 42})
        """
        return self._run(self._core.group_lag(committed))

    def list_share_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareOffset]:
        """The start offset of the share group in each partition: every record below it is acknowledged.

        offsets = admin.list_share_group_offsets("workers")
        """
        return self._run(self._core.list_share_group_offsets(group_id, partitions))

    def list_share_groups_offsets(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, ShareOffset]]:
        """The start offsets of many share groups, in one request per coordinator.  Partitions whose state is
        unavailable now are left out.

        offsets = admin.list_share_groups_offsets(["workers", "mailers"])
        """
        return self._run(self._core.list_share_groups_offsets(group_ids))

    def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets start offsets of the share group, which must have no members.

        admin.alter_share_group_offsets("workers", {TopicPartition("jobs", 0): 0})
        """
        self._run(self._core.alter_share_group_offsets(group_id, offsets))

    def delete_share_group_offsets(self, group_id: str, topics: Collection[str]) -> None:
        """Deletes the share group's offsets of these topics; the group must have no members.

        admin.delete_share_group_offsets("workers", ["jobs"])
        """
        self._run(self._core.delete_share_group_offsets(group_id, topics))
