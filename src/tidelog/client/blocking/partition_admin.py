"""The blocking admin client's part for replicas and leaders: each method runs the asyncio one on the clients'
thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelog.client.admin.partition_admin import Reassignment
from tidelog.client.admin.replica_states import PartitionState, ReplicaLog
from tidelog.client.blocking.admin_part import AdminPart
from tidelog.errors import TidelogError
from tidelog.types import TopicPartition


class BlockingPartitionAdmin(AdminPart):
    def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begins to move each partition's replicas to these brokers, the preferred leader first; None cancels the
        move.

        admin.reassign_partitions({TopicPartition("orders", 0): [2, 3, 1]})
        """
        self._run(self._core.reassign_partitions(targets))

    def list_reassignments(self) -> list[Reassignment]:
        """The reassignments that are under way.

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
        """Elects the preferred leader (the first replica) of each partition.  In the result, None stands for success.

        admin.elect_leaders([TopicPartition("orders", 0)])
        """
        return self._run(self._core.elect_leaders(partitions, unclean=unclean, chosen=chosen))

    def describe_partitions(self, topics: Iterable[str]) -> dict[TopicPartition, PartitionState]:
        """The leader, ISR, eligible leader replicas, replicas in doubt and awaited brokers of each partition.

        states = admin.describe_partitions(["orders"])
        """
        return self._run(self._core.describe_partitions(topics))

    def describe_replica_logs(
        self, broker: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ReplicaLog]:
        """The log end offsets and leader epochs of these partitions' logs on one broker, the leader or not.

        logs = admin.describe_replica_logs(1, [TopicPartition("orders", 0)])
        """
        return self._run(self._core.describe_replica_logs(broker, partitions))
