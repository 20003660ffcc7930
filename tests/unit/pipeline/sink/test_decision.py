"""The decision about an epoch of a sink."""

from __future__ import annotations

import pytest

from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.sink.decision import Epoch, EpochDecision, Part, decide, repair

EPOCH = Epoch("q", "s", "12345678-run", 4)


def part(index: int, rows: int = 10, producer: int | None = None) -> Part:
    held = PreparedTransaction(f"id.{index}", index if producer is None else producer, 3, True)
    return Part(index, held, rows, rows * 10)


def test_decisions_keep_what_has_rows_and_survive_their_record() -> None:
    decision = decide(EPOCH, [part(2), Part(1, None, 0, 0), part(0)])
    assert decision.tasks == 3 and [part.index for part in decision.parts] == [0, 2]
    assert EpochDecision.from_bytes(decision.to_bytes()) == decision


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
