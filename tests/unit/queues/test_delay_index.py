"""The index of delayed messages against a dictionary."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tidelog.queues.delay_index import BUCKET_MS, DelayIndex

START = 7


class Delays(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = DelayIndex(START)
        self.model: dict[int, int] = {}  # offset to due time
        self.now_ms = 5 * BUCKET_MS
        self.next_offset = START

    @rule(delay_ms=st.integers(-BUCKET_MS, 4 * BUCKET_MS), gap=st.integers(0, 3))
    def add(self, delay_ms: int, gap: int) -> None:
        offset = self.next_offset + gap
        self.index.add(self.now_ms + delay_ms, offset)
        self.model[offset] = self.now_ms + delay_ms
        self.next_offset = offset + 1

    @rule(offsets=st.lists(st.integers(0, 60)))
    def remove(self, offsets: list[int]) -> None:
        self.index.remove(offsets)
        for offset in offsets:
            self.model.pop(offset, None)

    @rule(passed_ms=st.integers(0, 2 * BUCKET_MS))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(most=st.integers(1, 5), finish=st.booleans())
    def deliver(self, most: int, finish: bool) -> None:
        due = sorted((due_ms, offset) for offset, due_ms in self.model.items() if due_ms <= self.now_ms)
        assert self.index.due(self.now_ms, most) == due[:most]
        if finish:
            self.remove([offset for _, offset in due[:most]])

    @rule()
    def forget_what_is_done(self) -> None:
        self.index.started(min(self.model, default=self.next_offset))

    @invariant()
    def nothing_is_lost_and_nothing_is_late(self) -> None:
        assert sorted((entry.offset, entry.due_ms) for entry in self.index) == sorted(self.model.items())
        assert len(self.index) == len(self.model)
        next_ms = self.index.next_ms()
        if self.model:
            assert next_ms is not None and next_ms <= min(self.model.values())


TestDelays = Delays.TestCase
