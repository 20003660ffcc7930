"""One partition's log, as the rest of the broker sees it: a row of segments of which the last is appended to.

The parts do the work and keep the invariants: `LogState` is what they share, `Appender` adds batches, `Roller` starts
segments, `Cutter` makes the log shorter, `Reader` finds bytes, `Durability` knows what is on disk for certain.  All methods
run on the event loop's thread; only the work handed to the flusher does not.  `replication.partition` is the one
writer of a log."""

from __future__ import annotations

import asyncio

from tidelog._speed.log.append import NativeLog
from tidelog.config import TopicConfig
from tidelog.storage import checkpoints
from tidelog.storage.appender import Appender
from tidelog.storage.cutter import Cutter
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.fetched_log import NotHereYet, Records
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.leader_epochs import Epochs
from tidelog.storage.log_state import LogState, RemotePart
from tidelog.storage.offset_lookup import Known, TimedOffset
from tidelog.storage.producer_state import snapshots
from tidelog.storage.producer_state.producers import Producers
from tidelog.storage.reader import Reader
from tidelog.storage.recovery.loading import Loaded, load
from tidelog.storage.roller import Roller
from tidelog.storage.segments.txn_index import Aborted
from tidelog.storage.tiers.cold_log import REMOTE_SEEN, ColdLog
from tidelog.types import TopicPartition


