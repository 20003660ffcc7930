"""What is read by whom: splits, admission, filters, positions in checkpoints.  No Spark, no broker."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, Not

from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.pipeline.decision import Decision, Epoch, Part, decide, repair
from tidelog.pipeline.option_text import PipelineError
from tidelog.pipeline.positions import Positions
from tidelog.pipeline.pushdown import Narrowing
from tidelog.pipeline.sink_options import sink_options
from tidelog.pipeline.source_options import Time, source_options
from tidelog.pipeline.splits import Range, admit, split
from tidelog.types import TopicPartition

sizes = st.lists(st.integers(0, 500), min_size=1, max_size=8)


def ranges_of(lengths: list[int]) -> list[Range]:
    return [Range(TopicPartition("t", index), 5, 5 + size) for index, size in enumerate(lengths)]


@given(sizes, st.integers(1, 50), st.one_of(st.none(), st.integers(1, 100)))
def test_splits_cover_everything_once(lengths: list[int], pieces: int, size_max: int | None) -> None:
    found = split(ranges_of(lengths), pieces, size_max)
    for whole in ranges_of(lengths):
        covered = [
            one for each in found if each.partition == whole.partition for one in range(each.start, each.end)
        ]
        assert covered == list(range(whole.start, whole.end))
    assert all(one.size > 0 for one in found)
    assert len(found) >= min(pieces, sum(lengths))
    assert size_max is None or all(one.size <= size_max for one in found)


@given(sizes, st.integers(1, 600))
def test_admission_is_exact_and_fair(lengths: list[int], most: int) -> None:
    start = {TopicPartition("t", index): 7 for index in range(len(lengths))}
    end = {one: 7 + size for one, size in zip(start, lengths, strict=True)}
    admitted = admit(start, end, most)
    assert sum(admitted[one] - start[one] for one in start) == min(most, sum(lengths))
    assert all(start[one] <= admitted[one] <= end[one] for one in start)
    total = sum(lengths)
    if total > most:
        assert all(admitted[one] - 7 >= (end[one] - 7) * most // total for one in start)


def test_filters_become_limits() -> None:
    narrowing = Narrowing()
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    rest = narrowing.take(
        [
            EqualTo(("topic",), "a"),
            In(("partition",), (1, 2)),
            LessThan(("partition",), 2),
            GreaterThan(("offset",), 9),
            LessThan(("offset",), 20),
            GreaterThanOrEqual(("timestamp",), moment),
            IsNotNull(("offset",)),
            IsNotNull(("value",)),
            Not(EqualTo(("offset",), 12)),
            EqualTo(("value",), b"x"),
        ]
    )
    assert [type(one) for one in rest] == [GreaterThanOrEqual, IsNotNull, Not, EqualTo]
    assert [one for one in range(4) if narrowing.wants(TopicPartition("a", one))] == [1]
    assert not narrowing.wants(TopicPartition("b", 1))
    narrowed = narrowing.narrow(Range(TopicPartition("a", 1), 0, 100))
    assert (narrowed.start, narrowed.end) == (10, 20)
    assert narrowing.narrow(Range(TopicPartition("a", 1), 50, 100)).size == 0
    assert narrowing.time_first_ms == moment.timestamp() * 1000


def test_filters_of_decoded_rows_are_on_kafkas_columns_only() -> None:
    narrowing = Narrowing("_")
    theirs = EqualTo(("partition",), 1)
    assert narrowing.take([theirs, EqualTo(("_partition",), 2)]) == [theirs]
    assert narrowing.wants(TopicPartition("a", 2)) and not narrowing.wants(TopicPartition("a", 1))


def test_positions_survive_a_checkpoint() -> None:
    ids = {"a": uuid.uuid4(), "b": uuid.uuid4()}
    positions = Positions(
        {TopicPartition("a", 0): 1, TopicPartition("a", 10): 2, TopicPartition("b", 0): 3}, ids
    )
    assert Positions.from_json(positions.to_json()) == positions
    with pytest.raises(PipelineError, match="checkpoint of its own"):
        Positions.from_json({"logOffset": 5})


def test_the_first_batch_begins_where_it_began_however_often_it_is_run() -> None:
    place, ids = TopicPartition("a", 0), {"a": uuid.uuid4()}
    began = Positions({place: 70}, ids, first=True)
    end = Positions.from_json(began.ended(Positions({place: 80}, ids)).to_json())
    later = Positions.from_json(Positions({place: 95}, ids, first=True).to_json())
    assert later.really(end).offsets == began.really(end).offsets == {place: 70}
    # The next batch begins at the end of the first, and says no more where that one began.
    again = Positions.from_json(end.ended(Positions({place: 99}, ids)).to_json())
    assert end.really(again) == end and again.began is None and not again.first


def test_bounds() -> None:
    given = {"bootstrap": "h:1", "topics": "a, b", "starting": '{"a": {"0": 5, "1": -1}, "b": "@12"}'}
    starting = source_options(given, streaming=False).starting
    assert [starting.at(TopicPartition(*one)) for one in (("a", 0), ("a", 1), ("a", 2), ("b", 7))] == [
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
    ("given", "said"),
    [
        ({"topics": "a", "starting": '{"b": "latest"}'}, "'starting' names topic 'b', and topic 'a' is read"),
        ({"topics": "a", "ending": '{"b": {"0": 1}}'}, "'ending' names topic 'b'"),
        ({"pattern": "a.*", "starting": '{"b": "latest"}'}, "topics like 'a.*' is read"),
        ({"topics": "a", "starting": ""}, "'starting' cannot be ''"),
        ({"topics": "a", "starting": "@99999999999999999999"}, "cannot be '@99999999999999999999'"),
    ],
)
def test_bounds_that_mean_nothing_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(said)):
        source_options({"bootstrap": "h:1", **given}, streaming=False)


def test_a_sink_tells_a_bad_topic_by_its_option() -> None:
    with pytest.raises(PipelineError, match="option 'topic' cannot be 'bad topic/x'"):
        sink_options({"bootstrap": "h:1", "topic": "bad topic/x"}, streaming=True)
    with pytest.raises(PipelineError, match="option 'sinkId' cannot be 'a b'"):
        sink_options({"bootstrap": "h:1", "topic": "x", "sinkId": "a b"}, streaming=True)


# Decisions of sinks

EPOCH = Epoch("q", "s", "12345678-run", 4)


def part(index: int, rows: int = 10, producer: int | None = None) -> Part:
    held = PreparedTransaction(f"id.{index}", index if producer is None else producer, 3, True)
    return Part(index, held, rows, rows * 10)


def test_decisions_keep_what_has_rows_and_survive_their_record() -> None:
    decision = decide(EPOCH, [part(2), Part(1, None, 0, 0), part(0)])
    assert decision.tasks == 3 and [one.index for one in decision.parts] == [0, 2]
    assert Decision.from_bytes(decision.to_bytes()) == decision


def test_lives_of_a_query_are_told_apart() -> None:
    def life(run: str) -> Epoch:
        return Epoch("q", "s", run, 1)

    assert life("a-b").may_be_of("a-b") and not life("a-b").may_be_of("a-c")
    # Without the stream's own id: two jobs of one application may be of one batch.
    assert life("app-1/5").may_be_of("app-1/4") and not life("app-2/5").may_be_of("app-1/5")
    assert life("a").prefix != life("b").prefix and life("a").prefix.startswith(life("b").sink_prefix)


def test_a_lost_part_is_replaced_by_the_same_rows() -> None:
    decided = decide(EPOCH, [part(0), part(1)])
    again = {0: part(0, producer=50), 1: part(1, producer=51)}
    repaired = repair(decided, [decided.parts[1]], again, 2)
    assert repaired.parts == (decided.parts[0], again[1])


@pytest.mark.parametrize("again", [{}, {1: part(1, rows=9)}, {1: Part(1, None, 0, 0)}])
def test_a_lost_part_is_not_replaced_by_other_rows(again: dict[int, Part]) -> None:
    decided = decide(EPOCH, [part(0), part(1)])
    with pytest.raises(PipelineError, match="committed in part"):
        repair(decided, [decided.parts[1]], again, 2)
    with pytest.raises(PipelineError, match="number of tasks"):
        repair(decided, [decided.parts[1]], {1: part(1)}, 3)
