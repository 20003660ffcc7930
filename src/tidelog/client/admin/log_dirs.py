"""Log directories: describes them, with the size of each partition; and deletes records from the start of logs.
`Admin` is the face of this."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import check, problem_of, raise_all
from tidelog.types import TopicPartition
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


@dataclass(frozen=True, slots=True)
class LogDir:
    """`problem`: why the folder is offline, if it is.  Sizes in bytes, -1 where a broker does not say."""

    path: str
    partitions: Mapping[TopicPartition, int]
    total_bytes: int
    usable_bytes: int
    problem: errors.TidelogError | None


async def describe_log_dirs(
    cluster: Cluster, brokers: Collection[int] | None, topics: Collection[str] | None, *, timeout_ms: int
) -> dict[int, list[LogDir]]:
    async def ask() -> dict[int, list[LogDir]]:
        wanted = None
        if topics is not None:
            topology = await cluster.refresh(topics)
            wanted = [
                DescribableLogDirTopic(topic.name, [partition.index for partition in topic.partitions])
                for name in topics
                if (topic := topology.topics.get(name)) is not None
            ]
        dirs_by_node = {}
        for node in sorted(cluster.topology.nodes) if brokers is None else brokers:
            request = DescribeLogDirsRequest(topics=wanted)
            answer = await (await cluster.node(node)).ask(request, DescribeLogDirsResponse)
            check(answer.error_code, f"the log folders of broker {node}")
            dirs_by_node[node] = [_log_dir(result) for result in answer.results]
        return dirs_by_node

    return await cluster.retrying("DescribeLogDirs", ask, timeout_ms)


def _log_dir(result: DescribeLogDirsResult) -> LogDir:
    sizes = {
        TopicPartition(topic.name, part.partition_index): part.partition_size
        for topic in result.topics
        for part in topic.partitions
        if not part.is_future_key
    }
    problem = problem_of(result.error_code, result.log_dir) if result.error_code != errors.NONE else None
    return LogDir(result.log_dir, sizes, result.total_bytes, result.usable_bytes, problem)


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], *, timeout_ms: int
) -> dict[TopicPartition, int]:
    starts: dict[TopicPartition, int] = {}
    problems: dict[TopicPartition, errors.TidelogError] = {}

    async def ask_the_rest() -> None:
        again: errors.TidelogError | None = None
        rest = [partition for partition in before if partition not in starts and partition not in problems]
        for node, partitions in (await cluster.leaders(rest)).items():
            by_topic: dict[str, list[DeleteRecordsPartition]] = {}
            for partition in partitions:
                entry = DeleteRecordsPartition(partition.partition, before[partition])
                by_topic.setdefault(partition.topic, []).append(entry)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name, parts) for name, parts in by_topic.items()],
                timeout_ms=timeout_ms,
            )
            answer = await (await cluster.node(node)).ask(request, DeleteRecordsResponse)
            for topic in answer.topics:
                for part in topic.partitions:
                    where = TopicPartition(topic.name, part.partition_index)
                    if part.error_code == errors.NONE:
                        starts[where] = part.low_watermark
                        continue
                    problem = problem_of(part.error_code, f"deleting records of {where}")
                    if problem.retriable:
                        again = problem
                    else:
                        problems[where] = problem
        if again is not None:
            await cluster.refresh({partition.topic for partition in before})
            raise again

    final = (errors.UnknownTopicOrPartition,)
    await cluster.retrying("DeleteRecords", ask_the_rest, timeout_ms, final)
    raise_all("some records were not deleted", list(problems.values()))
    return starts
