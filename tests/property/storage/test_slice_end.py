"""How many records a slice has, however it was cut: against a walk over its bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.storage.making import append, batch, content, make_volume, open_log
from tidelog._speed.log.batch import walk
from tidelog.config import TopicConfig

SMALL = TopicConfig(segment_bytes=3000, index_interval_bytes=300)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 400)), min_size=1, max_size=60),
    st.data(),
)
def test_the_end_of_a_slice_is_that_of_its_last_whole_batch(
    batches: list[tuple[int, int]], data: st.DataObject
) -> None:
    log = open_log(make_volume(), SMALL)
    bounds = [0]
    for count, size in batches:
        append(log, batch(log.next, count=count, value=b"v" * size))
        bounds.append(log.end)
    bound = data.draw(st.sampled_from(bounds[1:]))
    offset = data.draw(st.integers(0, bound - 1))
    part = log.reader.read(offset, data.draw(st.integers(100, 5000)), bound)
    assert part is not None
    expected = walk(content(part))[-1].last_offset + 1
    assert log.reader.end_of(part, offset, bound) == expected
