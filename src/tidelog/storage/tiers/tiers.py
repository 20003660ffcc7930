"""Remote storage of one broker: the object store, the cache, and the cold part of each partition's log.

`Volume.tiers` leads here: a log whose topic asks for remote storage gets its `ColdLog` from this object."""

from __future__ import annotations

from uuid import UUID

from tidelog.storage.tiers.cold_log import ColdLog
from tidelog.storage.tiers.manifest import Manifest, partition_folder
from tidelog.storage.tiers.manifest_chain import ManifestChain
from tidelog.storage.tiers.object_store import ObjectStore
from tidelog.storage.tiers.remote_reader import RemoteReader
from tidelog.types import TopicPartition


class Tiers:
    def __init__(self, store: ObjectStore, reader: RemoteReader, cluster_id: str) -> None:
        self.store = store
        self.reader = reader
        self._cluster_id = cluster_id
        self._logs: dict[tuple[UUID, int], ColdLog] = {}

    def log(self, name: TopicPartition, topic_id: UUID) -> ColdLog:
        """The same object every time."""
        key = topic_id, name.partition
        cold = self._logs.get(key)
        if cold is None:
            folder = partition_folder(self._cluster_id, name.topic, topic_id, name.partition)
            empty = Manifest(name.topic, str(topic_id), name.partition)
            cold = self._logs[key] = ColdLog(name, empty, ManifestChain(self.store, folder), self.reader)
        return cold

    def forget(self, topic_id: UUID, partition: int) -> ColdLog | None:
        return self._logs.pop((topic_id, partition), None)

    @property
    def logs(self) -> list[ColdLog]:
        return list(self._logs.values())
