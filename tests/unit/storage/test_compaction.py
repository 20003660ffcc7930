"""Decisions of compaction: how dirty a log is, what may be cleaned, which segments go together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidelog._speed.log.index_interval import SEGMENT_OFFSETS_MAX
from tidelog.config import TopicConfig
from tidelog.storage.compaction.rules import (
    Dirt,
    SealedSegment,
    SegmentToRewrite,
    dirt,
    first_dirty,
    group_sources,
)

CONFIG = TopicConfig(cleanup_policy=frozenset(("compact",)))
NOW_MS = 1_000_000


def sealed(*bases: int, size: int = 100, newest: int = 10, oldest: int = 10) -> list[SealedSegment]:
    return [SealedSegment(base, size, newest, oldest) for base in bases]


def test_a_log_that_was_never_cleaned_is_dirty_up_to_its_active_segment() -> None:
    state = dirt(sealed(0, 10, 20), 30, 0, 1_000, CONFIG, NOW_MS)
    assert (state.first_dirty, state.bound, state.clean_bytes, state.dirty_bytes) == (0, 30, 0, 300)
    assert state.ratio == 1.0 and state.worth_cleaning(CONFIG)


def test_only_what_was_appended_since_the_last_round_is_dirty() -> None:
    state = dirt(sealed(0, 10, 20), 30, 20, 1_000, CONFIG, NOW_MS)
    assert (state.clean_bytes, state.dirty_bytes) == (200, 100)
    assert not state.worth_cleaning(CONFIG)
    assert state.worth_cleaning(replace(CONFIG, min_cleanable_dirty_ratio=0.3))
    half = dirt(sealed(0, 10), 20, 10, 1_000, CONFIG, NOW_MS)
    assert half.ratio == 0.5 and not half.worth_cleaning(CONFIG), "the ratio must be passed, not met"


def test_an_empty_or_clean_log_needs_nothing() -> None:
    for state in (dirt([], 0, 0, 0, CONFIG, NOW_MS), dirt(sealed(0, 10), 20, 20, 30, CONFIG, NOW_MS)):
        assert state.dirty_bytes == 0
        assert not state.worth_cleaning(replace(CONFIG, min_cleanable_dirty_ratio=0.0))


@pytest.mark.parametrize(
    ("stable", "bound"), [(0, 0), (9, 0), (10, 10), (15, 10), (20, 20), (29, 20), (30, 30), (99, 30)]
)
def test_a_segment_with_anything_unstable_in_it_is_not_cleaned(stable: int, bound: int) -> None:
    state = dirt(sealed(0, 10, 20), 30, 0, stable, CONFIG, NOW_MS)
    assert state.bound == bound and state.dirty_bytes == 10 * bound


def test_the_bound_never_falls_below_what_is_clean_already() -> None:
    state = dirt(sealed(0, 10, 20), 30, 20, 5, CONFIG, NOW_MS)
    assert (state.first_dirty, state.bound, state.dirty_bytes) == (20, 20, 0)


def test_the_first_young_segment_ends_the_stretch() -> None:
    config = replace(CONFIG, min_compaction_lag_ms=1_000)
    old = sealed(0, newest=NOW_MS - 1_000)
    young = sealed(10, newest=NOW_MS - 999)
    segments = [*old, *young, *sealed(20, newest=1)]
    assert dirt(segments, 30, 0, 99, config, NOW_MS).bound == 10
    assert dirt(segments, 30, 0, 99, CONFIG, NOW_MS).bound == 30
    assert dirt(segments, 30, 0, 99, config, NOW_MS + 1).bound == 30


def test_overdue_records_are_worth_cleaning_whatever_the_ratio() -> None:
    config = replace(CONFIG, max_compaction_lag_ms=500, min_cleanable_dirty_ratio=1.0)
    segments = [*sealed(0, size=10_000), *sealed(10, oldest=NOW_MS - 500)]
    assert not dirt(segments, 20, 10, 99, config, NOW_MS).worth_cleaning(config)
    late = dirt(segments, 20, 10, 99, config, NOW_MS + 1)
    assert late.overdue_ms == 1 and late.worth_cleaning(config)
    unknown = dirt(sealed(0, oldest=-1), 10, 0, 99, config, NOW_MS)
    assert unknown.overdue_ms == 0


def test_a_half_dirty_segment_counts_as_dirty() -> None:
    state = dirt(sealed(0, 10, 20), 30, 15, 99, CONFIG, NOW_MS)
    assert (state.clean_bytes, state.dirty_bytes) == (100, 200)


def test_ratio_of_nothing_is_zero() -> None:
    assert Dirt(0, 0, 0, 0, 0).ratio == 0.0


@pytest.mark.parametrize(("checkpoint", "expected"), [(None, 5), (0, 5), (5, 5), (7, 7), (20, 20), (21, 5)])
def test_a_checkpoint_outside_of_the_log_is_not_believed(checkpoint: int | None, expected: int) -> None:
    assert first_dirty(checkpoint, 5, 20) == expected


def sources(*sizes: int, index: int = 8, span: int = 10) -> list[SegmentToRewrite]:
    return [SegmentToRewrite(number * span, size, index, index) for number, size in enumerate(sizes)]


def bases(groups: list[list[SegmentToRewrite]]) -> list[list[int]]:
    return [[source.base for source in group] for group in groups]


def test_neighbours_are_joined_up_to_the_size_of_a_segment() -> None:
    assert bases(group_sources(sources(40, 60, 1, 99, 500, 0, 0), 70, 100, 1_000)) == [
        [0, 10],
        [20, 30],
        [40],
        [50, 60],
    ]
    assert group_sources([], 0, 100, 100) == []


def test_neighbours_are_joined_up_to_the_size_of_an_index() -> None:
    assert bases(group_sources(sources(1, 1, 1, index=40), 30, 100, 80)) == [[0, 10], [20]]


def test_a_segment_never_spans_more_offsets_than_its_index_can_name() -> None:
    far = sources(1, 1, 1, span=SEGMENT_OFFSETS_MAX - 5)
    assert bases(group_sources(far, 3 * SEGMENT_OFFSETS_MAX, 100, 100)) == [[0], [far[1].base], [far[2].base]]
    close = sources(1, 1, span=SEGMENT_OFFSETS_MAX - 5)
    assert len(group_sources(close, close[1].base + 6, 100, 100)) == 1
    assert len(group_sources(close, close[1].base + 7, 100, 100)) == 2
    empty = sources(1, 0, 0, span=SEGMENT_OFFSETS_MAX)
    assert len(group_sources(empty, 3 * SEGMENT_OFFSETS_MAX, 100, 100)) == 1, "empty ones never stay behind"