class Log(NativeLog):
    __slots__ = ("_opened_end", "cutter", "folder", "name", "reader", "roller", "segments", "volume")

    appender: Appender
    epochs: Epochs
    producers: Producers
    state: LogState

    def __init__(
        self, volume: Volume, folder: str, name: TopicPartition, config: TopicConfig, loaded: Loaded
    ) -> None:
        """`loaded` is what `loading.load` found in the folder; `Log.open` is the usual way in."""
        state = LogState(volume, folder, name, config, loaded)
        self.volume = volume
        self.folder = folder
        self.name = name
        self.segments = state.segments
        self.roller = Roller(state)
        self.cutter = Cutter(state, self.roller)
        self.reader = Reader(state)
        super().__init__(state, Appender(state, self.roller, self.cutter))
        self._opened_end = state.end
        self.reconfigure(config)

    @classmethod
    def open(
        cls,
        volume: Volume,
        folder: str,
        name: TopicPartition,
        config: TopicConfig,
        start: int = 0,
        recovery_point: int = 0,
    ) -> Log:
        """A log that was stopped cleanly or recovered, or a new one when the folder is empty."""
        volume.disk.make_folder(folder)
        return cls(volume, folder, name, config, load(volume, folder, config, start, recovery_point))

    @property
    def config(self) -> TopicConfig:
        return self.state.config

    @property
    def local_start(self) -> int:
        """Where the local segments begin; what lies between `start` and here is in remote storage."""
        return max(self.start, self.segments.first.base)

    @property
    def cold(self) -> ColdLog | None:
        """The part of the log that is in remote storage; None: the topic, or the broker, has no remote storage."""
        return self.state.cold

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return self.segments.size

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk for certain."""
        return self.state.durability.recovery_point

    @property
    def damaged(self) -> tuple[BadRange, ...]:
        """Ranges whose bytes rotted: reads of them fail.  A follower can cut its log at the first and fetch."""
        return tuple(self.state.damage.ranges)

    @property
    def resting(self) -> bool:
        """Nothing has changed since it was opened, and all of it is durable."""
        return not (
            self.state.changed
            or self.next != self._opened_end
            or self.recovery_point < self.segments.last.end
            or not self.state.durability.epochs_saved
            or self.roller.trash
        )

    def reconfigure(self, config: TopicConfig) -> None:
        self.state.config = config
        self._find_cold(config)
        self.appender.reconfigure(config)
        self.roller.reconfigure(config)
        self.state.durability.configure(config)

    def bytes_from(self, offset: int) -> int:
        """Bytes of the batches from the one that holds `offset` on."""
        if offset >= self.next:
            return 0
        number = self.segments.holding(offset)
        position, _ = self.segments[number].locate(offset)
        return sum(self.segments[at].size for at in range(number, len(self.segments))) - position

    def _find_cold(self, config: TopicConfig) -> None:
        state, tiers = self.state, self.volume.tiers
        if not config.remote_storage_enable:
            if state.cold is not None:
                state.cold = None
                self.advance_start(self.local_start)
        elif state.cold is None and tiers is not None:
            path = f"{self.folder}/{checkpoints.PARTITION_METADATA}"
            try:
                topic_id = checkpoints.decode_topic_id(self.volume.disk.read_file(path))
                state.cold = tiers.log(self.name, topic_id)
                state.cold.seen = state.cold.seen or self.volume.disk.exists(f"{self.folder}/{REMOTE_SEEN}")
            except (FileNotFoundError, checkpoints.CorruptCheckpoint):
                pass  # whose log it is gets known before anybody holds it

    # Reading

    def fetch(
        self, offset: int, bytes_max: int, end: int, whole_batch: bool = True
    ) -> Records | NotHereYet | None:
        """From the batch that holds `offset`, up to `bytes_max`, nothing from the batch that holds `end` on: the one way
        to read a log.  With `whole_batch` the first batch comes whole however large; without, None when it
        does not fit."""
        return self.reader.read(offset, bytes_max, end, whole_batch)

    def read_bytes(self, records: Records) -> bytes:
        """The bytes of the records that `fetch` returned; KafkaStorageError if the disk cannot be read."""
        return self.reader.read_bytes(records)

    def aborted(self, start: int, end: int, part: Records | None = None) -> list[Aborted]:
        """The aborted transactions that have records from `start` on and below `end`, or in what was read so."""
        return self.reader.aborted(start, end, part)

    def offset_for_time(self, timestamp: int, opened: Known | None = None) -> TimedOffset | None:
        """The first record that is not older than `timestamp`; see `lookup` for `opened`."""
        return self.reader.offset_for_time(timestamp, opened)

    def max_timestamp(self, opened: Known | None = None) -> TimedOffset | None:
        """The first record that has the largest timestamp."""
        return self.reader.max_timestamp(opened)

    def suspect(self, offset: int | None) -> None:
        """Somebody could not make sense of the bytes at `offset`: they are to be checked."""
        self.reader.suspect(offset)

    # Cutting

    def truncate_to(self, offset: int) -> None:
        """Drops every batch that reaches `offset` or beyond; `end` is `offset` afterwards, if it was
        larger."""
        self.cutter.truncate_to(offset)

    def restart_at(self, offset: int, before: RemotePart | None = None) -> None:
        """Empty, with `offset` as the next one: for a follower whose leader has nothing older, or has it in remote
        storage only (`before`)."""
        self.cutter.restart_at(offset, before)

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers; their segments go with the next round of retention."""
        self.cutter.advance_start(offset)

    # Making it durable

    def flush(self) -> asyncio.Future[None]:
        """Done when everything below the present `end` is on disk; the recovery point has moved then."""
        return self.state.durability.flush()

    def wrote(self, path: str) -> None:
        """A small file in the log's folder is to be made durable with the next sync, by housekeeping at the latest."""
        self.state.durability.wrote(path)

    def abandon(self) -> None:
        """Its folder is about to go: nothing is written any more, and who waits is told so."""
        durability = self.state.durability
        durability.abandoned = True
        self.appender.abandon()
        for segment in self.segments:
            segment.release_all()
        self.volume.rolled.pop(durability, None)
        self.roller.trash.forget()

    def close(self, renames: list[tuple[str, str]] | None = None) -> None:
        """As `open` wants to find it.  Blocks.  The caller makes it durable with `Disk.sync_all`, which costs the same
        for one log and for many, and then does the `renames` that he passed a list for."""
        state, active = self.state, self.segments.last
        assert not state.queued, "a log is not closed while appends are on their way to it"
        if not self.resting:
            disk, folder, end = self.volume.disk, self.folder, self.end
            active.close()
            snapshots.write(disk, folder, end, self.producers, active.end)
            snapshots.remove_strays(disk, folder, [segment.base for segment in self.segments], end)
            state.durability.settle(renames)
        for segment in self.segments:
            segment.release_all()
        self.roller.trash.empty()


def is_offline(log: Log) -> bool:
    """Its disk has failed."""
    return log.volume.problem is not None


def is_unfit(log: Log) -> bool:
    """Its disk has failed, or some of its bytes rotted."""
    return log.volume.problem is not None or bool(log.state.damage.ranges)
