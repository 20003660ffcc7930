"""The positions of a stream, in Spark's checkpoints."""

from __future__ import annotations

import uuid

import pytest

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.source.positions import StreamPositions
from tidelog.types import TopicPartition


def test_positions_survive_a_checkpoint() -> None:
    ids = {"a": uuid.uuid4(), "b": uuid.uuid4()}
    positions = StreamPositions(
        {TopicPartition("a", 0): 1, TopicPartition("a", 10): 2, TopicPartition("b", 0): 3}, ids
    )
    assert StreamPositions.from_json(positions.to_json()) == positions
    with pytest.raises(PipelineError, match="checkpoint of its own"):
        StreamPositions.from_json({"logOffset": 5})


def test_the_first_batch_begins_where_it_began_however_often_it_is_run() -> None:
    place, ids = TopicPartition("a", 0), {"a": uuid.uuid4()}
    began = StreamPositions({place: 70}, ids, first=True)
    end = StreamPositions.from_json(began.ended(StreamPositions({place: 80}, ids)).to_json())
    later = StreamPositions.from_json(StreamPositions({place: 95}, ids, first=True).to_json())
    assert later.really(end).offsets == began.really(end).offsets == {place: 70}
    # The next batch begins at the end of the first, and says no more where that one began.
    again = StreamPositions.from_json(end.ended(StreamPositions({place: 99}, ids)).to_json())
    assert end.really(again) == end and again.began is None and not again.first
