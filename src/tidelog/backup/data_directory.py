"""Makes a data directory for a new cluster of one broker, as a clean stop would have left it.

It is built beside its final place, under a name with `.restoring`, synced, and renamed as the last step: a directory that is
there is whole.  Files of partitions are written by whoever uses this; the indexes, the state of producers and the leader
epochs are made by recovery, which checks every batch."""

from __future__ import annotations

import asyncio
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from random import SystemRandom
from uuid import UUID, uuid4

from tidelog.clock import SystemClock
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage, InvalidConfig
from tidelog.metadata.sqlite.store import SqliteStore
from tidelog.metadata.store import Put
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import OffsetFile, id_text
from tidelog.storage.dirs import identity
from tidelog.storage.dirs.identity import Identity
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import SystemDisk
from tidelog.storage.log import Log
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.recovery.recovery import Recovery, Report
from tidelog.storage.segments.segment_files import LOG, stem
from tidelog.types import NodeId, TopicPartition

METADATA_FILE = "metadata.sqlite"
BUILDING = ".restoring"
_FILES_MAX = 64
_ENTRIES_A_TRANSACTION = 100


def new_cluster_id() -> str:
    return id_text(uuid4())


class NewDataDirectory:
    def __init__(self, path: str, node: NodeId) -> None:
        """InvalidConfig if `path` has anything in it.  What an earlier attempt left is removed."""
        path = os.path.abspath(path)
        if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
            raise InvalidConfig(f"{path} is not an empty folder: a new cluster gets a folder of its own.")
        self._final, self.path = path, path + BUILDING
        self.disk = SystemDisk()
        self.cluster_id = new_cluster_id()
        self.node = node
        if os.path.exists(self.path):
            shutil.rmtree(self.path)
        os.makedirs(self.path)
        files = OpenFiles(_FILES_MAX)
        self._volume = Volume.of(self.path, self.disk, SystemClock(), SystemRandom(), files)
        self._starts = OffsetFile(self.disk, f"{self.path}/{checkpoints.LOG_STARTS}")
        self._committed = OffsetFile(self.disk, f"{self.path}/{checkpoints.COMMITTED}")
        self.epochs: dict[TopicPartition, int] = {}
        self.producer_ids: set[int] = set()
        """Of the logs that were opened."""

    def folder(self, name: TopicPartition) -> str:
        return f"{self.path}/{name}"

    def make_log(self, name: TopicPartition, topic_id: UUID) -> str:
        """The folder of a partition, without segments.  Blocks, as all here."""
        folder = self.folder(name)
        os.makedirs(folder)
        with open(f"{folder}/{checkpoints.PARTITION_METADATA}", "wb") as file:
            file.write(checkpoints.encode_topic_id(topic_id))
        return folder

    def discard_log(self, name: TopicPartition) -> None:
        shutil.rmtree(self.folder(name))

    def complete_log(
        self, name: TopicPartition, config: TopicConfig, start: int, end: int, scan_from: int = 0
    ) -> Report:
        """After its segments are there.  `start`, `end`: of the log; its last batch may end before, where compaction has
        left nothing.  `scan_from`: what lies below is known to be whole, with its indexes."""
        report = Recovery(self._volume, self.folder(name), config, power_lost=False).run(start, scan_from)
        if report.bad or report.cut_batches or report.end > end:
            raise CorruptMessage(f"{name} is not whole where it was restored: {report}")
        if report.end < end:
            with open(stem(self.folder(name), end) + LOG, "wb"):
                pass
        epochs_path = f"{self.folder(name)}/{checkpoints.LEADER_EPOCHS}"
        if os.path.exists(epochs_path):
            epochs = checkpoints.decode_epochs(self.disk.read_file(epochs_path))
            self.epochs[name] = max((epoch for epoch, _ in epochs), default=-1)
        self._volume.recovery_points.offsets[name] = end
        self._committed.offsets[name] = end
        if start:
            self._starts.offsets[name] = start
        return report

    def open_log(self, name: TopicPartition, config: TopicConfig) -> Log:
        """A log that was completed."""
        start, end = self._starts.offsets.get(name, 0), self._volume.recovery_points.offsets[name]
        return Log.open(self._volume, self.folder(name), name, config, start, end)

    def close_log(self, name: TopicPartition, log: Log) -> None:
        """It may have grown."""
        self._volume.recovery_points.offsets[name] = self._committed.offsets[name] = log.end
        self.producer_ids.update(producer.id for producer in log.producers)
        log.close()

    async def finish(self, entries: list[tuple[str, bytes]]) -> None:
        """`entries`: of the metadata store.  From here on a broker can be started on the directory."""
        await self._write_metadata(entries)
        await asyncio.to_thread(self._publish)

    async def _write_metadata(self, entries: list[tuple[str, bytes]]) -> None:
        with ThreadPoolExecutor(max_workers=1) as thread:
            store = await SqliteStore.open(f"{self.path}/{METADATA_FILE}", thread, SystemClock())
            try:
                for at in range(0, len(entries), _ENTRIES_A_TRANSACTION):
                    puts = [Put(key, value) for key, value in entries[at : at + _ENTRIES_A_TRANSACTION]]
                    await store.txn([], puts)
            finally:
                await store.close()

    def _publish(self) -> None:
        disk, path = self.disk, self.path
        for file in (self._volume.recovery_points, self._committed, self._starts):
            file.save()
        directory_id = uuid4()
        identity.write_identity(
            disk, path, Identity(self.cluster_id, self.node, directory_id, frozenset((directory_id,)))
        )
        identity.mark_clean(disk, path)
        disk.sync_all(path)
        if os.path.isdir(self._final):
            os.rmdir(self._final)
        os.rename(path, self._final)
        disk.sync_folder(os.path.dirname(self._final))

    def close(self) -> None:
        self.disk.close()
