"""Forks a running cluster whose brokers keep their files on this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping

from tidelog.backup.cut import take_whole_cut
from tidelog.backup.data_directory import NewDataDirectory
from tidelog.backup.forking import ForkedPartition, fork_partition, segments_of
from tidelog.backup.new_metadata import metadata_of_one_broker
from tidelog.backup.open_transactions import (
    TransactionLog,
    end_open_transactions,
    is_transaction_topic,
)
from tidelog.backup.point import RestorePoint
from tidelog.backup.restoring import topic_configs
from tidelog.client.admin.log_dirs import describe_log_dirs
from tidelog.client.cluster.cluster import Cluster
from tidelog.config import TopicConfig
from tidelog.errors import InvalidConfig
from tidelog.storage.dirs.identity import read_identity
from tidelog.storage.disk import SystemDisk
from tidelog.types import TopicPartition

ROLL_BYTES = 1 << 20
"""Of a smaller segment, a copy costs no more than a new file."""

Progress = Callable[[int, int], None]
"""Partitions done, of all."""


class ClusterFork:
    def __init__(self, cluster: Cluster, timeout_ms: int, progress: Progress) -> None:
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._progress = progress

    async def run(
        self, directory: NewDataDirectory, point: RestorePoint, topics: Collection[str] | None
    ) -> list[ForkedPartition]:
        """`topics` None: the whole cluster."""
        cut = await take_whole_cut(self._cluster, self._timeout_ms, ROLL_BYTES)
        if point.at_ms is not None and point.at_ms > cut.cut_ms:
            raise InvalidConfig("A fork cannot be of a time in the future.")
        names = [name for name in sorted(cut.ranges) if topics is None or name.topic in topics]
        for missing in sorted(set(topics or ()) - {name.topic for name in names}):
            raise InvalidConfig(f"There is no topic {missing!r}.")
        for name, end in point.ends.items():
            if name not in cut.ranges or end > cut.ranges[name].end:
                raise InvalidConfig(f"{name} does not reach offset {end}.")
        folders = await self._folders(names, cut.cluster_id)
        configs = topic_configs(cut.metadata)
        forked = []
        for number, name in enumerate(names, 1):
            config = configs.get(name.topic, TopicConfig())
            forked.append(
                await asyncio.to_thread(
                    fork_partition, directory, folders[name], name, cut.ranges[name], point, config
                )
            )
            self._progress(number, len(names))
        if not point.is_end or topics is not None:
            await self._end_transactions(directory, names, configs, point.at_ms or cut.cut_ms, topics is None)
        await directory.finish(
            metadata_of_one_broker(
                cut.metadata, directory.cluster_id, directory.node, directory.epochs, topics
            )
        )
        return forked

    async def _end_transactions(
        self,
        directory: NewDataDirectory,
        names: list[TopicPartition],
        configs: Mapping[str, TopicConfig],
        time_ms: int,
        coordinated: bool,
    ) -> None:
        known = TransactionLog()
        for name in filter(is_transaction_topic, names):
            for data in await asyncio.to_thread(segments_of, directory.folder(name)):
                known.learn(data)
        for name in names:
            await end_open_transactions(
                directory,
                name,
                configs.get(name.topic, TopicConfig()),
                known,
                original=name,
                coordinated=coordinated,
                time_ms=time_ms,
            )

    async def _folders(self, names: list[TopicPartition], cluster_id: str) -> dict[TopicPartition, str]:
        """Of each partition, as its leader has it."""
        leaders = await self._cluster.leaders(names)
        described = await describe_log_dirs(self._cluster, list(leaders), None, timeout_ms=self._timeout_ms)
        folders: dict[TopicPartition, str] = {}
        for node, led in leaders.items():
            homes = {name: where.path for where in described[node] for name in where.partitions}
            for name in led:
                folder = f"{homes.get(name, '?')}/{name}"
                if name not in homes or not _is_here(homes[name], cluster_id, node, folder):
                    raise InvalidConfig(
                        f"{name} is led by broker {node}, whose files are not on this machine ({folder}): run the command "
                        "where they are, or use `tidelog backup create` and `tidelog backup restore`."
                    )
                folders[name] = folder
        return folders


def _is_here(path: str, cluster_id: str, node: int, folder: str) -> bool:
    disk = SystemDisk()
    try:
        identity = read_identity(disk, path) if os.path.isdir(folder) else None
    except OSError:
        return False
    finally:
        disk.close()
    return identity is not None and (identity.cluster_id, identity.node_id) == (cluster_id, node)
