"""The admin client's part for replicas and leaders: reassignments, leader elections, states of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelog import errors
from tidelog.client.admin import replica_states
from tidelog.client.admin.replica_states import PartitionState, ReplicaLog
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import check, problem_of, raise_all
from tidelog.client.topic_names import names_of
from tidelog.types import TopicPartition
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

PREFERRED, UNCLEAN = 0, 1


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition that is being moved: all replicas that it has now, the replicas that are added, and the replicas
    that will be removed."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PartitionAdmin:
    _timeout_ms: int

    def _running(self) -> Cluster:
        raise AssertionError("the admin client says whether it runs")

    async def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begins to move each partition's replicas to these brokers, the preferred leader first; None cancels the
        move.

            await admin.reassign_partitions({TopicPartition("orders", 0): [2, 3, 1]})

        The moves go on by themselves: `list_reassignments` lists those that are under way."""
        rows: dict[str, ReassignableTopic] = {}
        for name, target in targets.items():
            row = rows.setdefault(name.topic, ReassignableTopic(name=name.topic))
            replicas = None if target is None else list(target)
            row.partitions.append(ReassignablePartition(name.partition, replicas))
        request = AlterPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=list(rows.values()))

        async def ask() -> AlterPartitionReassignmentsResponse:
            answer = await (await self._running().controller()).ask(
                request, AlterPartitionReassignmentsResponse, timeout_ms=self._timeout_ms
            )
            check(answer.error_code, "moving partitions")
            return answer

        answer = await self._running().retrying("AlterPartitionReassignments", ask, self._timeout_ms)
        raise_all(
            "some partitions are not being moved",
            [
                problem_of(
                    partition.error_code, f"{topic.name}-{partition.partition_index}", partition.error_message
                )
                for topic in answer.responses
                for partition in topic.partitions
                if partition.error_code != errors.NONE
            ],
        )

    async def list_reassignments(self) -> list[Reassignment]:
        """The reassignments that are under way.

        moves = await admin.list_reassignments()
        """
        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=None)

        async def ask() -> ListPartitionReassignmentsResponse:
            answer = await (await self._running().controller()).ask(
                request, ListPartitionReassignmentsResponse, timeout_ms=self._timeout_ms
            )
            check(answer.error_code, "listing moves")
            return answer

        answer = await self._running().retrying("ListPartitionReassignments", ask, self._timeout_ms)
        return [
            Reassignment(
                TopicPartition(topic.name, partition.partition_index),
                tuple(partition.replicas),
                tuple(partition.adding_replicas),
                tuple(partition.removing_replicas),
            )
            for topic in answer.topics
            for partition in topic.partitions
        ]

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        chosen: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, errors.TidelogError | None]:
        """Elects the preferred leader (the first replica) of each partition; with None, of all partitions that
        another replica leads.  `unclean` elects any live replica of a partition without a leader, even if
        acknowledged records are lost; `chosen` names that replica by partition.  In the result, None stands for
        success.

            await admin.elect_leaders([TopicPartition("orders", 0)])
        """
        rows: dict[str, TopicPartitions] | None = None
        if partitions is not None:
            rows = {}
            for name in partitions:
                row = rows.setdefault(name.topic, TopicPartitions(topic=name.topic))
                row.partitions.append(name.partition)
                if chosen is not None:
                    row.leaders.append(chosen[name])
        request = ElectLeadersRequest(
            election_type=UNCLEAN if unclean else PREFERRED,
            topic_partitions=None if rows is None else list(rows.values()),
            timeout_ms=self._timeout_ms,
        )

        async def ask() -> ElectLeadersResponse:
            answer = await (await self._running().controller()).ask(
                request, ElectLeadersResponse, timeout_ms=self._timeout_ms
            )
            check(answer.error_code, "electing leaders")
            return answer

        answer = await self._running().retrying("ElectLeaders", ask, self._timeout_ms)
        outcome: dict[TopicPartition, errors.TidelogError | None] = {}
        for topic in answer.replica_election_results:
            for result in topic.partition_result:
                name = TopicPartition(topic.topic, result.partition_id)
                failed = result.error_code not in (errors.NONE, errors.ElectionNotNeeded.code)
                outcome[name] = (
                    problem_of(result.error_code, str(name), result.error_message) if failed else None
                )
        return outcome

    async def describe_partitions(self, topics: Iterable[str]) -> dict[TopicPartition, PartitionState]:
        """The leader, ISR, eligible leader replicas, replicas in doubt and awaited brokers of each partition.

        states = await admin.describe_partitions(["orders"])
        """
        return await replica_states.describe_partitions(
            self._running(), names_of(topics), timeout_ms=self._timeout_ms
        )

    async def describe_replica_logs(
        self, broker: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ReplicaLog]:
        """The log end offsets and leader epochs of these partitions' logs on one broker, the leader or not.

        logs = await admin.describe_replica_logs(1, [TopicPartition("orders", 0)])
        """
        return await replica_states.describe_replica_logs(
            self._running(), broker, partitions, timeout_ms=self._timeout_ms
        )
