"""The driver's requests to the cluster: which topics and partitions exist, their first and last offsets, and commits of a
group's offsets.  Used by the batch reader and the stream reader."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from tidelog import errors
from tidelog.client.cluster.list_offsets import EARLIEST as FIRST
from tidelog.client.cluster.list_offsets import LATEST as LAST
from tidelog.client.cluster.list_offsets import list_offsets
from tidelog.client.cluster.topology import Topic
from tidelog.pipeline.clients import clients
from tidelog.pipeline.options.source import EARLIEST, LATEST, Bound, SourceOptions, Time
from tidelog.pipeline.options.text import PipelineError
from tidelog.types import TopicPartition

log = logging.getLogger("tidelog.pipeline")

CLOSE_S_MAX = 5.0
ASKED_MAX, ASK_AGAIN_S = 3, 1.0


@dataclass(frozen=True, slots=True)
class SourcePartitions:
    """The partitions to read, and the ids of their topics."""

    partitions: tuple[TopicPartition, ...]
    ids: Mapping[str, uuid.UUID]


class OffsetReader:
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._clients = clients(options.connection)
        self._due: tuple[str, dict[TopicPartition, int]] | None = None
        self._committing: Future[None] | None = None

    def scope(self, gone: bool = False) -> SourcePartitions:
        """The partitions that exist now.  A topic that the options name must exist, unless `gone` allows it to be gone."""
        topics = self._topics(gone)
        ids = {topic.name: topic.id for topic in topics}
        if self._options.assign:
            existing = {
                TopicPartition(topic.name, partition.index)
                for topic in topics
                for partition in topic.partitions
            }
            for partition in self._options.assign:
                if partition not in existing and not gone:
                    raise PipelineError(f"option 'assign' names {partition}, which does not exist")
            return SourcePartitions(
                tuple(partition for partition in self._options.assign if partition in existing), ids
            )
        return SourcePartitions(
            tuple(
                TopicPartition(topic.name, partition.index)
                for topic in topics
                for partition in topic.partitions
            ),
            ids,
        )

    def _topics(self, gone: bool) -> list[Topic]:
        options, admin = self._options, self._clients.admin
        if options.pattern is not None:
            pattern = re.compile(options.pattern)
            every = self._clients.patiently(admin.list_topics)
            return [topic for topic in every if pattern.fullmatch(topic.name)]
        names = options.topic_names
        if gone:
            existing = {topic.name: topic for topic in self._clients.patiently(admin.list_topics)}
            return [existing[name] for name in names if name in existing]
        try:
            topics = self._clients.patiently(lambda: admin.describe_topics(names))
        except (errors.UnknownTopicOrPartition, ExceptionGroup) as problem:
            reason = (
                "; ".join(map(str, problem.exceptions))
                if isinstance(problem, ExceptionGroup)
                else str(problem)
            )
            raise PipelineError(f"{reason} ({options.connection.bootstrap})") from None
        return list(topics.values())

    def first(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._list(dict.fromkeys(partitions, FIRST))

    def last(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record that a reader with this isolation level sees."""
        return self._list(dict.fromkeys(partitions, LAST))

    def at(self, bound: Bound, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets of `bound`.  If no record is as late as the bound's time, the offset after the last record."""
        wanted = {partition: bound.at(partition) for partition in partitions}
        for named in bound.partitions:
            if named not in wanted:
                raise PipelineError(
                    f"the options give an offset for {named}, which is not read or does not exist"
                )
        offsets = {partition: value for partition, value in wanted.items() if isinstance(value, int)}
        offsets |= self.first(partition for partition, value in wanted.items() if value == EARLIEST)
        offsets |= self.last(partition for partition, value in wanted.items() if value == LATEST)
        times = {partition: value.ms for partition, value in wanted.items() if isinstance(value, Time)}
        if times:
            offsets |= self.since(times)
        return offsets

    def since(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset of the first record at or after each time; the end offset if all records are older."""
        by_time = self._list(times_ms)
        ends = self.last(partition for partition, offset in by_time.items() if offset < 0)
        return {**by_time, **ends}

    def shortened(self, reached: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The ends of those logs that no longer reach the offsets in `reached`, which they once had.

        Open transactions hide records from readers, and a new leader may need a moment to know its high watermark.
        Neither is a loss, so this method looks at all records, committed or not, and looks more than once."""
        ends: dict[TopicPartition, int] = {}
        for number in range(ASKED_MAX if reached else 0):
            if number:
                time.sleep(ASK_AGAIN_S)
            ends = self._list(dict.fromkeys(reached, LAST), read_committed=False)
            reached = {partition: offset for partition, offset in reached.items() if ends[partition] < offset}
            if not reached:
                break
        return {partition: ends[partition] for partition in reached}

    def _list(
        self, wanted: Mapping[TopicPartition, int], read_committed: bool | None = None
    ) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        committed = self._options.read_committed if read_committed is None else read_committed
        listed = self._clients.patiently(
            lambda: list_offsets(
                self._clients.cluster,
                wanted,
                self._clients.settings.timeout_ms,
                read_committed=committed,
            )
        )
        return {partition: where.offset for partition, where in listed.items()}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits in the background, so that neither the commit nor its failure delays the query.  One commit runs at a
        time, and the newest offsets are committed last."""
        self._due = group_id, dict(offsets)
        if self._committing is None or self._committing.done():
            self._committing = self._clients.start(self._commit_due())

    async def _commit_due(self) -> None:
        while self._due is not None:
            (group_id, offsets), self._due = self._due, None
            try:
                await self._clients.admin.alter_group_offsets(group_id, offsets)
            except Exception as problem:  # No caller waits for the commit, and the query goes on without it.
                log.warning("Offsets were not committed to group %r: %s", group_id, problem)

    def close(self) -> None:
        """Waits for the last commit, for a while."""
        if self._committing is not None:
            try:
                self._committing.result(CLOSE_S_MAX)
            except Exception as problem:
                log.warning("The last offsets were not committed: %r", problem)
