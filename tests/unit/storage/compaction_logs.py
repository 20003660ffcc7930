"""A compacted log on a virtual disk with its cleaner, and what readers see of it."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.unit.storage.making import NAME, HandClock, append, content, make_volume
from tidelog.config import TopicConfig
from tidelog.record import Batch, Codec, Record, build_batch, read_batches
from tidelog.storage.compaction.cleaner import Cleanable, Cleaner
from tidelog.storage.compaction.runner import InlineRunner, Runner
from tidelog.storage.disk import Disk
from tidelog.storage.log import Log
from tidelog.storage.recovery.recovery import Recovery
from tidelog.testing import VirtualDisk
from tidelog.types import TopicPartition

COMPACTED = TopicConfig(
    cleanup_policy=frozenset(("compact",)),
    segment_bytes=600,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
)


class CompactedLog:
    """One log and its cleaner; `stable` follows the end unless a test sets it."""

    def __init__(
        self,
        disk: Disk | None = None,
        config: TopicConfig = COMPACTED,
        runner: Runner | None = None,
        name: TopicPartition = NAME,
    ) -> None:
        self.disk = VirtualDisk(Random(1)) if disk is None else disk
        self.config = config
        self.folder = f"/data/{name}"
        self._name = name
        self.stable: int | None = None
        self.memory_bytes = 1 << 20
        self._runner = runner
        self._open(0, 0)

    def _open(self, start: int, recovery_point: int) -> None:
        self.volume = make_volume(self.disk)
        self.clock = self.volume.clock
        assert isinstance(self.clock, HandClock)
        self.log = Log.open(self.volume, self.folder, self._name, self.config, start, recovery_point)
        runner = self._runner or InlineRunner(self.disk)
        self.cleaner = Cleaner(self.volume, self.cleanables, runner, self.memory_bytes, 15_000)

    def cleanables(self) -> list[Cleanable]:
        return [Cleanable(self.log, self.log.end if self.stable is None else self.stable)]

    def put(
        self, *pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE, **header: Any
    ) -> None:
        """One batch."""
        base = self.log.next
        records = [Record(0, self.volume.clock.now_ms(), key, value) for key, value in pairs]
        append(self.log, build_batch(records, codec=codec, base_offset=base, leader_epoch=0, **header))

    def restart(self) -> None:
        """A clean stop and a start; the clock goes on."""
        now_ms = self.volume.clock.now_ms()
        self.log.close()
        self._open(self.log.start, self.log.recovery_point)
        self._set_clock(now_ms)

    def recover(self, power_lost: bool, recovery_point: int = 0, start: int = 0) -> None:
        """After `disk.kill` or `disk.crash`."""
        now_ms = self.volume.clock.now_ms()
        volume = make_volume(self.disk)
        if self.disk.exists(self.folder):
            Recovery(volume, self.folder, self.config, power_lost).run(start, recovery_point)
        self._open(start, recovery_point)
        self._set_clock(now_ms)

    def _set_clock(self, now_ms: int) -> None:
        assert isinstance(self.clock, HandClock)
        self.clock.ms = now_ms

    def pass_ms(self, ms: int) -> None:
        self._set_clock(self.volume.clock.now_ms() + ms)

    def batches(self) -> list[Batch]:
        """All of the log, as a consumer fetches it."""
        found: list[Batch] = []
        offset = self.log.start
        while offset < self.log.end:
            batches = list(read_batches(content(self.log.reader.read(offset, 1 << 20, self.log.end))))
            if not batches:
                break
            found += batches
            offset = batches[-1].header.last_offset + 1
        return found

    def records(self) -> list[Record]:
        return [record for batch in self.batches() for record in batch.records()]

    def values(self) -> dict[int, tuple[bytes | None, bytes | None]]:
        return {record.offset: (record.key, record.value) for record in self.records()}

    def latest(self) -> dict[bytes | None, bytes]:
        """What a reader that keeps the last value of every key ends up with."""
        table: dict[bytes | None, bytes] = {}
        for record in self.records():
            if record.value is None:
                table.pop(record.key, None)
            else:
                table[record.key] = record.value
        return table

    def names(self) -> list[str]:
        return sorted(self.disk.list(self.folder))
