"""A compacted log against a list: appends, tombstones, rolls, compactions, restarts and kills in any order."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.storage.compaction_logs import COMPACTED, CompactedLog
from tests.unit.storage.making import NAME
from tidelog.record import Codec, read_records
from tidelog.testing import VirtualDisk

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
VALUES = st.none() | st.sampled_from([b"", b"1", b"2", b"a longer value"])
BATCHES = st.lists(st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4), min_size=1, max_size=5)


class Written(NamedTuple):
    key: bytes
    value: bytes | None


class CompactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.it = CompactedLog()
        self.written: list[Written] = []
        self.met_ms: dict[int, int] = {}
        """When a tombstone, by its offset, may have met compaction for the first time."""

    @rule(batches=BATCHES, codec=st.sampled_from([Codec.NONE, *Codec]), roll=st.booleans())
    def append(self, batches: list[list[tuple[bytes, bytes | None]]], codec: Codec, roll: bool) -> None:
        for pairs in batches:
            self.it.put(*pairs, codec=codec)
            self.written += [Written(*pair) for pair in pairs]
        if roll:
            self.it.log.roller.roll()

    @rule(ms=st.sampled_from([1, 400, 1_000, 5_000]))
    def time_passes(self, ms: int) -> None:
        self.it.pass_ms(ms)

    @rule(memory=st.sampled_from([24 * 4, 24 * 8, 1 << 20, 1 << 20]), back=st.sampled_from([0, 0, 0, 3]))
    def compact(self, memory: int, back: int) -> None:
        self.it.stable = max(0, self.it.log.end - back)
        self.it.cleaner.memory_bytes = memory
        now_ms = self.it.volume.clock.now_ms()
        if asyncio.run(self.it.cleaner.clean_dirtiest()):
            for offset in range(self.it.log.segments.last.base):
                if self.written[offset].value is None:
                    self.met_ms.setdefault(offset, now_ms)
        assert self.it.cleaner.counters.rounds_failed == 0

    @rule()
    def restart(self) -> None:
        self.it.restart()

    @rule()
    def kill(self) -> None:
        assert isinstance(self.it.disk, VirtualDisk)
        self.it.disk.kill()
        self.it.recover(power_lost=False)

    @invariant()
    def the_last_value_of_every_key_is_there(self) -> None:
        table = {record.key: record.value for record in self.written}
        assert self.it.latest() == {key: value for key, value in table.items() if value is not None}
        assert (self.it.log.start, self.it.log.end) == (0, len(self.written))

    @invariant()
    def survivors_have_their_offsets_and_contents(self) -> None:
        found = self.it.records()
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert all(
            Written(record.key or b"", record.value) == self.written[record.offset] for record in found
        )
        active = self.it.log.segments.last.base
        assert [offset for offset in offsets if offset >= active] == list(range(active, len(self.written)))

    @invariant()
    def no_key_is_there_twice_in_what_is_clean(self) -> None:
        clean = self.it.cleaner.first_dirty(NAME) or 0
        keys = [record.key for record in self.it.records() if record.offset < clean]
        assert len(keys) == len(set(keys))

    @invariant()
    def tombstones_are_seen_for_their_retention(self) -> None:
        found = self.it.values()
        now_ms = self.it.volume.clock.now_ms()
        last = {record.key: offset for offset, record in enumerate(self.written)}
        for offset in last.values():
            met_ms = self.met_ms.get(offset)
            if self.written[offset].value is None and (
                met_ms is None or now_ms < met_ms + COMPACTED.delete_retention_ms
            ):
                assert offset in found

    @invariant()
    def every_offset_can_be_read_from(self) -> None:
        it, kept = self.it, sorted(self.it.values())
        for offset in range(0, len(self.written), 5):
            expected = next((each for each in kept if each >= offset), None)
            found = it.log.reader.read(offset, 1 << 20, it.log.end)
            if found is not None and expected is not None:
                data = found.file.read(found.size, found.position)
                first = next(iter(read_records(data, offset)), None)
                assert first is None or first.offset == expected
            else:
                assert expected is None


CompactionMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestCompaction = CompactionMachine.TestCase
