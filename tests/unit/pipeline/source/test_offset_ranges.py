"""Offset ranges for tasks, and the limit on a micro-batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.pipeline.source.offset_ranges import OffsetRange, admit, split
from tidelog.types import TopicPartition

SIZES = st.lists(st.integers(0, 500), min_size=1, max_size=8)


def ranges_of(lengths: list[int]) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", index), 5, 5 + size) for index, size in enumerate(lengths)]


@given(SIZES, st.integers(1, 50), st.one_of(st.none(), st.integers(1, 100)))
def test_splits_cover_everything_once(lengths: list[int], pieces: int, size_max: int | None) -> None:
    tasks = split(ranges_of(lengths), pieces, size_max)
    for whole in ranges_of(lengths):
        covered = [
            offset
            for task in tasks
            if task.partition == whole.partition
            for offset in range(task.start, task.end)
        ]
        assert covered == list(range(whole.start, whole.end))
    assert all(task.size > 0 for task in tasks)
    assert len(tasks) >= min(pieces, sum(lengths))
    assert size_max is None or all(task.size <= size_max for task in tasks)


@given(SIZES, st.integers(1, 600))
def test_admission_is_exact_and_fair(lengths: list[int], most: int) -> None:
    start = {TopicPartition("t", index): 7 for index in range(len(lengths))}
    end = {place: 7 + size for place, size in zip(start, lengths, strict=True)}
    admitted = admit(start, end, most)
    assert sum(admitted[place] - start[place] for place in start) == min(most, sum(lengths))
    assert all(start[place] <= admitted[place] <= end[place] for place in start)
    total = sum(lengths)
    if total > most:
        assert all(admitted[place] - 7 >= (end[place] - 7) * most // total for place in start)
