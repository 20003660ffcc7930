"""The condition of a broker's replicas when the broker starts: certain, or in doubt, and why.

It is read from the results of recovery and the marks in the log directories;
`metadata.elections.unclean_restart` reports it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from uuid import UUID

from tidelog.metadata.elections.replica_doubts import EMPTY_LOG, NO_LOG, ReplicaCondition
from tidelog.metadata.image.image import Image, PartitionImage, TopicImage
from tidelog.metadata.records import Cause
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.integrity.damaged_logs import damaged_logs
from tidelog.types import NodeId, TopicPartition


async def claim_logs(dirs: LogDirs, image: Image, node: NodeId) -> dict[TopicPartition, UUID | None]:
    """The topic id of each log.  Stray logs whose topic is in the metadata again are brought back.  A log that lost the file
    with its topic's id in a power loss most likely belongs to the present topic if this broker is a holder of the
    partition, because then the broker ran when the topic was created.  Such a log may be elected, and is in doubt."""
    held = {
        TopicPartition(topic.name, partition.index): (topic, partition)
        for topic in image.topics.values()
        for partition in topic.partitions
        if node in partition.replicas
    }
    dirs.bring_back_strays((name, topic.id) for name, (topic, _) in held.items())
    topic_ids = await dirs.topic_ids()
    for name in [name for name, topic_id in topic_ids.items() if topic_id is None]:
        topic, partition = held.get(name, (None, None))
        if topic is not None and partition is not None and node in partition.holders:
            dirs.unidentified.add(name)
            topic_ids[name] = topic.id
    return topic_ids


class ReplicaConditions:
    def __init__(
        self,
        dirs: LogDirs,
        topic_ids: Mapping[TopicPartition, UUID | None],
        known_directories: frozenset[str] | None,
    ) -> None:
        """`topic_ids`: the topic id of each log.  `known_directories`: the ids of the directories that this broker has
        registered; None if it has never registered any."""
        self._dirs = dirs
        self._topic_ids = topic_ids
        if known_directories is None:
            self._has_new_directory = any(where.made_now for where in dirs.online())
        else:
            self._has_new_directory = not dirs.ids <= known_directories
        self._damaged = set(damaged_logs(dirs.dirs)).union(*(where.shortened for where in dirs.online()))
        self._causes = {where.path: _cause_of(where, known_directories) for where in dirs.dirs}
        self.unclean = not all(map(_stopped_cleanly, dirs.dirs))

    @property
    def at_risk(self) -> bool:
        """True if replicas may be in doubt; false if all of them have everything they had when the broker stopped."""
        return (
            self._has_new_directory
            or not self._dirs.complete
            or any(self._causes.values())
            or bool(self._damaged)
        )

    def look(self, topic: TopicImage, partition: PartitionImage) -> ReplicaCondition:
        name = TopicPartition(topic.name, partition.index)
        if name not in self._dirs or self._topic_ids.get(name) != topic.id:
            missing = self._why_missing()
            return ReplicaCondition(missing, lambda: NO_LOG if missing is Cause.OFFLINE else EMPTY_LOG)
        cause = self._causes[self._dirs.home(name).path]
        if cause is None and (name in self._damaged or name in self._dirs.unidentified):
            cause = Cause.DAMAGED
        return ReplicaCondition(cause, partial(self._reach, name), partial(self._last_epoch, name))

    def _why_missing(self) -> Cause:
        if not self._dirs.complete:
            return Cause.OFFLINE
        return Cause.NEW_DIRECTORY if self._has_new_directory else Cause.MISSING

    def _reach(self, name: TopicPartition) -> tuple[int, int]:
        log = self._dirs.open(name)
        return log.epochs.latest, log.end

    def _last_epoch(self, name: TopicPartition) -> int:
        log = self._dirs.open(name)
        return log.epochs.of_last_record(log.end)


def _stopped_cleanly(where: LogDirectory) -> bool:
    """True if the last run of this directory ended cleanly; false also if its disk does not work: then it is offline."""
    return where.last_run is not None and where.last_run.clean


def _cause_of(where: LogDirectory, known_directories: frozenset[str] | None) -> Cause | None:
    last = where.last_run
    if where.problem is not None or last is None or where.identity is None:
        return Cause.OFFLINE
    if known_directories is not None and where.identity.directory_id.hex not in known_directories:
        return Cause.DISK  # the directory was given up, or comes from another machine: its logs may be old
    if last.clean:
        return None
    if last.failed:
        return Cause.DISK
    return Cause.POWER if last.power_lost else None
