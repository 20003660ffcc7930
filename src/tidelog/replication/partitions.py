"""The partitions that this broker holds (the replica manager), by name and by topic id.

Follows the metadata: creates and deletes logs, moves leadership, hands on settings.  A partition is opened when it is
first asked for, so a start does not grow with their number.  Handlers come here first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from operator import add
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog._speed.log.append import sum_counts
from tidelog.config import TopicConfig
from tidelog.metadata.image import image as metadata
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image, TopicImage, changed_partitions
from tidelog.replication.copy_pacer import CopyPacer
from tidelog.replication.partition import HostedPartition
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.dirs.moving import Move
from tidelog.types import Epoch, NodeId, Offset, TopicPartition

log = logging.getLogger("tidelog.partitions")

TURN = 32  # logs created or deleted before others on the loop get their turn
Key = tuple[str | bytes, int]
Configs = Callable[[str], TopicConfig]


class Counts(NamedTuple):
    """Records and their bytes: of producers, to consumers, from leaders."""

    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    replicated_in: int

    def plus(self, partition: HostedPartition) -> Counts:
        its = (
            partition.messages_in,
            partition.bytes_in,
            partition.messages_out,
            partition.bytes_out,
            partition.replicated_in,
        )
        return Counts(*map(add, self, its))


class Partitions:
    def __init__(self, node: NodeId, dirs: LogDirs, image: Image, configs: Configs, pace: CopyPacer) -> None:
        """`pace`: of moves between directories."""
        self._pace = pace
        self._node = node
        self._dirs = dirs
        self._image = image
        self._configs = configs
        self._held: dict[Key, HostedPartition] = {}  # each one twice: by topic name, and by topic id
        self._moving: dict[asyncio.Task[None], None] = {}
        self._gone = Counts(0, 0, 0, 0, 0)  # of those that this node does not hold any more
        self.forgotten: list[Callable[[TopicPartition], None]] = []
        """Told of every log that is deleted or moves to another directory."""
        self.newer_than_metadata: dict[TopicPartition, None] = {}
        """Partitions whose log here has records of an epoch that the metadata do not know, until that is reported."""
        self.lease_proven: Callable[[], bool] = lambda: True
        """By this broker's own clock.  Without it others may lead what this broker believes to lead."""

    # For handlers

    def led_here(self, topic: str | bytes, index: int) -> HostedPartition:
        """The partition, for a client that wants its leader; the protocol's error when that is not this node."""
        partition = self._held.get((topic, index))
        if partition is None:
            partition = self._open(topic, index)
        if partition.leader != self._node:
            raise errors.NotLeaderOrFollower(f"{partition.name} is led by broker {partition.leader}")
        return partition

    def held_here(self, topic: str | bytes, index: int) -> HostedPartition:
        """The partition, whoever leads it; the protocol's error when this node has no replica of it."""
        return self._held.get((topic, index)) or self._open(topic, index)

    def leader_of(self, topic: str | bytes, index: int) -> tuple[int, int] | None:
        """(node, epoch), for clients that asked the wrong one."""
        topic_image = self._topic(topic)
        if topic_image is None or not 0 <= index < len(topic_image.partitions):
            return None
        partition = topic_image.partitions[index]
        return (-1 if partition.leader is None else partition.leader, partition.leader_epoch)

    @property
    def node(self) -> NodeId:
        return self._node

    @property
    def held(self) -> dict[Key, HostedPartition]:
        """The open ones, by topic name and by topic id; always the same object."""
        return self._held

    def open_ones(self) -> Iterator[HostedPartition]:
        # Not by a list of items: ten thousand new tuples bring on a garbage collection of everything.
        for key in list(self._held):
            partition = self._held.get(key) if type(key[0]) is str else None
            if partition is not None:
                yield partition

    def counts(self) -> Counts:
        """The counts of all partitions since the start."""
        return Counts(*map(add, sum_counts(self._held), self._gone))

    def wake_fetches(self) -> None:
        """Whoever waits for records gets what there is."""
        for partition in self.open_ones():
            partition.wake_fetches()

    def committed_of(self, name: TopicPartition) -> Offset | None:
        """None when it is not open."""
        partition = self._held.get(name)
        return None if partition is None else partition.state.committed

    def of_log(self, name: TopicPartition) -> HostedPartition | None:
        """The partition of a log that is there; None when the metadata does not know it."""
        try:
            return self._held.get(name) or self._open(*name)
        except errors.TidelogError:
            return None

    def _topic(self, topic: str | bytes) -> TopicImage | None:
        if isinstance(topic, str):
            return self._image.topics.get(topic)
        return self._image.topic_by_id(UUID(bytes=topic))

    def _open(self, topic: str | bytes, index: int) -> HostedPartition:
        topic_image = self._topic(topic)
        if topic_image is None:
            if isinstance(topic, bytes):
                raise errors.UnknownTopicId(f"there is no topic with id {UUID(bytes=topic)}")
            raise errors.UnknownTopicOrPartition("This server does not host this topic-partition.")
        if not 0 <= index < len(topic_image.partitions):
            raise errors.UnknownTopicOrPartition(
                f"{topic_image.name} has partitions 0 to {len(topic_image.partitions) - 1}, not {index}"
            )
        partition = topic_image.partitions[index]
        if self._node not in partition.replicas:
            raise errors.NotLeaderOrFollower(f"{topic_image.name}-{index} is not on this broker")
        return self._hold(topic_image, partition)

    def _hold(self, topic: TopicImage, image: metadata.PartitionImage) -> HostedPartition:
        name = TopicPartition(topic.name, image.index)
        if name not in self._dirs:
            if not self._dirs.complete:
                raise errors.KafkaStorageError(f"{name} is in a log directory that is offline, or not there")
            # There was no space for it when its topic was created.
            self._dirs.create(name, topic.id)
        if name in self._dirs.unidentified:
            self._identify(name, topic, image)
        home = self._dirs.home(name)
        home.check_topic_id(name, topic.id)
        committed = home.committed.offsets.get(name, 0)
        log_ = self._dirs.open(name)
        if log_.epochs.latest > image.leader_epoch:
            self.newer_than_metadata[name] = None
            raise errors.NotLeaderOrFollower(
                f"{name} has records of leader epoch {log_.epochs.latest}, and the metadata know only epochs up to "
                f"{image.leader_epoch}: they were restored from a backup, and all replicas have to report"
            )
        partition = HostedPartition(name, topic.id.bytes, self._node, log_, committed)
        _lead(partition, image)
        self._held[topic.name, image.index] = partition
        self._held[topic.id.bytes, image.index] = partition
        return partition

    def _identify(self, name: TopicPartition, topic: TopicImage, image: metadata.PartitionImage) -> None:
        """A log that lost its topic's id in a crash.  NotLeaderOrFollower as long as it may be needed, and nobody knows
        whose it is."""
        if image.leader == self._node:
            self._dirs.home(name).set_topic_id(name, topic.id)
        elif image.leader is not None and self._node not in image.holders:
            self._dirs.clear_away(name, "its topic is not certain, and another broker has the records")
            self._deleted()
            self._dirs.create(name, topic.id)
        else:
            raise errors.NotLeaderOrFollower(f"{name}: its log has lost the id of its topic, and is in doubt")
        self._dirs.unidentified.discard(name)

    # Following the metadata

    async def start(self) -> None:
        """Logs that metadata knows and no disk has are made, those that it does not know are parked: a crash may have come
        between a change and its effect, but the metadata may also be older than the logs."""
        wanted = {
            TopicPartition(topic.name, partition.index): topic
            for topic in self._image.topics.values()
            for partition in topic.partitions
            if self._node in partition.replicas
        }
        for name, topic_id in (await self._dirs.topic_ids()).items():
            try:
                self._park_stray(name, topic_id, wanted.get(name))
            except errors.KafkaStorageError as problem:
                log.error("%s cannot be parked: %s", name, problem)
        self._deleted()
        for home in self._dirs.online():
            if home.strays:
                log.warning(
                    "%s has %d stray logs, in folders that end in -stray", home.path, len(home.strays)
                )
        missing = [name for name in wanted if name not in self._dirs]
        if not self._dirs.complete:
            # They may well be on the disk that does not work now: an empty log in their place would be a lie.
            for name in missing:
                log.error(
                    "%s is on no disk that works: repair or mount its disk, or start once with "
                    "--forget-missing-directories if the disk is gone for good",
                    name,
                )
        else:
            await self._create((wanted[name], name.partition) for name in missing)

    def _park_stray(self, name: TopicPartition, topic_id: UUID | None, topic: TopicImage | None) -> None:
        """If the log is a stray.  `topic_id` is from its folder, `topic` from the metadata, if that has a replica of the
        partition on this broker."""
        if topic is None:
            if not self._dirs.leave_alone(name):
                self._dirs.clear_away(name, "the metadata has no replica of it on this broker")
        elif topic_id != topic.id and name not in self._dirs.unidentified:
            self._dirs.clear_away(name, f"it is not from topic {topic.id}, which has its name now")

    async def apply(self, update: Update) -> None:
        """Called for every update before anybody sees its image."""
        self._image = update.image
        for name in update.topics:
            before, after = update.before.topics.get(name), update.image.topics.get(name)
            if before is not None and (after is None or after.id != before.id):
                await self._topic_deleted(before)
                before = None
            if after is not None:
                await self._topic_changed(before, after)
        if update.broker_configs:
            self._reconfigure(None)
        elif update.topic_configs:
            self._reconfigure(frozenset(update.topic_configs))

    async def _topic_deleted(self, topic: TopicImage) -> None:
        problem = errors.UnknownTopicOrPartition(f"topic {topic.name!r} was deleted")
        for partition in topic.partitions:
            self._held.pop((topic.id.bytes, partition.index), None)
            held = self._held.pop((topic.name, partition.index), None)
            if held is not None:
                self._gone = self._gone.plus(held)
                held.closed(problem)
        for at, partition in enumerate(topic.partitions):
            name = TopicPartition(topic.name, partition.index)
            if name in self._dirs:
                self._delete(name)
            if at % TURN == TURN - 1:
                await asyncio.sleep(0)
        self._deleted()

    async def _topic_changed(self, before: TopicImage | None, after: TopicImage) -> None:
        changed = changed_partitions(before, after)
        had = {
            partition.index
            for partition, _ in changed
            if partition is not None and self._node in partition.replicas
        }
        has = {partition.index for _, partition in changed if self._node in partition.replicas}
        await self._create((after, index) for index in sorted(has - had))
        for index in sorted(had - has):
            self._moved_away(after, index)
        self._deleted()
        for _, partition in changed:
            held = self._held.get((after.name, partition.index))
            if held is not None:
                _lead(held, partition)

    def _moved_away(self, topic: TopicImage, index: int) -> None:
        """Other brokers hold the partition now."""
        name = TopicPartition(topic.name, index)
        self._held.pop((topic.id.bytes, index), None)
        held = self._held.pop((topic.name, index), None)
        if held is not None:
            self._gone = self._gone.plus(held)
            held.closed(errors.NotLeaderOrFollower(f"{name} was moved to other brokers"))
        if name in self._dirs:
            self._delete(name)

    async def _create(self, wanted: Iterable[tuple[TopicImage, int]]) -> None:
        for at, (topic, index) in enumerate(wanted):
            name = TopicPartition(topic.name, index)
            try:
                self._dirs.create(name, topic.id)
            except errors.KafkaStorageError as problem:
                log.error("cannot create %s: %s", name, problem)
            if at % TURN == TURN - 1:
                await asyncio.sleep(0)

    def _delete(self, name: TopicPartition) -> None:
        for tell in self.forgotten:
            tell(name)
        try:
            self._dirs.delete(name)
        except errors.KafkaStorageError as problem:
            log.error("cannot delete %s: %s", name, problem)

    def _deleted(self) -> None:
        try:
            self._dirs.deleted()
        except errors.KafkaStorageError as problem:
            log.error("deleted logs may come back: %s", problem)

    def _reconfigure(self, topics: frozenset[str] | None) -> None:
        """`topics`: whose settings have changed; None for all."""
        for partition in self.open_ones():
            if topics is None or partition.topic in topics:
                partition.reconfigure(self._configs(partition.topic))
        # A log is open from its creation on, before anybody holds its partition: retention looks at it, and whoever
        # comes first to produce finds it as it is.
        for home in self._dirs.dirs:
            for name, log in home.logs.items():
                if (topics is None or name.topic in topics) and name not in self._held:
                    log.reconfigure(self._configs(name.topic))

    # Between directories

    def move(self, name: TopicPartition, path: str) -> None:
        """Begins to move a log to another directory of this broker; reads, writes and replication continue meanwhile."""
        partition = self.held_here(*name)
        under_way = self._dirs.moves.get(name)
        move = self._dirs.move(name, path)
        if move is not None and move is not under_way:
            task = asyncio.get_running_loop().create_task(self._move(partition, move))
            self._moving[task] = None
            task.add_done_callback(self._moving.pop)

    async def _move(self, partition: HostedPartition, move: Move) -> None:
        name = partition.name
        try:
            while True:
                async for count in move.copying():
                    await self._pace.copied(count)
                    if self._dirs.moves.get(name) is not move:
                        return
                while partition.log.next != partition.log.end:
                    # Appends that are on their way to the old disk: they are for the old log.
                    await partition.log.flush()
                if self._dirs.moves.get(name) is not move:
                    return
                if not move.cut:
                    break
            for tell in self.forgotten:
                tell(name)
            partition.moved(self._dirs.finish_move(name))
            log.info("%s moved to %s", name, move.target.path)
        except errors.TidelogError as problem:
            if self._dirs.moves.get(name, move) is move:  # not given up for another one
                log.error("%s was not moved: %s", name, problem)
                self._dirs.cancel_move(name)

    async def stop(self) -> None:
        for task in self._moving:
            task.cancel()
        await asyncio.gather(*self._moving, return_exceptions=True)
        for partition in self.open_ones():
            # Saved with the clean stop of its directory: housekeeping saves it only from time to time.
            home = self._dirs.home(partition.name)
            home.committed.offsets[partition.name] = partition.state.committed


def _lead(partition: HostedPartition, image: metadata.PartitionImage) -> None:
    partition.led(
        image.leader,
        Epoch(image.leader_epoch),
        frozenset(image.in_sync),
        len(image.replicas),
        image.doubted,
        bool(image.eligible),
    )
