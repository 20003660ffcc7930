"""Append times and histograms against plain lists."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog._speed.log.request_metrics import AppendTimes, Histogram

BOUNDS = (10, 50, 100, 500, 1000, 5000)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.integers(1, 5))))
def test_a_histogram_counts_what_is_at_most_each_bound(values: list[tuple[float, int]]) -> None:
    histogram = Histogram(BOUNDS)
    for value, times in values:
        histogram.observe(value, times)
    counts = [0] * (len(BOUNDS) + 1)
    for value, times in values:
        counts[bisect_left(BOUNDS, value)] += times
    assert histogram.read() == list(accumulate(counts))
    assert histogram.sum == pytest.approx(sum(value * times for value, times in values))


@pytest.mark.parametrize("bounds", [(), (2, 1), range(25)])
def test_bounds_that_make_no_sense_are_refused(bounds: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="bounds must be"):
        Histogram(bounds)


class Model:
    """Every batch with its time."""

    def __init__(self) -> None:
        self.native = AppendTimes()
        self.batches: list[tuple[int, int, int]] = []
        self.end = 0
        self.now_ms = 1_000_000

    def append(self, records: int, after_ms: int) -> None:
        self.now_ms += after_ms
        self.native.appended(self.end, self.end + records, self.now_ms)
        self.batches.append((self.end, self.end + records, self.now_ms))
        self.end += records

    def ages(self, offset: int, end: int) -> list[int]:
        return [self.now_ms - at for first, last, at in self.batches if first < end and last > offset]


def told(native: AppendTimes, offset: int, end: int, now_ms: int, bounds: tuple[int, ...]) -> list[int]:
    ages = Histogram(bounds)
    native.fetched(ages, offset, end, now_ms)
    return ages.read()


FEW = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 40)), min_size=1, max_size=60)
MANY = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 40)), min_size=1, max_size=600)


@given(FEW, st.data())
def test_the_latest_batches_have_exactly_their_time(
    appends: list[tuple[int, int]], data: st.DataObject
) -> None:
    model = Model()
    for records, after_ms in appends:
        model.append(records, after_ms)
    offset = data.draw(st.integers(0, model.end - 1))
    end = data.draw(st.integers(offset + 1, model.end))
    expected = Histogram(BOUNDS)
    for age in model.ages(offset, end):
        expected.observe(age)
    assert told(model.native, offset, end, model.now_ms, BOUNDS) == expected.read()


@given(MANY)
def test_old_batches_are_all_counted_at_about_their_age(appends: list[tuple[int, int]]) -> None:
    model = Model()
    for records, after_ms in appends:
        model.append(records, after_ms)
    marks = model.native.read()
    assert len(marks) <= 64
    assert sum(batches for *_, batches in marks) == len(appends)
    assert marks[-1][0] == model.end
    ages = Histogram(BOUNDS)
    model.native.fetched(ages, 0, model.end, model.now_ms)
    true = sum(model.ages(0, model.end))
    assert ages.read()[-1] == len(appends)
    assert ages.sum == pytest.approx(true, rel=0.05, abs=len(appends))


@given(FEW, st.integers(0, 100))
def test_a_log_that_was_cut_starts_anew(appends: list[tuple[int, int]], back: int) -> None:
    model = Model()
    for records, after_ms in appends:
        model.append(records, after_ms)
    first = max(model.end - back - 1, 0)
    model.native.appended(first, first + 1, model.now_ms)
    assert model.native.read() == [(first + 1, model.now_ms, 1)]
    assert told(model.native, 0, first + 1, model.now_ms + 60, (50, 100)) == [0, 1, 1]
