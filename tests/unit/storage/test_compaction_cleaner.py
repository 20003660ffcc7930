"""The cleaner: which log, what of it, what is swapped in, what is remembered."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from tests.unit.storage.compaction_logs import COMPACTED, CompactedLog
from tests.unit.storage.making import NAME, content
from tidelog.record import Codec, read_records
from tidelog.storage.checkpoints import decode_offsets
from tidelog.storage.compaction.cleaner import CLEAN_POINTS, Cleaner
from tidelog.storage.compaction.job import Job, Progress, Rewritten
from tidelog.storage.compaction.runner import InlineRunner
from tidelog.testing import VirtualDisk
from tidelog.types import TopicPartition


def clean(it: CompactedLog) -> bool:
    return asyncio.run(it.cleaner.clean_dirtiest())


def fill(it: CompactedLog, count: int, keys: int = 3) -> None:
    for n in range(count):
        it.put((b"key-%d" % (n % keys), b"value %d" % n))


async def flushed(it: CompactedLog) -> None:
    await it.log.flush()


def test_sealed_segments_are_compacted_and_the_active_one_is_not() -> None:
    it = CompactedLog()
    fill(it, 20)
    active = it.log.segments.last.base
    size = it.log.size
    assert clean(it)
    kept = it.values()
    assert [offset for offset in kept if offset < active] == list(range(active - 3, active))
    assert [offset for offset in kept if offset >= active] == list(range(active, 20))
    assert it.latest() == {b"key-%d" % (n % 3): b"value %d" % n for n in (17, 18, 19)}
    assert (it.log.start, it.log.end) == (0, 20)
    assert it.log.size < size
    assert it.cleaner.first_dirty(NAME) == active
    assert not clean(it), "nothing is dirty any more"


def test_reads_begin_anywhere_also_in_gaps() -> None:
    it = CompactedLog()
    fill(it, 20)
    clean(it)
    kept = sorted(it.values())
    for offset in range(20):
        found = it.log.reader.read(offset, 1, it.log.end)
        assert found is not None
        first = next(iter(read_records(content(found), offset)), None)
        assert first is not None and first.offset == min(k for k in kept if k >= offset)


def test_compacted_segments_and_the_checkpoint_survive_a_restart() -> None:
    it = CompactedLog()
    fill(it, 20)
    clean(it)
    before, batches = it.values(), [bytes(batch.view) for batch in it.batches()]
    it.restart()
    assert it.values() == before and [bytes(batch.view) for batch in it.batches()] == batches
    assert it.cleaner.first_dirty(NAME) == decode_offsets(it.disk.read_file(f"/data/{CLEAN_POINTS}"))[NAME]
    assert not clean(it)
    fill(it, 12)
    assert clean(it)
    assert it.latest() == {b"key-%d" % (n % 3): b"value %d" % n for n in (9, 10, 11)}


def test_old_files_go_after_their_delay_and_no_others_stay() -> None:
    it = CompactedLog()
    fill(it, 20)
    clean(it)
    assert any(name.endswith(".deleted") for name in it.names())
    assert not any(name.endswith((".cleaned", ".swap")) for name in it.names())
    it.pass_ms(60_000)
    due, all_gone = it.log.roller.trash.take_deleted()
    assert all_gone
    for path in due:
        it.disk.remove(path)
    bases = {segment.base for segment in it.log.segments}
    assert {int(name[:20]) for name in it.names() if name.endswith(".log")} == bases
    assert not any(name.endswith(".deleted") for name in it.names())


def test_nothing_at_or_above_the_stable_offset_is_touched() -> None:
    it = CompactedLog()
    fill(it, 20)
    second = it.log.segments[1].base
    third = it.log.segments[2].base
    it.stable = third - 1
    assert clean(it)
    kept = sorted(it.values())
    assert [offset for offset in kept if offset < second] == list(range(second - 3, second))
    assert kept[3:] == list(range(second, 20))
    it.stable = 0
    assert not clean(it)


def test_the_dirty_ratio_decides_and_overdue_records_override_it() -> None:
    it = CompactedLog(config=replace(COMPACTED, min_cleanable_dirty_ratio=0.5))
    fill(it, 30, keys=30)
    assert clean(it), "all of it is dirty"
    fill(it, 6, keys=30)
    assert not clean(it)
    assert 0 < it.cleaner.counters.dirtiest_percent <= 50
    it.log.reconfigure(replace(it.log.config, max_compaction_lag_ms=5_000))
    assert not clean(it)
    it.pass_ms(5_001)
    assert clean(it)
    assert it.cleaner.counters.overdue_ms_max == 1


def test_an_active_segment_ends_in_time_for_the_longest_lag() -> None:
    it = CompactedLog(config=replace(COMPACTED, max_compaction_lag_ms=5_000, min_cleanable_dirty_ratio=1.0))
    it.put((b"a", b"1"))
    it.pass_ms(5_001)
    it.put((b"a", b"2"))
    assert [segment.base for segment in it.log.segments] == [0, 1]
    assert clean(it)
    assert it.values() == {0: (b"a", b"1"), 1: (b"a", b"2")}, "the newer one is in the active segment"
    it.pass_ms(5_001)
    it.put((b"b", b"1"))
    assert clean(it)
    assert it.values() == {1: (b"a", b"2"), 2: (b"b", b"1")}


def test_young_segments_wait_for_the_compaction_lag() -> None:
    it = CompactedLog(config=replace(COMPACTED, min_compaction_lag_ms=10_000))
    fill(it, 10)
    it.pass_ms(10_000)
    young = it.log.segments.last.base
    fill(it, 10)
    assert clean(it)
    assert it.cleaner.first_dirty(NAME) == young
    assert [offset for offset in it.values() if offset < young] == list(range(young - 3, young))
    it.pass_ms(10_000)
    assert clean(it)


def test_a_topic_that_is_not_compacted_is_left_alone() -> None:
    it = CompactedLog(config=replace(COMPACTED, cleanup_policy=frozenset(("delete",))))
    fill(it, 20)
    assert not clean(it)
    assert len(it.values()) == 20


def test_tombstones_are_seen_for_their_retention_and_then_go() -> None:
    it = CompactedLog()
    it.put((b"a", b"1"), (b"b", b"1"))
    it.put((b"a", None))
    it.log.roller.roll()
    it.put((b"c", b"1"))
    it.log.roller.roll()
    assert clean(it)
    assert it.values() == {1: (b"b", b"1"), 2: (b"a", None), 3: (b"c", b"1")}
    for ms, seen in ((999, True), (1, False)):
        it.pass_ms(ms)
        it.put((b"d", b"%d" % ms))
        it.log.roller.roll()
        assert clean(it)
        assert ((b"a", None) in it.values().values()) is seen
    assert it.latest() == {b"b": b"1", b"c": b"1", b"d": b"1"}


def test_a_full_map_takes_several_rounds() -> None:
    it = CompactedLog()
    it.cleaner.memory_bytes = 24 * 100
    fill(it, 400, keys=200)
    rounds = 0
    while clean(it):
        rounds += 1
    assert rounds > 2
    active = it.log.segments.last.base
    assert sorted(it.values()) == list(range(active - 200, 400))


def test_a_producer_is_known_after_its_records_are_gone_and_the_log_is_opened_anew() -> None:
    it = CompactedLog()
    producer = {"producer_id": 7, "producer_epoch": 1}
    for n in range(4):
        it.put((b"a", b"%d" % n), base_sequence=n, **producer)
        it.log.producers.appended(_header(it), it.log.end - 1)
    fill(it, 4)
    it.put((b"a", b"last"))
    it.log.roller.roll()
    fill(it, 1)
    assert clean(it)
    empty = [batch.header for batch in it.batches() if batch.header.producer_id == 7]
    assert [(header.count, header.last_sequence) for header in empty] == [(0, 3)]
    it.disk.kill()  # type: ignore[attr-defined]
    it.recover(power_lost=False)
    known = it.log.producers.get(7)
    assert known is not None and known.next_sequence == 4


def _header(it: CompactedLog) -> object:
    from tidelog._speed.log.batch import walk

    return walk(it.log.segments.last.file.read(1 << 20, 0))[-1]


def test_counters_tell_what_was_done() -> None:
    it = CompactedLog()
    fill(it, 20)
    segments = len(it.log.segments)
    clean(it)
    counters = it.cleaner.counters
    assert (counters.rounds, counters.rounds_failed) == (1, 0)
    assert counters.segments_swapped == segments - 1
    assert counters.records_read > counters.records_kept == counters.last_round_keys == 3
    assert counters.bytes_read > counters.bytes_written > 0


@pytest.mark.parametrize("codec", list(Codec))
def test_damage_takes_a_log_out_of_compaction(codec: Codec) -> None:
    it = CompactedLog()
    for n in range(20):
        it.put((b"key", b"some value %d" % n), codec=codec)
    segment = it.log.segments.first
    assert isinstance(it.disk, VirtualDisk)
    asyncio.run(flushed(it))
    it.disk.rot(segment.path, segment.size - 3, b"\xff")
    before = it.names()
    assert not clean(it)
    assert it.cleaner.uncleanable == {NAME}
    assert it.names() == before and it.cleaner.counters.rounds_failed == 1
    assert not clean(it) and it.cleaner.counters.rounds_failed == 1, "it is not tried again"
    it.cleaner.removed(NAME)
    assert it.cleaner.uncleanable == set()


def test_a_full_disk_leaves_the_log_as_it_was_and_is_tried_again() -> None:
    it = CompactedLog()
    fill(it, 40, keys=30)
    asyncio.run(flushed(it))
    before, names = it.latest(), it.names()
    assert isinstance(it.disk, VirtualDisk)
    it.disk.limit_free(100)
    assert not clean(it)
    assert it.names() == names
    it.disk.limit_free(700)
    assert not clean(it), "there is room for the first group only"
    assert it.latest() == before and it.cleaner.first_dirty(NAME) is None
    assert not any(name.endswith((".cleaned", ".swap")) for name in it.names())
    assert it.volume.problem is None
    it.disk.limit_free(None)
    assert clean(it)
    assert it.latest() == before


def test_a_failing_disk_takes_the_directory_offline() -> None:
    it = CompactedLog()
    fill(it, 20)
    assert isinstance(it.disk, VirtualDisk)
    it.disk.fail("write", "*.cleaned", errno.EIO)
    assert not clean(it)
    assert it.volume.problem is not None


class Interrupted(InlineRunner):
    """Lets something happen to the log between two groups."""

    def __init__(self, it: CompactedLog, after: int) -> None:
        super().__init__(it.disk)
        self._it = it
        self._after = after
        self.then = lambda: None

    async def run(self, job: Job) -> AsyncGenerator[Rewritten | Progress, None]:
        seen = 0
        async for answer in super().run(job):
            if seen == self._after:
                self.then()
            seen += 1
            yield answer


def interrupted(after: int) -> tuple[CompactedLog, Interrupted]:
    it = CompactedLog()
    fill(it, 60, keys=40)
    runner = Interrupted(it, after)
    it.cleaner = Cleaner(it.volume, it.cleanables, runner, 1 << 20, 1)
    return it, runner


def test_segments_that_retention_took_meanwhile_are_not_brought_back() -> None:
    it, runner = interrupted(0)

    def delete_first() -> None:
        it.log.advance_start(it.log.segments[1].base)
        assert it.log.cutter.apply_retention(it.log.end) == 1

    runner.then = delete_first
    first = it.log.segments.first.base
    assert not clean(it)
    assert it.log.segments.first.base > first
    assert it.cleaner.first_dirty(NAME) is None
    assert not any(name.endswith((".cleaned", ".swap")) for name in it.names())


def test_a_truncation_during_the_round_bounds_what_is_taken_for_clean() -> None:
    it, runner = interrupted(1)
    cut = it.log.segments[4].base

    def truncate() -> None:
        it.log.truncate_to(cut)
        it.cleaner.truncated(NAME, cut)

    runner.then = truncate
    clean(it)
    assert (it.cleaner.first_dirty(NAME) or 0) <= cut
    assert it.log.end == cut
    assert not any(name.endswith((".cleaned", ".swap")) for name in it.names())


def test_a_truncation_makes_what_comes_after_it_dirty() -> None:
    it = CompactedLog()
    fill(it, 20)
    clean(it)
    it.log.truncate_to(5)
    it.cleaner.truncated(NAME, 5)
    assert it.cleaner.first_dirty(NAME) == 5
    assert decode_offsets(it.disk.read_file(f"/data/{CLEAN_POINTS}"))[NAME] == 5


def test_a_log_that_is_removed_meanwhile_is_not_touched_any_more() -> None:
    it, runner = interrupted(1)
    runner.then = lambda: it.cleaner.removed(NAME)
    assert not clean(it)
    assert it.cleaner.first_dirty(NAME) is None
    assert it.cleaner.counters.rounds == 0
    assert not any(name.endswith((".cleaned", ".swap")) for name in it.names())


def test_a_log_whose_folder_goes_meanwhile_does_not_take_the_directory_with_it() -> None:
    for after in (0, 2):
        it, runner = interrupted(after)
        runner.then = lambda it=it: it.disk.rename(it.folder, it.folder + "-delete")  # type: ignore[misc]
        assert not clean(it)
        assert it.volume.problem is None
        assert it.cleaner.uncleanable == set()


def test_a_segment_without_its_indexes_is_compacted_all_the_same() -> None:
    it = CompactedLog()
    fill(it, 20)
    it.restart()
    first = it.log.segments.first
    for kind in (".index", ".timeindex"):
        it.disk.remove(first.files.stem + kind)
    assert clean(it)
    assert it.latest() == {b"key-%d" % (n % 3): b"value %d" % n for n in (17, 18, 19)}


def test_a_log_whose_facts_cannot_be_read_does_not_hold_up_the_others() -> None:
    good = CompactedLog(config=replace(COMPACTED, max_compaction_lag_ms=5_000))
    bad = CompactedLog(good.disk, good.config, name=TopicPartition("bad", 0))
    fill(good, 20)
    fill(bad, 20)
    bad.restart()
    assert isinstance(bad.disk, VirtualDisk)
    bad.disk.rot(bad.log.segments.first.path, 8, b"\0\0\0\0")
    both = Cleaner(
        good.volume, lambda: [*bad.cleanables(), *good.cleanables()], InlineRunner(good.disk), 1 << 20, 1
    )
    assert asyncio.run(both.clean_dirtiest())
    assert both.uncleanable == {bad.log.name}
    assert both.first_dirty(good.log.name) == good.log.segments.last.base


def test_an_unreadable_checkpoint_takes_the_directory_offline_and_not_the_broker() -> None:
    it = CompactedLog()
    it.disk.replace_file(f"/data/{CLEAN_POINTS}", b"0\n0\n")
    assert isinstance(it.disk, VirtualDisk)
    it.disk.fail("read", f"*{CLEAN_POINTS}", errno.EIO)
    Cleaner(it.volume, it.cleanables, InlineRunner(it.disk), 1 << 20, 1)
    assert it.volume.problem is not None


@pytest.mark.parametrize("steps", range(0, 60, 3))
async def test_a_cancelled_round_leaves_no_files_behind(steps: int) -> None:
    it = CompactedLog()
    fill(it, 60, keys=40)
    task = asyncio.ensure_future(it.cleaner.clean_dirtiest())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert not any(name.endswith((".cleaned", ".swap")) for name in it.names())
    assert it.latest() == {b"key-%d" % (n % 40): b"value %d" % n for n in range(20, 60)}


async def test_the_background_task_cleans_and_waits() -> None:
    it = CompactedLog()
    fill(it, 20)
    it.cleaner.backoff_ms = 1
    task = asyncio.ensure_future(it.cleaner.run())
    while it.cleaner.counters.rounds < 1:
        await asyncio.sleep(0)
    fill(it, 20)
    while it.cleaner.counters.rounds < 2:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert it.latest() == {b"key-%d" % (n % 3): b"value %d" % n for n in (17, 18, 19)}


def test_the_dirtiest_log_comes_first() -> None:
    one = CompactedLog()
    other = CompactedLog(one.disk, name=TopicPartition("customers", 4))
    both = Cleaner(
        one.volume, lambda: [*other.cleanables(), *one.cleanables()], InlineRunner(one.disk), 1 << 20, 1
    )
    fill(other, 60, keys=50)
    assert asyncio.run(both.clean_dirtiest())
    fill(other, 10, keys=50)
    fill(one, 20)
    assert asyncio.run(both.clean_dirtiest())
    assert both.first_dirty(one.log.name) == one.log.segments.last.base
    first = both.first_dirty(other.log.name)
    assert asyncio.run(both.clean_dirtiest())
    assert both.first_dirty(other.log.name) != first


def test_files_are_under_names_of_their_own_until_they_are_swapped_in() -> None:
    it, runner = interrupted(0)
    seen: list[str] = []
    runner.then = lambda: seen.extend(it.names())
    assert clean(it)
    fresh = [name for name in seen if name.endswith(".cleaned")]
    assert sorted(name.rsplit(".", 2)[0] for name in fresh) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
    ]
    assert len({name.rsplit(".", 2)[1] for name in fresh}) == 1, "one token"
