"""Asks all brokers of a cluster for their ends at one moment, and one of them for the metadata.

First the clocks are compared: each broker tells its time, and the round trip bounds the error.  Then all brokers get the
same moment, each by its own clock, and hold for longer than clocks can differ.  The answers tell whether each was in
time."""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from uuid import UUID

from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import check
from tidelog.errors import LeaderNotAvailable, TidelogError, UnsupportedVersion
from tidelog.metadata.records import TOPICS, TopicRecord
from tidelog.types import TopicPartition
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

LEAD_MS = 500
"""Between the request and the moment."""
MARGIN_MS = 2
LATE_MS = 4
"""Of the first try; twice as long in each following one."""
HOLD_MS_MAX = 250
TRIES = 6


class NoCommonMoment(TidelogError):
    """The brokers could not all be held at one moment."""


class LogRange(NamedTuple):
    topic_id: UUID
    start: int
    end: int
    epochs: tuple[tuple[int, int], ...]


class ClusterCut(NamedTuple):
    cluster_id: str
    cut_ms: int
    clock_difference_ms: int
    ranges: dict[TopicPartition, LogRange]
    metadata: list[tuple[str, bytes]]


class _ClockReading(NamedTuple):
    ahead_ms: float
    """How far the clock of a broker is ahead of the clock of this machine."""
    error_ms: float


async def take_cut(cluster: Cluster, timeout_ms: int, roll_bytes: int = -1) -> ClusterCut:
    """`roll_bytes`: segments of at least so many bytes are sealed before the cut; -1: none."""

    async def attempt() -> ClusterCut:
        await cluster.refresh(())
        nodes = sorted(cluster.topology.nodes)
        if roll_bytes >= 0:
            await asyncio.gather(*(_ask(cluster, node, 0, 0, False, roll_bytes) for node in nodes))
        if len(nodes) == 1:
            return _together(cluster, 0, [await _ask(cluster, nodes[0], 0, 0, True)])
        return await _of_several(cluster, nodes)

    return await cluster.retrying("DescribeCluster", attempt, timeout_ms)


async def take_whole_cut(cluster: Cluster, timeout_ms: int, roll_bytes: int = -1) -> ClusterCut:
    """A cut with every partition that the metadata have."""

    async def attempt() -> ClusterCut:
        cut = await take_cut(cluster, timeout_ms, roll_bytes)
        wanted = {
            TopicPartition(key.removeprefix(TOPICS), index): record.id
            for key, value in cut.metadata
            if key.startswith(TOPICS)
            for record in [TopicRecord.decode(value)]
            for index in range(len(record.replicas))
        }
        ranges = {name: ends for name, ends in cut.ranges.items() if wanted.get(name) == ends.topic_id}
        missing = [str(name) for name in sorted(wanted.keys() - ranges.keys())]
        if missing:
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise LeaderNotAvailable(
                f"{', '.join(missing[:5])}{more}: no leader could be asked, and a cut needs all partitions"
            )
        return cut._replace(ranges=ranges)

    return await cluster.retrying("the cut of all partitions", attempt, timeout_ms)


async def _of_several(cluster: Cluster, nodes: list[int]) -> ClusterCut:
    clock = cluster.environment.clock
    for number in range(TRIES):
        # Each also opens the logs that it has not opened yet, so that the cut itself is quick.
        await asyncio.gather(*(_ask(cluster, node, 0, 0, False) for node in nodes))
        readings = [await _compare_clocks(cluster, node) for node in nodes]
        lowest = min(reading.ahead_ms - reading.error_ms for reading in readings)
        highest = max(reading.ahead_ms + reading.error_ms for reading in readings)
        difference_ms = int(highest - lowest) + 1
        # The moment is told in each broker's own time: what is left of the difference is the error of the readings.
        uncertain_ms = 2 * max(reading.error_ms for reading in readings)
        needed_ms = int(uncertain_ms) + 1 + MARGIN_MS
        # A busy broker wakes up late for its hold.
        hold_ms = min(needed_ms + (LATE_MS << number), HOLD_MS_MAX)
        if needed_ms > hold_ms:
            continue
        at_ms = clock.now_ms() + LEAD_MS
        moments = [int(at_ms + reading.ahead_ms) for reading in readings]
        answers = await asyncio.gather(
            *(
                _ask(cluster, node, moment, hold_ms, number == 0)
                for number, (node, moment) in enumerate(zip(nodes, moments, strict=True))
            )
        )
        in_time = all(
            answer.cut_began_ms <= moment - needed_ms and answer.cut_ended_ms >= moment + hold_ms
            for answer, moment in zip(answers, moments, strict=True)
        )
        if in_time:
            return _together(cluster, difference_ms, answers)
    raise NoCommonMoment(
        f"the brokers {', '.join(map(str, nodes))} could not be read at one moment in {TRIES} tries: they answer too "
        "slowly, or are too busy; try again"
    )


async def _compare_clocks(cluster: Cluster, node: int) -> _ClockReading:
    clock, best = cluster.environment.clock, None
    for _ in range(3):
        asked_ms = clock.now_ms()
        answer = await _ask(cluster, node, 0, 0, False)
        answered_ms = clock.now_ms() + 1
        error_ms = (answered_ms - asked_ms) / 2 + 1
        if best is None or error_ms < best.error_ms:
            best = _ClockReading(answer.cut_ended_ms - (asked_ms + answered_ms) / 2, error_ms)
    assert best is not None
    return best


async def _ask(
    cluster: Cluster, node: int, at_ms: int, hold_ms: int, metadata: bool, roll_bytes: int = -1
) -> DescribeClusterResponse:
    request = DescribeClusterRequest(
        backup_cut_ms=at_ms,
        backup_hold_ms=hold_ms,
        include_metadata=metadata,
        backup_roll_bytes=roll_bytes,
    )
    answer = await (await cluster.node(node)).ask(request, DescribeClusterResponse)
    check(answer.error_code, "the cut of a backup", answer.error_message)
    if answer.cut_began_ms < 0:
        raise UnsupportedVersion(f"broker {node} cannot be backed up: it is not Tidelog, or an older version")
    return answer


def _together(cluster: Cluster, difference_ms: int, answers: list[DescribeClusterResponse]) -> ClusterCut:
    ranges = {
        TopicPartition(topic.name, each.index): LogRange(
            topic.topic_id,
            each.start,
            each.end,
            tuple((epoch.leader_epoch, epoch.start_offset) for epoch in each.leader_epochs),
        )
        for answer in answers
        for topic in answer.backup_topics
        for each in topic.partitions
    }
    metadata = [(entry.key, bytes(entry.value)) for answer in answers for entry in answer.metadata_entries]
    return ClusterCut(
        answers[0].cluster_id,
        max(answer.cut_ended_ms for answer in answers),
        difference_ms,
        ranges,
        metadata,
    )
