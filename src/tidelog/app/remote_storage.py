"""Remote storage of one broker (KIP-405), built from its settings: the object store, the cache, the reader, and what keeps
the store in step with the logs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidelog.app.environment import BrokerEnvironment
from tidelog.broker.metrics.metric_sources import RemoteSources
from tidelog.config import BrokerConfig
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.changes import Update
from tidelog.replication.partitions import Partitions
from tidelog.replication.tiering import Tiering, TieringCounters
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.disk import Disk
from tidelog.storage.tiers.chunk_cache import FOLDER, ChunkCache
from tidelog.storage.tiers.object_store import open_object_store
from tidelog.storage.tiers.remote_reader import ReadLimits, RemoteReader
from tidelog.storage.tiers.tiers import Tiers

URL = "tidelog.remote.storage.url"


class RemoteStorage:
    def __init__(
        self, tiers: Tiers | None, controller: Controller, dirs: LogDirs, around: BrokerEnvironment
    ) -> None:
        """`tiers`: None for a broker without remote storage."""
        self.tiers = tiers
        self.tiering: Tiering | None = None
        self.counters = TieringCounters()
        self._controller = controller
        self._dirs = dirs
        self._around = around

    @staticmethod
    async def open(
        given: BrokerConfig,
        controller: Controller,
        dirs: LogDirs,
        places: Sequence[tuple[Disk, str]],
        around: BrokerEnvironment,
    ) -> RemoteStorage:
        """Before any log is opened.  A store that is away does not keep the broker from starting."""
        tiers = await _open(given, controller, places[0], around)
        for directory in dirs.dirs:
            directory.volume.tiers = tiers
        return RemoteStorage(tiers, controller, dirs, around)

    async def run(self, partitions: Partitions) -> None:
        """For ever."""
        if self.tiers is None:
            await asyncio.Event().wait()
            return
        controller, around = self._controller, self._around
        self.tiering = Tiering(
            self.tiers,
            partitions,
            self._dirs,
            controller.topic_config,
            controller.config,
            around.clock,
            around.random,
            self.counters,
        )
        try:
            await self.tiering.run()
        finally:
            await self.tiers.reader.stop()

    @property
    def figures(self) -> RemoteSources | None:
        return None if self.tiers is None else RemoteSources(self.tiers, self.counters)

    def apply(self, update: Update) -> None:
        if self.tiering is not None:
            self.tiering.apply(update)


async def _open(
    given: BrokerConfig, controller: Controller, place: tuple[Disk, str], around: BrokerEnvironment
) -> Tiers | None:
    if not given.remote_log_storage_system_enable:
        return None
    assert given.tidelog_remote_storage_url is not None, "the settings were checked"
    store = open_object_store(given.tidelog_remote_storage_url, URL)
    disk, path = place
    cache = ChunkCache(disk, f"{path}/{FOLDER}", lambda: controller.config().tidelog_remote_cache_bytes)
    await cache.start()
    reader = RemoteReader(store, cache, around.clock, lambda: _limits(controller.config()))
    return Tiers(store, reader, controller.image.cluster_id)


def _limits(config: BrokerConfig) -> ReadLimits:
    return ReadLimits(
        at_once=config.remote_log_reader_threads,
        waiting_max=config.remote_log_reader_max_pending_tasks,
        ahead_bytes=config.tidelog_remote_read_ahead_bytes,
        side_bytes=config.remote_log_index_file_cache_total_size_bytes,
        fetch_rate=config.remote_log_manager_fetch_max_bytes_per_second,
    )
