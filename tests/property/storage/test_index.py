"""Index lookups against a linear search."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.storage.test_index import fresh_disk, offsets_on, times_on

steps = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 5000)), max_size=60)


@settings(max_examples=100, deadline=None)
@given(
    steps=steps,
    wanted=st.lists(st.integers(0, 70_000), max_size=20),
    cut=st.integers(0, 60_000),
    reopen=st.booleans(),
)
def test_floors_are_what_a_linear_search_finds(
    steps: list[tuple[int, int]], wanted: list[int], cut: int, reopen: bool
) -> None:
    disk = fresh_disk()
    index = offsets_on(disk, base=100)
    entries, offset, position = [(100, 0)], 100, 0
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        index.append(offset, position)
        entries.append((offset, position))
    if reopen:
        index.trim()
        index = offsets_on(disk, base=100)
    for target in wanted:
        assert index.floor(100 + target) == [entry for entry in entries if entry[0] <= 100 + target][-1]
    index.truncate_to(100 + cut)
    kept = [entry for entry in entries[1:] if entry[0] < 100 + cut]
    assert (index.count, index.floor(1 << 30)) == (len(kept), ([(100, 0), *kept])[-1])
    index.trim()


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(-50, 100), st.integers(1, 100)), max_size=60),
    wanted=st.lists(st.integers(0, 3000)),
)
def test_no_record_before_the_floor_of_a_time_is_as_new(
    steps: list[tuple[int, int]], wanted: list[int]
) -> None:
    index = times_on(fresh_disk(), base=100)
    records, timestamp, offset, newest, newest_at = [], 1000, 100, -1, 100
    for time_step, offset_step in steps:
        timestamp, offset = max(0, timestamp + time_step), offset + offset_step
        records.append((timestamp, offset))
        if timestamp > newest:
            newest, newest_at = timestamp, offset
        index.append(newest, newest_at)
    for target in wanted:
        _, floor = index.floor(target)
        assert all(time < target for time, at in records if at < floor)
    assert index.last_timestamp == max((time for time, _ in records), default=-1)
    index.trim()
