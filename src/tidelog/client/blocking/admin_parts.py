"""The blocking admin client's parts for groups and for transactions."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tidelog.client.admin import admin, groups
from tidelog.client.admin.groups import GroupDescription, GroupListing
from tidelog.client.admin.lag import Lag
from tidelog.client.admin.partition_admin import Reassignment
from tidelog.client.admin.replica_states import PartitionState, ReplicaLog
from tidelog.client.admin.share_group_offsets import ShareOffset
from tidelog.client.admin.transaction_admin import ActiveProducer, TransactionDescription, TransactionListing
from tidelog.client.groups.metadata import OffsetAndMetadata, Offsets
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.errors import TidelogError
from tidelog.types import TopicPartition

T = TypeVar("T")


class _Part:
    _core: admin.Admin

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        raise AssertionError("the admin client says how")


class BlockingGroupAdmin(_Part):
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


class BlockingTransactionAdmin(_Part):
    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """By transactional id; those that all filters let through.  `pattern`: a regular expression for the whole id.

        hanging = admin.list_transactions(longer_than_ms=3_600_000)
        """
        return self._run(
            self._core.list_transactions(
                states=states, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
            )
        )

    def describe_transactions(self, ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """State, producer and partitions of each.

        found = admin.describe_transactions(["billing-1"])["billing-1"]
        """
        return self._run(self._core.describe_transactions(ids))

    def describe_producers(self, partition: TopicPartition) -> list[ActiveProducer]:
        """Who has written to the partition lately, and which transactions are open in it.

        producers = admin.describe_producers(TopicPartition("orders", 0))
        """
        return self._run(self._core.describe_producers(partition))

    def fence_producer(self, transactional_id: str) -> None:
        """Whoever writes under this id now cannot go on, and what he has open is aborted.

        admin.fence_producer("billing-1")
        """
        self._run(self._core.fence_producer(transactional_id))

    def end_transaction(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Commits or aborts what `Producer.prepare_transaction` has left open; may be repeated.

        admin.end_transaction(prepared, commit=True)
        """
        self._run(self._core.end_transaction(prepared, commit=commit))

    def abort_transaction(self, partition: TopicPartition, start_offset: int) -> None:
        """Ends a transaction that hangs in a partition because no coordinator knows of it any more.

        admin.abort_transaction(TopicPartition("orders", 0), start_offset=42)
        """
        self._run(self._core.abort_transaction(partition, start_offset))


class BlockingPartitionAdmin(_Part):
    def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begins to move each partition to the brokers named, the one to lead first; None calls its move off.

        admin.reassign_partitions({TopicPartition("orders", 0): [2, 3, 1]})
        """
        self._run(self._core.reassign_partitions(targets))

    def list_reassignments(self) -> list[Reassignment]:
        """The moves that are under way.

        moves = admin.list_reassignments()
        """
        return self._run(self._core.list_reassignments())

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        chosen: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, TidelogError | None]:
        """The first replica of each partition takes the lead; None stands for success.

        admin.elect_leaders([TopicPartition("orders", 0)])
        """
        return self._run(self._core.elect_leaders(partitions, unclean=unclean, chosen=chosen))

    def describe_partitions(self, topics: Iterable[str]) -> dict[TopicPartition, PartitionState]:
        """Leaders, in-sync sets, eligible leader replicas, replicas in doubt, and brokers that are waited for.

        states = admin.describe_partitions(["orders"])
        """
        return self._run(self._core.describe_partitions(topics))

    def describe_replica_logs(
        self, broker: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ReplicaLog]:
        """How far the logs of these partitions reach on one broker, whoever leads them.

        logs = admin.describe_replica_logs(1, [TopicPartition("orders", 0)])
        """
        return self._run(self._core.describe_replica_logs(broker, partitions))
