"""A round of compaction struck at every change it makes to the disk: the last value of every key is always there."""

from __future__ import annotations

from random import Random

import pytest

from tests.unit.storage.compaction_logs import CompactedLog
from tests.unit.storage.making import NAME
from tidelog.record import Codec
from tidelog.testing import Crashed, VirtualDisk

KEYS = [b"key-%d" % n for n in range(7)]


async def prepared(seed: int) -> tuple[CompactedLog, dict[bytes, bytes | None]]:
    """A log that was compacted before, with a tombstone on its way out, and dirty again; all of it on disk."""
    random = Random(seed)
    it = CompactedLog(VirtualDisk(Random(seed)))
    expected: dict[bytes, bytes | None] = {}

    def write(count: int) -> None:
        for _ in range(count):
            pairs = []
            for _ in range(random.randrange(1, 4)):
                key = random.choice(KEYS)
                value = None if random.random() < 0.2 else b"%d" % random.randrange(1_000_000)
                pairs.append((key, value))
                expected[key] = value
            it.put(*pairs, codec=random.choice(list(Codec)))

    write(14)
    it.log.roller.roll()
    await it.cleaner.clean_dirtiest()
    it.pass_ms(1_500)
    write(10)
    it.log.roller.roll()
    write(2)
    await it.log.flush()
    for folder in ("/", "/data"):
        it.disk.sync_folder(folder)
    return it, expected


def check(
    it: CompactedLog, expected: dict[bytes, bytes | None], offsets: dict[int, object], end: int
) -> None:
    assert it.log.end == end
    assert it.latest() == {key: value for key, value in expected.items() if value is not None}
    found = it.values()
    assert all(offsets[offset] == pair for offset, pair in found.items()), "records keep their offsets"
    assert not any(name.endswith((".cleaned", ".swap")) for name in it.names())


async def strike(it: CompactedLog, operation: int, power: bool) -> bool:
    """Whether the round came to its end before the `operation`-th change."""
    assert isinstance(it.disk, VirtualDisk)
    it.disk.crash_after(operation, power)
    try:
        await it.cleaner.clean_dirtiest()
    except Crashed:
        return False
    return True


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("seed", range(3))
async def test_the_log_is_whole_wherever_the_round_is_struck(seed: int, power: bool) -> None:
    operation = 0
    finished = False
    while not finished:
        operation += 1
        it, expected = await prepared(seed)
        offsets: dict[int, object] = dict(it.values())
        end, point = it.log.end, it.log.recovery_point
        assert isinstance(it.disk, VirtualDisk)
        finished = await strike(it, operation, power)
        if power:
            it.disk.crash()
        else:
            it.disk.kill()
        it.recover(power, recovery_point=point)
        check(it, expected, offsets, end)
        # What is taken for clean is clean: rounds to come, past every tombstone's horizon, lose nothing.
        for _ in range(2):
            it.pass_ms(10_000)
            it.put((b"another", b"value"))
            it.log.roller.roll()
            await it.cleaner.clean_dirtiest()
        offsets |= {end: (b"another", b"value"), end + 1: (b"another", b"value")}
        check(it, {**expected, b"another": b"value"}, offsets, end + 2)
        assert it.cleaner.first_dirty(NAME) == end + 2
        tombstones = [pair for pair in it.values().values() if pair[1] is None]
        assert tombstones == [], "their time has passed"
    assert operation > 20


@pytest.mark.parametrize("seed", range(10))
async def test_a_deleted_key_stays_deleted_when_power_is_lost_after_the_round(seed: int) -> None:
    """The old value is alone in its segment, which leaves nothing in the new one to show that it was replaced."""
    it = CompactedLog(VirtualDisk(Random(seed)))
    for key, value in ((b"other", b"1"), (b"key", b"old"), (b"key", None), (b"last", b"x" * 500)):
        it.put((key, value))
        it.log.roller.roll()
    it.put((b"active", b"1"))
    await it.log.flush()
    for folder in ("/", "/data"):
        it.disk.sync_folder(folder)
    assert await it.cleaner.clean_dirtiest()
    assert isinstance(it.disk, VirtualDisk)
    it.disk.crash()
    it.recover(power_lost=True)
    it.pass_ms(10_000)
    it.put((b"more", b"1"))
    it.log.roller.roll()
    await it.cleaner.clean_dirtiest()
    assert sorted(it.latest(), key=repr) == [b"active", b"last", b"more", b"other"]
