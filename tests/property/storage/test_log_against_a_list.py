"""The log against a plain list of batches: whatever is done to it, it reads as the list does.

After a kill nothing is missing.  After a power loss the log is a prefix of what it was at some moment since the last
sync, and has at least what was synced."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.unit.storage.encrypted_disk import EncryptedVirtualDisk
from tests.unit.storage.making import FOLDER, NAME, NOW_MS, append, batch, content, make_volume, open_log
from tidelog._speed.log.batch import walk
from tidelog.config import TopicConfig
from tidelog.record.reader import read_records
from tidelog.storage.encryption.file_header import is_encrypted
from tidelog.storage.files import OpenFiles
from tidelog.storage.log import Log
from tidelog.storage.recovery import Recovery, Report
from tidelog.testing import VirtualDisk

CONFIG = TopicConfig(
    segment_bytes=700, index_interval_bytes=150, segment_index_bytes=80, file_delete_delay_ms=0
)


class Entry(NamedTuple):
    base: int
    count: int
    value: bytes
    timestamp: int
    epoch: int

    @property
    def end(self) -> int:
        return self.base + self.count


class LogMachine(RuleBasedStateMachine):
    make_disk: type[VirtualDisk] = VirtualDisk

    def __init__(self) -> None:
        super().__init__()
        self.disk = self.make_disk(Random(1))
        self.volume = make_volume(self.disk, files=8)
        self.log = open_log(self.volume, CONFIG)
        self.entries: list[Entry] = []
        self.start = self.end = self.start_max = 0
        self.epoch = 0
        self.made = 0
        self.synced = 0  # entries that no power loss may take
        self.pasts: list[list[Entry]] = []  # what the log was before it was cut, since the last sync

    # Growing

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 140),
        ahead=st.sampled_from([0, 0, 0, 3]),
        time=st.integers(-50, 50),
    )
    def append(self, count: int, size: int, ahead: int, time: int) -> None:
        self.made += 1
        value = b"%d:" % self.made + bytes(size)
        entry = Entry(self.end + ahead, count, value, NOW_MS + self.made * 10 + time, self.epoch)
        data = batch(entry.base, count, timestamp=entry.timestamp, value=value, epoch=self.epoch)
        assert append(self.log, data) is None
        self.entries.append(entry)
        self.end = entry.end

    @rule(batches=st.integers(2, 12))
    def append_many_at_once(self, batches: int) -> None:
        """As a follower does."""
        parts = []
        for _ in range(batches):
            self.made += 1
            entry = Entry(self.end, 1, b"%d" % self.made, NOW_MS + self.made * 10, self.epoch)
            parts.append(batch(entry.base, 1, timestamp=entry.timestamp, value=entry.value, epoch=self.epoch))
            self.entries.append(entry)
            self.end = entry.end
        assert append(self.log, b"".join(parts)) is None

    @rule()
    def begin_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roller.roll()
        self._forget_gap(self.end)

    @rule()
    def sync(self) -> None:
        async def flush() -> None:
            await self.log.flush()

        asyncio.run(flush())
        assert self.log.recovery_point >= self.log.segments.last.end
        self._all_durable()

    # Shrinking

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = int(self.start + share * (self.end - self.start))
        if offset < self.end:
            self.pasts.append(list(self.entries))
            self.log.truncate_to(offset)
            self.entries = [entry for entry in self.entries if entry.end <= offset]
            self.synced = min(self.synced, len(self.entries))
            self.end = offset

    @rule(ahead=st.integers(-5, 50))
    def restart(self, ahead: int) -> None:
        offset = max(0, self.end + ahead)
        self.pasts.append(list(self.entries))
        self.log.restart_at(offset)
        self.entries = []
        self.synced = 0
        self.start = self.end = offset

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.start = int(self.start + share * (self.end - self.start))
        self.log.advance_start(self.start)

    @rule(retained=st.integers(0, 3000))
    def retain(self, retained: int) -> None:
        self.log.reconfigure(replace(CONFIG, retention_bytes=retained))
        self.log.cutter.apply_retention(committed=self.end)
        self.log.reconfigure(CONFIG)
        assert self.log.start >= self.start
        self.start = self.log.start

    # Stopping

    @rule()
    def reopen(self) -> None:
        start = self.log.start
        self.log.close()
        self.disk.sync_all("/data")
        self._all_durable()
        self.log = open_log(self.volume, CONFIG, start=start, recovery_point=self.log.recovery_point)
        self._forget_gap()

    @rule()
    def kill(self) -> None:
        start, point = self.log.start, self.log.recovery_point
        self.disk.kill()
        report = self._recover(start, point, power_lost=False)
        assert not report.damaged and not report.cut_bytes
        self._forget_gap()
        self._all_durable()

    @rule(seed=st.integers(0, 1 << 30))
    def lose_power(self, seed: int) -> None:
        point = self.volume.recovery_points.offsets.get(NAME, 0)
        self.disk.crash(Random(seed))
        self.disk.make_folder(FOLDER)
        report = self._recover(0, point, power_lost=True)
        assert not report.damaged
        found = self._whole_log()
        start = max(self.start, self.log.start)
        kept = [entry for entry in self.entries if entry.end > start]
        durable = [entry for entry in self.entries[: self.synced] if entry.end > start]
        after = [entry for entry in found if entry.end > start]
        pasts = [[entry for entry in past if entry.end > start] for past in [*self.pasts, kept]]
        assert any(after == past[: len(after)] for past in pasts), "not a prefix of anything it was"
        assert after[: len(durable)] == durable, "lost what was synced"
        self.entries = found
        self.start, self.end = self.log.start, self.log.end
        self.epoch += 1
        self._all_durable()

    # Looking

    @rule(share=st.floats(0, 1), bytes_max=st.integers(0, 2000), bound=st.floats(0, 1), whole=st.booleans())
    def read(self, share: float, bytes_max: int, bound: float, whole: bool) -> None:
        offset = int(self.start + share * (self.end - self.start))
        end = int(self.start + bound * (self.end - self.start))
        found = self.log.reader.read(offset, bytes_max, end, whole)
        wanted = [entry for entry in self.entries if entry.end > offset and entry.end <= end]
        data = content(found)
        if found is None:
            first = wanted[0] if wanted else None
            assert first is None or (not whole and self._size(first) > bytes_max)
            return
        headers = walk(data)
        assert [header.base_offset for header in headers] == [e.base for e in wanted[: len(headers)]]
        assert headers or not whole
        assert len(data) <= bytes_max or len(headers) == 1

    @rule(time=st.integers(-100, 3000))
    def look_up_a_time(self, time: int) -> None:
        wanted = NOW_MS + time
        found = self.log.offset_for_time(wanted)
        records = [
            (entry.base + n, entry.timestamp + n)
            for entry in self.entries
            for n in range(entry.count)
            if entry.base + n >= self.start and entry.timestamp + n >= wanted
        ]
        assert (None if found is None else found[:2]) == (records[0] if records else None)

    @precondition(lambda self: self.entries)
    @rule()
    def look_up_the_newest(self) -> None:
        first = self.log.segments.first.base
        newest = (
            max(e.timestamp + e.count - 1 for e in self.entries if e.base >= first)
            if any(e.base >= first for e in self.entries)
            else None
        )
        found = self.log.max_timestamp()
        assert (None if found is None else found.timestamp) == newest

    @rule()
    def the_whole_log_reads_as_the_list(self) -> None:
        assert self._whole_log() == [entry for entry in self.entries if entry.end > self.start]

    @rule()
    def epochs_agree(self) -> None:
        for entry in self.entries:
            if entry.base >= self.start_max:
                assert self.log.epochs.of(entry.base) == entry.epoch

    @rule()
    def remove_deleted_files(self) -> None:
        paths, all_gone = self.log.roller.trash.take_deleted()
        assert all_gone
        for path in paths:
            self.disk.remove(path)

    @invariant()
    def bounds_agree(self) -> None:
        # A power loss can undo a deletion, and bring back records whose epochs are forgotten.
        self.start_max = max(self.start_max, self.start)
        assert (self.log.start, self.log.end, self.log.next) == (self.start, self.end, self.end)

    @invariant()
    def few_files_are_open(self) -> None:
        assert len(self.volume.files) <= 8

    # Help

    def _size(self, entry: Entry) -> int:
        return len(batch(entry.base, entry.count, timestamp=entry.timestamp, value=entry.value))

    def _all_durable(self) -> None:
        self.synced = len(self.entries)
        self.pasts = []

    def _forget_gap(self, end: int = 0) -> None:
        """Bounds that no batch reaches are not on disk."""
        first, last = self.log.segments.first.base, self.log.segments.last.base
        if not any(self.start <= entry.base < first for entry in self.entries):
            self.start = max(self.start, first)
        self.end = max(self.entries[-1].end if self.entries else self.start, self.start, last, end)

    def _recover(self, start: int, point: int, power_lost: bool) -> Report:
        self.volume = replace(self.volume, files=OpenFiles(8), problem=None, rolled={}, trashed={})
        report = Recovery(self.volume, FOLDER, CONFIG, power_lost).run(start, point)
        # As its directory does.
        self.disk.sync_all("/data")
        self.volume.recovery_points.offsets[NAME] = report.recovery_point
        self.volume.recovery_points.save()
        self.log: Log = open_log(self.volume, CONFIG, start=start, recovery_point=report.end)
        assert self.log.end == report.end
        return report

    def _whole_log(self) -> list[Entry]:
        found: list[Entry] = []
        offset = self.log.start
        while offset < self.log.end:
            data = content(self.log.reader.read(offset, 1000, self.log.end))
            headers = walk(data)
            if not headers:
                break
            for header in headers:
                part = data[header.position : header.position + header.size]
                first = next(iter(read_records(part)))
                assert first.value is not None
                found.append(
                    Entry(header.base_offset, header.count, first.value, first.timestamp, header.leader_epoch)
                )
            offset = headers[-1].last_offset + 1
        return found


LogMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLogAgainstAList = LogMachine.TestCase


class EncryptedLogMachine(LogMachine):
    make_disk = EncryptedVirtualDisk

    @invariant()
    def nothing_is_plain(self) -> None:
        files = self.disk.files(FOLDER)
        assert all(is_encrypted(data) for path, data in files.items() if data and path.endswith(".log"))


EncryptedLogMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestEncryptedLogAgainstAList = EncryptedLogMachine.TestCase


@pytest.mark.deep
def test_the_log_against_a_list_for_longer() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        LogMachine, settings=settings(max_examples=3000, stateful_step_count=60, deadline=None)
    )
