"""Which partitions an application's instances serve interactive queries for, by their endpoints.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.groups.streams.internal_topics import PartitionCount
from tidelog.groups.streams.member import StreamsMember
from tidelog.groups.streams.tasks import Tasks, by_subtopology
from tidelog.groups.streams.topology import StreamsTopology, sources_of
from tidelog.wire.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    members: Iterable[StreamsMember], topology: StreamsTopology, partitions: PartitionCount
) -> list[EndpointToPartitions]:
    return [
        EndpointToPartitions(
            Endpoint(*member.endpoint),
            _partitions(member.assigned.active, topology, partitions),
            _partitions(member.assigned.standby, topology, partitions),
        )
        for member in members
        if member.endpoint is not None
    ]


def _partitions(tasks: Tasks, topology: StreamsTopology, partitions: PartitionCount) -> list[TopicPartition]:
    """The partitions that the tasks read; a topic may have fewer partitions than its subtopology has tasks."""
    sources = {subtopology.subtopology_id: sources_of(subtopology) for subtopology in topology.subtopologies}
    return [
        TopicPartition(name, [index for index in indexes if index < count])
        for subtopology, indexes in by_subtopology(tasks)
        for name in sources.get(subtopology, ())
        if (count := partitions(name)) is not None
    ]
