"""The admin client's part for groups: members, committed offsets, lag, share groups' offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidelog.client.admin import committed_offsets, groups, lag, share_group_offsets
from tidelog.client.admin.groups import GroupDescription, GroupListing
from tidelog.client.admin.lag import Lag
from tidelog.client.admin.share_group_offsets import ShareOffset
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.coordinator import CoordinatorLookup, CoordinatorType
from tidelog.client.groups.metadata import GroupMetadata, OffsetAndMetadata, Offsets, with_metadata
from tidelog.client.groups.offsets import CoordinatorOffsets
from tidelog.client.topic_names import names_of
from tidelog.types import TopicPartition


class GroupAdmin:
    _timeout_ms: int

    def _running(self) -> Cluster:
        raise AssertionError("the admin client says whether it runs")

    async def list_groups(
        self,
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        brokers: Collection[int] | None = None,
    ) -> list[GroupListing]:
        """Groups in these states and of these types ("classic", "consumer", "share"), sorted by name; `brokers`: only
        groups that these brokers coordinate.

        groups = await admin.list_groups(types=["share"])
        """
        return await groups.list_groups(
            self._running(), names_of(states), names_of(types), brokers, timeout_ms=self._timeout_ms
        )

    async def describe_groups(
        self, group_ids: Iterable[str], *, missing_ok: bool = False
    ) -> dict[str, GroupDescription]:
        """Describes groups of any type, with their members and the partitions of each, in one request per
        coordinator.  With `missing_ok`, groups that do not exist are left out.

            members = (await admin.describe_groups(["billing"]))["billing"].members
        """
        return await groups.describe_groups(
            self._running(), names_of(group_ids), missing_ok=missing_ok, timeout_ms=self._timeout_ms
        )

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Deletes groups, which must have no members, and their offsets.

        await admin.delete_groups(["billing"])
        """
        await groups.delete_groups(self._running(), names_of(group_ids), timeout_ms=self._timeout_ms)

    async def remove_group_members(
        self,
        group_id: str,
        members: Iterable[groups.GroupMember],
        reason: str = "removed by an administrator",
    ) -> None:
        """Removes members from a classic group, such as static members that will not return.

        await admin.remove_group_members("billing", members)
        """
        await groups.remove_members(self._running(), group_id, members, reason, timeout_ms=self._timeout_ms)

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of the group: of these partitions, or of all partitions that it has offsets for.

        offsets = await admin.list_group_offsets("billing")
        """
        offsets = self._offsets_of(group_id, require_stable)
        if partitions is None:
            return await offsets.load_all(self._timeout_ms)
        return await offsets.load(partitions, self._timeout_ms)

    async def list_groups_offsets(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """The committed offsets of many groups, in one request per coordinator.

        offsets = await admin.list_groups_offsets(["billing", "kitchen"])
        """
        return await committed_offsets.list_all(
            self._running(), names_of(group_ids), timeout_ms=self._timeout_ms
        )

    async def alter_group_offsets(self, group_id: str, offsets: Offsets) -> None:
        """Sets committed offsets of the group, which must have no members.

        await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
        """
        await self._offsets_of(group_id).commit(with_metadata(offsets), self._timeout_ms)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Deletes committed offsets of topics that no member is subscribed to.

        await admin.delete_group_offsets("billing", [TopicPartition("orders", 0)])
        """
        await groups.delete_offsets(self._running(), group_id, partitions, timeout_ms=self._timeout_ms)

    async def group_lag(self, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, Lag]:
        """The number of records between these offsets and the end of the log that a reader can still get: transaction
        markers and aborted records do not count.  Partitions that no longer exist are left out.

            lag = await admin.group_lag({TopicPartition("orders", 0): 42})
        """
        return await lag.lags(self._running(), committed, timeout_ms=self._timeout_ms)

    # Share groups

    async def list_share_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareOffset]:
        """The start offset of the share group in each partition: every record below it is acknowledged.

        offsets = await admin.list_share_group_offsets("workers")
        """
        return await share_group_offsets.describe(
            self._running(), group_id, partitions, timeout_ms=self._timeout_ms
        )

    async def list_share_groups_offsets(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, ShareOffset]]:
        """The start offsets of many share groups, in one request per coordinator.  Partitions whose state is
        unavailable now are left out.

        offsets = await admin.list_share_groups_offsets(["workers", "mailers"])
        """
        return await share_group_offsets.describe_all(
            self._running(), names_of(group_ids), timeout_ms=self._timeout_ms
        )

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets start offsets of the share group, which must have no members.

        await admin.alter_share_group_offsets("workers", {TopicPartition("jobs", 0): 0})
        """
        await share_group_offsets.alter(self._running(), group_id, offsets, timeout_ms=self._timeout_ms)

    async def delete_share_group_offsets(self, group_id: str, topics: Collection[str]) -> None:
        """Deletes the share group's offsets of these topics; the group must have no members.

        await admin.delete_share_group_offsets("workers", ["jobs"])
        """
        await share_group_offsets.delete(
            self._running(), group_id, names_of(topics), timeout_ms=self._timeout_ms
        )

    def _offsets_of(self, group_id: str, require_stable: bool = False) -> CoordinatorOffsets:
        cluster = self._running()
        return CoordinatorOffsets(
            cluster,
            CoordinatorLookup(cluster, CoordinatorType.GROUP, group_id),
            group_id,
            lambda: GroupMetadata(group_id),
            require_stable=require_stable,
        )
