"""Metrics of data directories: sizes, disks, syncs, compaction, damage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from tidelog import errors
from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.metrics.page import Page
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.types import TopicPartition

MEASURED_AT_ONCE = 500
DISK_S_MAX = 1.0


class DiskSpace(NamedTuple):
    total_bytes: int
    free_bytes: int


class DiskProbe:
    """Asks the disks on a thread for free space and for the sizes of logs that are not open, which do not change until they
    are opened."""

    def __init__(self, around: GatewayServices) -> None:
        self._around = around
        self._sizes: dict[TopicPartition, int] = {}
        self.space: dict[str, DiskSpace] = {}

    async def look(self) -> None:
        for where in self._around.services.log_dirs.dirs:
            self.space.pop(where.path, None)
            if where.problem is None:
                try:
                    async with asyncio.timeout(DISK_S_MAX):
                        await self._look_at(where)
                except (OSError, TimeoutError, errors.TidelogError):
                    continue  # a disk that does not answer has no figures

    async def _look_at(self, where: LogDirectory) -> None:
        disk = where.volume.disk
        self.space[where.path] = DiskSpace(*await disk.run(lambda: disk.free_bytes(where.path)))
        resting = []
        for number, name in enumerate(list(where.names), 1):
            if name not in where.logs and name not in self._sizes:
                resting.append(name)
            if number % MEASURED_AT_ONCE == 0:
                await asyncio.sleep(0)
        for at in range(0, len(resting), MEASURED_AT_ONCE):
            names = resting[at : at + MEASURED_AT_ONCE]
            sizes = await disk.run(lambda names=names: [where.size_of(name) for name in names])  # type: ignore[misc]
            self._sizes.update(zip(names, sizes, strict=True))

    def resting_sizes(self, where: LogDirectory) -> Iterator[tuple[TopicPartition, int]]:
        for name in list(where.names):
            if name in where.logs:
                self._sizes.pop(name, None)
            elif name in self._sizes:
                yield name, self._sizes[name]


def directories(around: GatewayServices, page: Page, disks: DiskProbe) -> Iterator[None]:
    held = around.partitions.held
    for where in around.services.log_dirs.dirs:
        path = where.path
        page.put("mq_log_dir_online", int(where.problem is None), path)
        page.put("mq_stray_logs", len(where.strays), path)
        space = disks.space.get(path)
        if space is not None:
            page.put("mq_disk_total_bytes", space.total_bytes, path)
            page.put("mq_disk_free_bytes", space.free_bytes, path)
            page.put("mq_disk_usage_ratio", 1 - space.free_bytes / max(space.total_bytes, 1), path)
        size = 0
        for number, name in enumerate(list(where.logs)):
            log = where.logs.get(name)
            if log is not None:
                size += log.size
                if name not in held:
                    # Opened only by retention.
                    page.put("mq_partition_size_bytes", log.size, *name)
            if number % 50 == 49:
                yield
        for number, (name, resting) in enumerate(disks.resting_sizes(where)):
            size += resting
            page.put("mq_partition_size_bytes", resting, *name)
            if number % 50 == 49:
                yield
        page.put("mq_log_dir_size_bytes", size, path)
        took = where.volume.flusher.took_ms
        page.put_histogram("mq_flush_time_ms", took.bounds, took.read(), took.sum, path)
        yield


def compaction(around: GatewayServices, page: Page) -> Iterator[None]:
    for cleaner in around.figures.cleaners:
        path, counters = cleaner.path, cleaner.counters
        page.put("mq_compaction_rounds_total", counters.rounds, path)
        page.put("mq_compaction_failures_total", counters.rounds_failed, path)
        page.put("mq_compaction_read_bytes_total", counters.bytes_read, path)
        page.put("mq_compaction_written_bytes_total", counters.bytes_written, path)
        page.put("mq_compaction_last_round_ms", counters.last_round_ms, path)
        page.put("mq_compaction_dirty_ratio_max", counters.dirtiest_percent / 100, path)
        page.put("mq_uncleanable_partitions", len(cleaner.uncleanable), path)
    yield


def damage(around: GatewayServices, page: Page) -> Iterator[None]:
    for where in around.services.log_dirs.dirs:
        damaged = list(where.volume.damaged.values())
        page.put("mq_damaged_partitions", len(damaged), where.path)
        page.put("mq_damaged_ranges", sum(len(log.ranges) for log in damaged), where.path)
    for scrubber in around.figures.scrubbers:
        path, counters = scrubber.path, scrubber.counters
        page.put("mq_scrubbed_bytes_total", counters.bytes_read, path)
        page.put("mq_scrub_found_ranges_total", counters.ranges_found, path)
        page.put("mq_scrub_rebuilt_indexes_total", counters.indexes_rebuilt, path)
        page.put("mq_scrub_round_done_ms", counters.round_done_ms, path)
    page.put("mq_repaired_ranges_total", around.figures.repair.restored)
    page.put("mq_repair_cuts_total", around.figures.repair.cut)
    yield
