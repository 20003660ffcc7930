"""The simulated disk keeps what was synced after a crash, may lose the rest, and repeats itself by seed."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.storage.disk import THREADS
from tidelog.testing import Crashed, VirtualDisk, run
from tidelog.testing.file_content import PAGE_BYTES

SEEDS = range(200)


def disk_with(folder: str = "/data") -> VirtualDisk:
    disk = VirtualDisk(Random(0))
    disk.make_folder(folder)
    disk.sync_folder("/")
    return disk


def outcomes(changes: Callable[[VirtualDisk], None]) -> set[tuple[tuple[str, bytes], ...]]:
    """Every state that some seed finds after a power loss."""
    outcomes = set()
    for seed in SEEDS:
        disk = disk_with()
        changes(disk)
        disk.crash(Random(seed))
        outcomes.add(tuple(sorted(disk.files().items())))
    return outcomes


def contents(changes: Callable[[VirtualDisk], None]) -> set[bytes | None]:
    return {dict(state).get("/data/a") for state in outcomes(changes)}


def synced_file(disk: VirtualDisk, data: bytes) -> None:
    file = disk.open("/data/a", create=True)
    file.write(data, 0)
    file.sync()
    disk.sync_folder("/data")


def test_synced_bytes_under_a_synced_name_survive_every_power_loss() -> None:
    assert contents(lambda disk: synced_file(disk, b"x" * 2000)) == {b"x" * 2000}


def test_a_synced_file_is_lost_with_its_unsynced_name() -> None:
    def changes(disk: VirtualDisk) -> None:
        file = disk.open("/data/a", create=True)
        file.write(b"x", 0)
        file.sync()

    assert contents(changes) == {b"x", None}


def test_a_file_is_lost_with_the_unsynced_name_of_its_folder() -> None:
    def changes(disk: VirtualDisk) -> None:
        disk.make_folder("/data/topic")
        file = disk.open("/data/topic/a", create=True)
        file.write(b"x", 0)
        file.sync()
        disk.sync_folder("/data/topic")

    assert outcomes(changes) == {(), (("/data/topic/a", b"x"),)}


def test_unsynced_bytes_are_there_lost_or_torn() -> None:
    def changes(disk: VirtualDisk) -> None:
        synced_file(disk, b"s" * 700)
        disk.open("/data/a").write(b"u" * 1500, 700)

    outcomes = {data for data in contents(changes) if data is not None}
    assert all(data.startswith(b"s" * 700) for data in outcomes)
    whole, nothing = b"s" * 700 + b"u" * 1500, b"s" * 700
    assert {whole, nothing} <= outcomes
    assert any(nothing < data < whole and whole.startswith(data) for data in outcomes), "no prefix"
    assert any(len(data) % 512 not in (700 % 512, 2200 % 512) for data in outcomes), "never torn at a byte"
    assert b"s" * 700 + bytes(1500) in outcomes, "the size without the bytes"
    assert any(b"\0" in data and data.endswith(b"u") for data in outcomes), "no hole before kept bytes"


def test_a_later_write_can_survive_an_earlier_one_that_is_lost() -> None:
    def changes(disk: VirtualDisk) -> None:
        synced_file(disk, b"")
        file = disk.open("/data/a")
        file.write(b"1" * 512, 0)
        file.write(b"2" * 512, 512)

    assert bytes(512) + b"2" * 512 in contents(changes)


def test_bytes_written_over_durable_ones_leave_the_old_or_the_new() -> None:
    def changes(disk: VirtualDisk) -> None:
        synced_file(disk, b"o" * 1000)
        disk.open("/data/a").write(b"n" * 1500, 0)

    outcomes = {data for data in contents(changes) if data is not None}
    assert all(set(data[:1000]) <= set(b"on") for data in outcomes)
    assert any(b"o" in data and b"n" in data for data in outcomes)
    assert any(data.endswith(b"\0") for data in outcomes)


def test_a_lost_truncation_takes_later_writes_with_it() -> None:
    def changes(disk: VirtualDisk) -> None:
        synced_file(disk, b"old" * 10)
        file = disk.open("/data/a")
        file.truncate(3)
        file.write(b"new", 3)

    outcomes = contents(changes)
    assert {b"old" * 10, b"old", b"oldnew"} <= outcomes
    assert not any(data and b"newold" in data for data in outcomes)


def test_name_changes_of_a_folder_come_undone_from_the_last_one_on() -> None:
    def changes(disk: VirtualDisk) -> None:
        for name in "abc":
            disk.open(f"/data/{name}", create=True)
        disk.rename("/data/a", "/data/z")
        disk.remove("/data/b")

    names = {tuple(path[-1] for path, _ in state) for state in outcomes(changes)}
    expected = {(), ("a",), ("a", "b"), ("a", "b", "c"), ("b", "c", "z"), ("c", "z")}
    assert names == expected


def test_a_file_renamed_across_folders_is_under_one_of_its_names() -> None:
    def changes(disk: VirtualDisk) -> None:
        disk.make_folder("/data/new")
        disk.open("/data/a", create=True)
        disk.sync_folder("/data")
        disk.rename("/data/a", "/data/new/a")

    assert outcomes(changes) == {(("/data/a", b""),), (("/data/new/a", b""),)}


def test_syncing_a_folder_keeps_a_rename_into_it_with_the_file() -> None:
    def changes(disk: VirtualDisk) -> None:
        disk.make_folder("/data/new")
        disk.open("/data/a", create=True)
        disk.rename("/data/a", "/data/new/a")
        disk.sync_folder("/data/new")

    assert outcomes(changes) == {(("/data/new/a", b""),)}


def test_a_replaced_file_has_its_old_or_its_new_content_at_every_crash_point() -> None:
    outcomes, points = set(), 0
    for seed in range(20):
        for operation in range(1, 8):
            disk = disk_with()
            disk.replace_file("/data/a", b"old")
            disk.crash_after(operation)
            try:
                disk.replace_file("/data/a", b"new content")
            except Crashed:
                points = max(points, operation)
            else:
                assert operation > points
            disk.crash(Random(seed))
            outcomes.add(disk.read_file("/data/a"))
    assert points == 6
    assert outcomes == {b"old", b"new content"}


def test_pages_of_a_mapped_file_survive_one_by_one() -> None:
    def changes(disk: VirtualDisk) -> None:
        mapping = disk.map("/data/a", 3 * PAGE_BYTES)
        disk.sync_folder("/data")
        mapping.sync()
        mapping.view[:] = b"m" * (3 * PAGE_BYTES)

    pages = {
        tuple(data[at : at + PAGE_BYTES].count(b"m") for at in range(0, len(data), PAGE_BYTES))
        for data in contents(changes)
        if data is not None
    }
    assert {(0, 0, 0), (PAGE_BYTES,) * 3, (0, PAGE_BYTES, 0)} <= pages
    assert any(0 < page < PAGE_BYTES for state in pages for page in state), "no torn page"


def test_a_synced_mapping_survives() -> None:
    def changes(disk: VirtualDisk) -> None:
        mapping = disk.map("/data/a", 16)
        mapping.view[:] = b"0123456789abcdef"
        mapping.sync()
        disk.sync_folder("/data")
        mapping.close()

    assert contents(changes) == {b"0123456789abcdef"}


def test_a_mapping_whose_file_was_resized_must_not_be_synced() -> None:
    disk = disk_with()
    mapping = disk.map("/data/a", 8)
    disk.open("/data/a").truncate(4)
    mapping.view[:4] = b"late"
    with pytest.raises(RuntimeError, match="resized"):
        mapping.sync()
    mapping.close()
    assert disk.read_file("/data/a") == bytes(4)
    with pytest.raises(RuntimeError, match="closed"):
        mapping.sync()


def test_a_kill_keeps_all_that_was_written_and_makes_none_of_it_durable() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = disk_with()
        synced_file(disk, b"")
        disk.open("/data/a").write(b"x", 0)
        disk.kill()
        assert disk.read_file("/data/a") == b"x"
        disk.crash(Random(seed))
        outcomes.add(disk.read_file("/data/a"))
    assert b"" in outcomes


def test_a_kill_in_the_middle_tears_only_the_last_write() -> None:
    lengths = set()
    for seed in range(100):
        disk = VirtualDisk(Random(seed))
        disk.make_folder("/data")
        file = disk.open("/data/a", create=True)
        file.write(b"1" * 50, 0)
        disk.crash_after(1, power=False)
        with pytest.raises(Crashed):
            file.write(b"2" * 50, 50)
        disk.kill()
        data = disk.read_file("/data/a")
        assert (b"1" * 50 + b"2" * 50).startswith(data)
        lengths.add(len(data))
    assert min(lengths) < 60
    assert max(lengths) > 90


def test_handles_and_mappings_of_before_a_crash_change_nothing_after_it() -> None:
    for end in (VirtualDisk.crash, VirtualDisk.kill):
        disk = disk_with()
        synced_file(disk, b"as it was")
        file, mapping = disk.open("/data/a"), disk.map("/data/m", 4)
        end(disk)
        with pytest.raises(Crashed):
            file.write(b"late", 0)
        with pytest.raises(Crashed):
            mapping.sync()
        mapping.view[:] = b"late"
        mapping.close()
        assert b"late" not in disk.files().values()
        disk.map("/data/m", 4).close()


def test_a_dead_disk_answers_nobody_until_it_is_restarted() -> None:
    disk = disk_with()
    struck: list[str] = []
    disk.crash_after(1, then=lambda: struck.append("then"))
    with pytest.raises(Crashed):
        disk.make_folder("/data/b")
    assert struck == ["then"]
    with pytest.raises(Crashed):
        disk.exists("/data")
    disk.crash(Random(1))
    assert disk.exists("/data")


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    disk = disk_with()
    file = disk.open("/data/a", create=True)
    file.write(b"x" * 10, 0)
    disk.limit_free(5)
    with pytest.raises(OSError, match="No space") as problem:
        file.write(b"y" * 10, 10)
    assert problem.value.errno == errno.ENOSPC
    assert disk.read_file("/data/a") == b"x" * 10 + b"y" * 5
    assert disk.free_bytes("/data")[1] == 0
    file.write(b"z" * 15, 0)
    with pytest.raises(OSError, match="No space"):
        file.allocate(16)
    disk.remove("/data/a")
    assert disk.free_bytes("/data")[1] == 15
    disk.limit_free(None)
    disk.open("/data/b", create=True).write(b"x" * 100, 0)


def test_reserved_blocks_are_written_on_a_full_disk() -> None:
    disk = disk_with()
    file, mapping = disk.open("/data/a", create=True), disk.map("/data/m", 8)
    file.allocate(8)
    disk.limit_free(0)
    file.write(b"reserved", 0)
    mapping.view[:] = b"reserved"
    assert disk.read_file("/data/a") == disk.read_file("/data/m") == b"reserved"


def test_faults_strike_the_operation_and_path_they_were_meant_for_and_end() -> None:
    disk = disk_with()
    file, other = disk.open("/data/one", create=True), disk.open("/data/other", create=True)
    disk.fail("write", "*/one")
    disk.fail("read", "*/other", times=2)
    other.write(b"fine", 0)
    with pytest.raises(OSError, match="Input/output"):
        file.write(b"x", 0)
    file.write(b"x", 0)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            other.read(4, 0)
    assert other.read(4, 0) == b"fine"


def test_bytes_whose_sync_failed_are_not_saved_by_the_next_sync() -> None:
    disk = disk_with()
    synced_file(disk, b"")
    file = disk.open("/data/a")
    file.write(b"lost", 0)
    disk.fail("sync", "*/a")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.write(b"kept", 4)
    file.sync()
    assert file.read(8, 0) == b"lostkept"
    disk.crash()
    assert disk.read_file("/data/a") == b"\0\0\0\0kept"


async def order_of_work(random: Random) -> list[int]:
    """The numbers of the pieces of work in the order of their ends; the wait for two of them is cancelled."""
    count = THREADS + 4
    disk, done = VirtualDisk(random), list[int]()
    disk.run_delay_s_max = 1
    waits = [asyncio.ensure_future(disk.run(lambda i=i: done.append(i))) for i in range(count)]
    await asyncio.sleep(0)
    waits[0].cancel()
    waits[-2].cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    assert sorted(done) == [i for i in range(count) if i != count - 2], "what has begun is done"
    with pytest.raises(ZeroDivisionError):
        await disk.run(lambda: 1 // 0)
    before = asyncio.get_running_loop().time()
    assert await disk.run(lambda: "next") == "next"
    assert 0 < asyncio.get_running_loop().time() - before < 2
    return done


def test_work_begins_in_order_some_at_a_time_and_survives_its_waiter() -> None:
    orders = [run(order_of_work, seed) for seed in range(200)]
    assert {order[0] for order in orders} == set(range(THREADS)), "fewer threads, or more"


def test_names_come_in_no_order() -> None:
    def names(seed: int) -> tuple[str, ...]:
        disk = VirtualDisk(Random(seed))
        for name in "abc":
            disk.open(name, create=True)
        return tuple(disk.list("/"))

    assert len({names(seed) for seed in range(50)}) == 6


def test_a_lock_is_held_until_closed_or_until_its_holder_dies() -> None:
    disk = disk_with()
    held = disk.lock("/data/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock("/data/.lock")
    held.close()
    disk.lock("/data/.lock")
    disk.kill()
    again = disk.lock("/data/.lock")
    held.close()
    with pytest.raises(BlockingIOError):
        disk.lock("/data/.lock")
    again.close()


def test_the_boot_id_tells_a_power_loss_from_a_kill() -> None:
    disk = disk_with()
    before = disk.boot_id()
    disk.kill()
    assert disk.boot_id() == before
    disk.crash()
    assert disk.boot_id() != before


@given(st.integers(), st.lists(st.binary(max_size=2000), max_size=8))
def test_the_same_seed_gives_the_same_bytes(seed: int, writes: list[bytes]) -> None:
    def after() -> dict[str, bytes]:
        disk = VirtualDisk(Random(seed))
        disk.make_folder("/data")
        position = 0
        for index, data in enumerate(writes):
            file = disk.open(f"/data/{index % 2}", create=True)
            file.write(data, position)
            position += len(data)
        disk.sync_folder("/")
        disk.crash()
        return disk.files()

    assert after() == after()
