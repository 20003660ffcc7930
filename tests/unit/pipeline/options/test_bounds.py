"""Where to start and end, and the names of topics and sinks."""

from __future__ import annotations

import re

import pytest

from tidelog.pipeline.options.sink import sink_options
from tidelog.pipeline.options.source import Time, source_options
from tidelog.pipeline.options.text import PipelineError
from tidelog.types import TopicPartition


def test_bounds() -> None:
    given = {"bootstrap": "h:1", "topics": "a, b", "starting": '{"a": {"0": 5, "1": -1}, "b": "@12"}'}
    starting = source_options(given, streaming=False).starting
    assert [starting.at(TopicPartition(*place)) for place in (("a", 0), ("a", 1), ("a", 2), ("b", 7))] == [
        5,
        "latest",
        "earliest",
        Time(12),
    ]


def test_bounds_in_time_are_what_brokers_take() -> None:
    def starting(text: str) -> object:
        given = {"bootstrap": "h:1", "topics": "a", "starting": text}
        return source_options(given, streaming=False).starting.everywhere

    assert starting("0001-01-01") == Time(0) and starting("9999-12-31") == Time(253402214400000)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topics": "a", "starting": '{"b": "latest"}'}, "'starting' names topic 'b', and topic 'a' is read"),
        ({"topics": "a", "ending": '{"b": {"0": 1}}'}, "'ending' names topic 'b'"),
        ({"pattern": "a.*", "starting": '{"b": "latest"}'}, "topics like 'a.*' is read"),
        ({"topics": "a", "starting": ""}, "'starting' cannot be ''"),
        ({"topics": "a", "starting": "@99999999999999999999"}, "cannot be '@99999999999999999999'"),
    ],
)
def test_bounds_that_mean_nothing_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(message)):
        source_options({"bootstrap": "h:1", **given}, streaming=False)


def test_a_sink_tells_a_bad_topic_by_its_option() -> None:
    with pytest.raises(PipelineError, match="option 'topic' cannot be 'bad topic/x'"):
        sink_options({"bootstrap": "h:1", "topic": "bad topic/x"}, streaming=True)
    with pytest.raises(PipelineError, match="option 'sinkId' cannot be 'a b'"):
        sink_options({"bootstrap": "h:1", "topic": "x", "sinkId": "a b"}, streaming=True)
