"""Strays: logs that belong to no topic in the metadata.

Their folders are renamed to `<topic>-<partition>.<id>-stray`; the broker does not open them, and only an operator removes
them.  The metadata may be older than the logs, restored from a backup: a log comes back with its topic.  Used by
`log_dirs`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from uuid import UUID

from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import OffsetFile
from tidelog.storage.dirs import folders
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.segments.segment_files import LOG
from tidelog.types import TopicPartition


def park(home: LogDirectory, name: TopicPartition) -> str:
    """The log becomes a stray; the path of its folder."""
    disk, start, topic_id = home.volume.disk, home.log_starts.offsets.get(name, 0), home.topic_id(name)
    if start:
        path = f"{home.folder(name)}/{checkpoints.LOG_STARTS}"
        try:
            disk.replace_file(path, checkpoints.encode_offsets({name: start}))
        except OSError as problem:
            # On a full disk: should the log come back, the records that were deleted do as well.
            home.volume.failed(problem, f"park {name}")
    path = home.take_away(name, folders.STRAY)
    home.strays[path] = topic_id
    return path


def find(
    homes: Iterable[LogDirectory], name: TopicPartition, topic_id: UUID
) -> tuple[LogDirectory, str] | None:
    """The stray that is this partition of the topic, and where it is."""
    for home in homes:
        for path, stray_id in home.strays.items():
            folder = folders.parse(os.path.basename(path))
            if stray_id == topic_id and folder is not None and folder.name.partition == name.partition:
                return home, path
    return None


def bring_back(home: LogDirectory, path: str, name: TopicPartition) -> None:
    """The stray is the log of this partition again."""
    disk = home.volume.disk
    starts = OffsetFile(disk, f"{path}/{checkpoints.LOG_STARTS}")
    try:
        starts.load()
        for file in (home.volume.recovery_points, home.log_starts, home.committed):
            file.forget(name)
        disk.rename(path, home.folder(name))
        disk.sync_folder(home.path)
    except OSError as problem:
        raise home.volume.failed(problem, f"bring back {path}", at_risk=True) from problem
    for start in starts.offsets.values():
        home.log_starts.offsets[name] = start
    del home.strays[path]
    home.names.add(name)


def is_blank(home: LogDirectory, name: TopicPartition) -> bool:
    """Nothing was ever in this log, as far as its folder tells."""
    disk, folder = home.volume.disk, home.folder(name)
    try:
        logs = [each for each in disk.list(folder) if each.endswith(LOG)]
        return all(int(each[: -len(LOG)]) == 0 == disk.size(f"{folder}/{each}") for each in logs)
    except OSError as problem:
        raise home.volume.failed(problem, f"open {name}") from problem
