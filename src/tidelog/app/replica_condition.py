"""In which condition a broker finds its replicas when it starts: sure, or in doubt, and why.

Reads what recovery and the marks in the log directories say; `metadata.unclean_restart` reports it."""

from __future__ import annotations

from functools import partial

from tidelog.metadata.doubts import NO_LOG, Condition
from tidelog.metadata.image import Partition, Topic
from tidelog.metadata.records import Cause
from tidelog.storage.log_dir import LogDir
from tidelog.storage.log_dirs import LogDirs
from tidelog.types import TopicPartition


class ReplicaConditions:
    def __init__(self, dirs: LogDirs, known_directories: frozenset[str] | None) -> None:
        """`known_directories`: ids of those that this broker had registered; None when it has never registered any."""
        self._dirs = dirs
        if known_directories is None:
            self._has_new_directory = any(where.made_now for where in dirs.online())
        else:
            self._has_new_directory = not dirs.ids <= known_directories
        self._damaged = set(dirs.damaged()).union(*(where.shortened for where in dirs.online()))
        self._causes = {where.path: _cause_of(where) for where in dirs.dirs}
        self.unclean = not all(map(_stopped_cleanly, dirs.dirs))

    @property
    def at_risk(self) -> bool:
        """Whether replicas may be in doubt; false means that all of them have what they had when the broker stopped."""
        return (
            self._has_new_directory
            or not self._dirs.complete
            or any(self._causes.values())
            or bool(self._damaged)
        )

    def look(self, topic: Topic, partition: Partition) -> Condition:
        name = TopicPartition(topic.name, partition.index)
        if name not in self._dirs or self._is_of_another_topic(name, topic):
            return Condition(self._why_missing(), lambda: NO_LOG)
        cause = self._causes[self._dirs.home(name).path]
        if cause is None and name in self._damaged:
            cause = Cause.DAMAGED
        return Condition(cause, partial(self._reach, name))

    def _is_of_another_topic(self, name: TopicPartition, topic: Topic) -> bool:
        """A broker that was killed may have left the folder of a topic that was deleted and created again."""
        return self.unclean and self._dirs.home(name).topic_id(name) not in (None, topic.id)

    def _why_missing(self) -> Cause:
        if not self._dirs.complete:
            return Cause.OFFLINE
        return Cause.NEW_DIRECTORY if self._has_new_directory else Cause.MISSING

    def _reach(self, name: TopicPartition) -> tuple[int, int]:
        log = self._dirs.open(name)
        return log.epochs.latest, log.end


def _stopped_cleanly(where: LogDir) -> bool:
    """False too for a disk that does not work: its directory is offline."""
    return where.last_run is not None and where.last_run.clean


def _cause_of(where: LogDir) -> Cause | None:
    last = where.last_run
    if where.problem is not None or last is None:
        return Cause.OFFLINE
    if last.clean:
        return None
    if last.failed:
        return Cause.DISK
    return Cause.POWER if last.power_lost else None
