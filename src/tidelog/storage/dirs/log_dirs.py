"""All data directories of a broker: where a partition lives, where a new one goes, and how one moves.

Called by `replication.partitions` and the handlers of log directories.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from uuid import UUID

from tidelog.config import TopicConfig
from tidelog.errors import (
    InvalidReplicaAssignment,
    KafkaStorageError,
    LogDirNotFound,
    UnknownTopicOrPartition,
)
from tidelog.storage.dirs import strays
from tidelog.storage.dirs.log_dir import Configs, LogDirectory
from tidelog.storage.dirs.moving import Move
from tidelog.storage.integrity.damaged_logs import open_damaged
from tidelog.storage.log import Log
from tidelog.storage.recovery.recovery import Report
from tidelog.types import TopicPartition

logger = logging.getLogger("tidelog.storage")


class LogDirs:
    """`configs` gives the settings of a topic by name, at any time, also for topics it has not heard of."""

    def __init__(
        self,
        dirs: Sequence[LogDirectory],
        configs: Configs,
        cordoned: Callable[[], Collection[str]] = lambda: (),
    ) -> None:
        self.dirs = list(dirs)
        self.moves: dict[TopicPartition, Move] = {}
        self._configs = configs
        self.cordoned = cordoned
        """Paths of directories that get no new partitions."""
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._absent: frozenset[UUID] = frozenset()
        self.unidentified: set[TopicPartition] = set()
        """Logs that lost the id of their topic in a crash.  Whose they are is not certain: one that leads is the topic's
        log from then on, one whose partition another broker leads is parked.  The next log of the name is certain again."""
        self._wanted: dict[
            TopicPartition, LogDirectory
        ] = {}  # where partitions that are not here yet shall go

    async def start(self, cluster_id: str, node_id: int) -> list[Report]:
        """As `recover` and `began`."""
        reports = await self.recover(cluster_id, node_id)
        self.began()
        return reports

    def began(self) -> None:
        """Logs may be written from here on."""
        for each in self.dirs:
            each.began()

    async def recover(self, cluster_id: str, node_id: int, forget_absent: bool = False) -> list[Report]:
        """The recovered logs.  Raises KafkaStorageError when no directory can be used.  Until `began`, the next start
        gets the same report about the last run.  `forget_absent`: the operator says that this broker's missing
        directories are gone for good."""
        started = await asyncio.gather(
            *(each.start(cluster_id, node_id, self._configs) for each in self.dirs), return_exceptions=True
        )
        refused = [outcome for outcome in started if isinstance(outcome, BaseException)]
        if refused:
            await self.stop(clean=False)
            raise refused[0]
        if not self.online():
            raise KafkaStorageError(f"no data directory can be used: {self.dirs[0].problem}")
        self._meet(forget_absent)
        for each in self.dirs:
            for name in sorted(each.names):
                self._settle(name, each)
        open_damaged(self.online(), self._configs)
        return [report for reports in started if isinstance(reports, list) for report in reports]

    def _meet(self, forget_absent: bool) -> None:
        """Every directory knows of all others: one that is not mounted looks like a new, empty one otherwise."""
        here = {each.identity.directory_id for each in self.online() if each.identity is not None}
        directory_ids = here
        if not forget_absent:
            siblings = (each.identity.siblings for each in self.online() if each.identity is not None)
            directory_ids = here.union(*siblings)
        self._absent = frozenset(directory_ids - here)
        for each in self.online():
            each.remember(frozenset(directory_ids))

    async def stop(self, clean: bool = True) -> None:
        """Every log durable and every directory marked clean; without `clean`, only let go of."""
        for move in list(self.moves.values()):
            self.cancel_move(move.name)
        for each in self.dirs:
            if clean:
                await each.stop()
            else:
                each.let_go()

    def _settle(self, name: TopicPartition, home: LogDirectory) -> None:
        """A crash during a move can leave a partition in two directories, with the same content up to the end of the
        shorter one, which is the one left behind."""
        other = self._homes.get(name)
        if other is not None:
            config = self._configs(name.topic)
            if home.open(name, config).end < other.open(name, config).end:
                home, other = other, home
            other.delete(name)
            other.deleted()
        self._homes[name] = home

    # Finding

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._homes)

    def online(self) -> list[LogDirectory]:
        return [each for each in self.dirs if each.problem is None]

    @property
    def home_id(self) -> str:
        """Of the data and of the machine's boot: whoever has the lock on these directories is the only one with it."""
        return "/".join((self.dirs[0].volume.disk.boot_id(), *sorted(self.ids)))

    @property
    def ids(self) -> frozenset[str]:
        """Of the directories that can be used."""
        return frozenset(
            each.identity.directory_id.hex for each in self.online() if each.identity is not None
        )

    @property
    def complete(self) -> bool:
        """True if every directory that this broker has had is present and works: a log that is in none of them does not
        exist."""
        return not self._absent and len(self.online()) == len(self.dirs)

    def home(self, name: TopicPartition) -> LogDirectory:
        home = self._homes.get(name)
        if home is None:
            raise UnknownTopicOrPartition(f"{name} has no log on this broker")
        return home

    def at(self, path: str) -> LogDirectory:
        for each in self.dirs:
            if each.path == path:
                return each
        paths = ", ".join(each.path for each in self.dirs)
        raise LogDirNotFound(f"{path} is no data directory of this broker; it has {paths}")

    def open(self, name: TopicPartition) -> Log:
        """Opens it when it is not open yet: about a quarter of a millisecond."""
        return self.home(name).open(name, self._configs(name.topic))

    # Changing

    def create(self, name: TopicPartition, topic_id: UUID) -> Log:
        """The log of a partition of this topic: the one that is here, a stray that is from this topic, or a new one.
        What is left of another topic of the same name is parked."""
        config = self._configs(name.topic)
        if name in self._homes and not self.is_of(name, topic_id):
            self.clear_away(name, f"it is not from topic {topic_id}, which has its name now")
            self.deleted()
        home = self._homes.get(name)
        if home is not None:
            return home.open(name, config)
        if self._bring_back(name, topic_id):
            return self.open(name)
        home = self._wanted.pop(name, None) or self._emptiest()
        log = home.create(name, topic_id, config)
        self._homes[name] = home
        return log

    def _bring_back(self, name: TopicPartition, topic_id: UUID) -> bool:
        stray = strays.find(self.online(), name, topic_id)
        if stray is None:
            return False
        home, path = stray
        strays.bring_back(home, path, name)
        logger.warning("%s is in the metadata again: its log was brought back from %s", name, path)
        self._homes[name] = home
        return True

    def bring_back_strays(self, wanted: Iterable[tuple[TopicPartition, UUID]]) -> None:
        """Logs of topics that the metadata has again, before anybody takes them for missing."""
        if not any(home.strays for home in self.online()):
            return
        for name, topic_id in wanted:
            if name not in self._homes:
                self._bring_back(name, topic_id)

    async def topic_ids(self) -> dict[TopicPartition, UUID | None]:
        """Which topic each log is from, of those in directories that work."""
        ids: dict[TopicPartition, UUID | None] = {}
        for home in self.online():
            try:
                ids |= await home.volume.disk.run(partial(_topic_ids, home))
            except KafkaStorageError:
                continue  # it is offline now
        return {name: topic_id for name, topic_id in ids.items() if name in self._homes}

    def is_of(self, name: TopicPartition, topic_id: UUID) -> bool:
        """Whether the log that is here under this name is from this topic."""
        return self.home(name).topic_id(name) == topic_id

    def clear_away(self, name: TopicPartition, why: str) -> None:
        """A log of no topic that is known is parked as a stray.  The metadata may be older than the log: it may have been
        restored from a backup."""
        home = self.home(name)
        if home.topic_id(name) is None and strays.is_blank(home, name):
            self.delete(name)
            return
        self.cancel_move(name)
        del self._homes[name]
        self.unidentified.discard(name)
        logger.warning(
            "%s is parked as %s: %s.  Nothing reads or removes this folder.  Its log comes back when the metadata has its "
            "topic again; if it is not needed any more, remove the folder",
            name,
            strays.park(home, name),
            why,
        )

    def _emptiest(self) -> LogDirectory:
        online = self.online()
        if not online:
            raise KafkaStorageError("every data directory is offline: repair a disk and restart")
        cordoned = self.cordoned()
        # A replica that was assigned to this broker in spite of its cordons must go somewhere.
        return min(online, key=lambda each: (each.path in cordoned, len(each.names)))

    def leave_alone(self, name: TopicPartition) -> bool:
        """True for an entry that only looks like a partition, and is ignored; false for a partition."""
        home = self.home(name)
        if home.holds(name):
            return False
        home.names.discard(name)
        del self._homes[name]
        return True

    def delete(self, name: TopicPartition) -> None:
        self.cancel_move(name)
        home = self.home(name)
        home.delete(name, self._configs(name.topic).file_delete_delay_ms)
        del self._homes[name]
        self.unidentified.discard(name)

    def deleted(self) -> None:
        """After some deletions: they are certain now."""
        for each in self.online():
            each.deleted()

    # Moving

    def move(self, name: TopicPartition, path: str) -> Move | None:
        """Begins to move a partition to another directory: run `Move.copy`, then call `finish_move`.  None when it is
        there already, or not here yet: then it will be created there."""
        target = self.at(path)
        if target.path in self.cordoned():
            raise InvalidReplicaAssignment(f"{path} is cordoned: it takes no partitions (cordoned.log.dirs)")
        if target.problem is not None:
            raise target.volume.offline()
        home = self._homes.get(name)
        if home is None:
            self._wanted[name] = target
            return None
        under_way = self.moves.get(name)
        if under_way is not None:
            if under_way.target is target:
                return under_way
            self.cancel_move(name)
        if home is target:
            return None
        move = self.moves[name] = Move(name, home, target, self._configs(name.topic))
        return move

    def finish_move(self, name: TopicPartition) -> Log:
        """The log in its new place, at once: the owner of the old log must take this one before its next append."""
        move = self.moves[name]
        log = move.swap()
        del self.moves[name]
        self._homes[name] = move.target
        return log

    def cancel_move(self, name: TopicPartition) -> None:
        move = self.moves.pop(name, None)
        if move is not None:
            move.cancel()

    def config(self, name: TopicPartition) -> TopicConfig:
        return self._configs(name.topic)


def _topic_ids(home: LogDirectory) -> dict[TopicPartition, UUID | None]:
    return {name: home.topic_id(name) for name in sorted(home.names)}
