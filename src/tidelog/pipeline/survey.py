"""What the driver asks the cluster: which topics and partitions there are, from where to where they reach, and what a
group has committed.  Used by the batch and the stream source."""

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
from tidelog.pipeline.option_text import PipelineError
from tidelog.pipeline.source_options import EARLIEST, LATEST, Bound, SourceOptions, Time
from tidelog.types import TopicPartition

log = logging.getLogger("tidelog.pipeline")

CLOSE_S_MAX = 5.0
ASKED_MAX, ASK_AGAIN_S = 3, 1.0


@dataclass(frozen=True, slots=True)
class Scope:
    """The partitions to read, and the ids of their topics."""

    partitions: tuple[TopicPartition, ...]
    ids: Mapping[str, uuid.UUID]


class Survey:
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._clients = clients(options.connection)
        self._due: tuple[str, dict[TopicPartition, int]] | None = None
        self._committing: Future[None] | None = None

    def scope(self, gone: bool = False) -> Scope:
        """As it is now; a topic that was asked for by name and is not there is an error, unless `gone` allows it."""
        topics = self._topics(gone)
        ids = {topic.name: topic.id for topic in topics}
        if self._options.assign:
            there = {TopicPartition(topic.name, one.index) for topic in topics for one in topic.partitions}
            for one in self._options.assign:
                if one not in there and not gone:
                    raise PipelineError(f"option 'assign' names {one}, which is not there")
            return Scope(tuple(one for one in self._options.assign if one in there), ids)
        return Scope(
            tuple(TopicPartition(topic.name, one.index) for topic in topics for one in topic.partitions), ids
        )

    def _topics(self, gone: bool) -> list[Topic]:
        options, admin = self._options, self._clients.admin
        if options.pattern is not None:
            pattern = re.compile(options.pattern)
            every = self._clients.patiently(admin.list_topics)
            return [topic for topic in every if pattern.fullmatch(topic.name)]
        names = options.topic_names
        if gone:
            there = {topic.name: topic for topic in self._clients.patiently(admin.list_topics)}
            return [there[name] for name in names if name in there]
        try:
            found = self._clients.patiently(lambda: admin.describe_topics(names))
        except (errors.UnknownTopicOrPartition, ExceptionGroup) as problem:
            said = (
                "; ".join(map(str, problem.exceptions))
                if isinstance(problem, ExceptionGroup)
                else str(problem)
            )
            raise PipelineError(f"{said} ({options.connection.bootstrap})") from None
        return list(found.values())

    def first(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._list(dict.fromkeys(partitions, FIRST))

    def last(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Behind the last record that a reader of this isolation level sees."""
        return self._list(dict.fromkeys(partitions, LAST))

    def at(self, bound: Bound, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that `bound` stands for; behind the last record where there is none as late as its time."""
        wanted = {one: bound.at(one) for one in partitions}
        for named in bound.partitions:
            if named not in wanted:
                raise PipelineError(f"offsets are given for {named}, which is not read or not there")
        found = {one: value for one, value in wanted.items() if isinstance(value, int)}
        found |= self.first(one for one, value in wanted.items() if value == EARLIEST)
        found |= self.last(one for one, value in wanted.items() if value == LATEST)
        times = {one: value.ms for one, value in wanted.items() if isinstance(value, Time)}
        if times:
            found |= self.since(times)
        return found

    def since(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first record of each that is not older; behind the last where all are."""
        by_time = self._list(times_ms)
        ends = self.last(one for one, offset in by_time.items() if offset < 0)
        return {**by_time, **ends}

    def shortened(self, known: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Of logs that once reached up to `known`: the ends of those that do not any more.

        Open transactions hold up what readers see, and a new leader may need a moment to know how far its log is
        committed: neither is a loss, so it is asked for all that is written, and more than once."""
        ends: dict[TopicPartition, int] = {}
        for number in range(ASKED_MAX if known else 0):
            if number:
                time.sleep(ASK_AGAIN_S)
            ends = self._list(dict.fromkeys(known, LAST), read_committed=False)
            known = {one: offset for one, offset in known.items() if ends[one] < offset}
            if not known:
                break
        return {one: ends[one] for one in known}

    def _list(
        self, wanted: Mapping[TopicPartition, int], read_committed: bool | None = None
    ) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        committed = self._options.read_committed if read_committed is None else read_committed
        found = self._clients.patiently(
            lambda: list_offsets(
                self._clients.cluster,
                wanted,
                self._clients.settings.timeout_ms,
                read_committed=committed,
            )
        )
        return {one: where.offset for one, where in found.items()}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """In the background: who looks at the lag need not hold up the query, and neither may a failure.  One at a
        time, the newest last."""
        self._due = group_id, dict(offsets)
        if self._committing is None or self._committing.done():
            self._committing = self._clients.start(self._commit_due())

    async def _commit_due(self) -> None:
        while self._due is not None:
            (group_id, offsets), self._due = self._due, None
            try:
                await self._clients.admin.alter_group_offsets(group_id, offsets)
            except Exception as problem:  # Nobody waits for it, and the query goes on without it.
                log.warning("offsets were not committed to group %r: %s", group_id, problem)

    def close(self) -> None:
        """The last commit may still be under way."""
        if self._committing is not None:
            try:
                self._committing.result(CLOSE_S_MAX)
            except Exception as problem:
                log.warning("the last offsets were not committed: %r", problem)
