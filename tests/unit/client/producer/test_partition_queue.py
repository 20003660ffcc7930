"""The queue of one partition: pure decisions, first one by one, then against a model of a broker."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.client.scripted import PartitionLog
from tidelog import errors
from tidelog.client.producer.batch import NO_STAMP, OutgoingBatch
from tidelog.client.producer.partition_queue import EPOCH_MAX, PartitionQueue
from tidelog.record import Codec, read_records
from tidelog.types import TopicPartition

WHERE = TopicPartition("orders", 0)
REFUSED = errors.OutOfOrderSequenceNumber("a gap")
LOST = errors.NetworkException("gone")


def batch_of(*values: bytes, created_ms: int = 0) -> OutgoingBatch:
    batch = OutgoingBatch(WHERE, 10_000, created_ms)
    for value in values:
        assert batch.add(None, value, 1)
    return batch


def queue_of(
    *batches: OutgoingBatch, idempotent: bool = True, unsettled_max: int = 5, new: bool = False
) -> PartitionQueue:
    queue = PartitionQueue(WHERE, codec=Codec.NONE, idempotent=idempotent, unsettled_max=unsettled_max)
    if idempotent:
        queue.identified(7, 0)
        queue._known = not new
    queue.full.extend(batches)
    return queue


def take(queue: PartitionQueue, now_ms: int = 0) -> OutgoingBatch | None:
    batch = queue.next(now_ms, 0, hurry=True)
    if batch is not None:
        queue.take(batch)
    return batch


def test_batches_leave_in_order_each_with_the_next_sequence_number() -> None:
    first, second = batch_of(b"a", b"b"), batch_of(b"c")
    queue = queue_of(first, second)
    assert take(queue) is first and take(queue) is second and take(queue) is None
    assert (first.stamp, second.stamp) == ((7, 0, 0), (7, 0, 2))


def test_the_first_batch_of_a_producer_goes_alone() -> None:
    first, second = batch_of(b"a"), batch_of(b"b")
    queue = queue_of(first, second, new=True)
    assert take(queue) is first and take(queue) is None
    queue.acknowledged(first)
    assert take(queue) is second


def test_only_as_many_are_unsettled_as_brokers_remember() -> None:
    batches = [batch_of(b"%d" % at) for at in range(7)]
    queue = queue_of(*batches)
    assert [take(queue) for _ in range(6)] == [*batches[:5], None]
    queue.settled(batches[0])
    assert take(queue) is batches[5]


def test_acknowledgements_behind_an_unsettled_batch_do_not_let_new_ones_push_it_out_of_memory() -> None:
    batches = [batch_of(b"%d" % at) for at in range(7)]
    queue = queue_of(*batches)
    for _ in range(5):
        take(queue)
    for batch in batches[1:5]:
        queue.acknowledged(batch)
    assert take(queue) is None, "the first may have been written, and five later ones would hide that"
    queue.acknowledged(batches[0])
    assert take(queue) is batches[5]


def test_without_sequence_numbers_the_next_leaves_when_the_one_before_is_settled() -> None:
    first, second = batch_of(b"a"), batch_of(b"b")
    queue = queue_of(first, second, idempotent=False, unsettled_max=1)
    assert take(queue) is first and take(queue) is None
    queue.again(first, LOST, 0)
    assert take(queue) is first, "again, and not the second before it"
    queue.settled(first)
    assert take(queue) is second
    assert first.stamp == second.stamp == NO_STAMP


def test_the_open_batch_waits_for_company_unless_there_is_hurry() -> None:
    queue = queue_of()
    queue.lane.open = batch_of(b"a", created_ms=100)
    assert queue.next(105, 10, hurry=False) is None
    assert queue.ready_ms(10) == 110
    assert queue.next(110, 10, hurry=False) is queue.lane.open
    assert queue.next(105, 10, hurry=True) is queue.lane.open


def test_a_retry_waits_sends_the_same_bytes_and_holds_back_what_is_new() -> None:
    first, second = batch_of(b"a"), batch_of(b"b")
    queue = queue_of(first, second)
    take(queue)
    sent = first.data
    queue.again(first, LOST, not_before_ms=50)
    assert take(queue, 49) is None
    assert queue.ready_ms(0) == 50
    assert take(queue, 50) is first and first.data == sent
    assert first.attempts == 2


def test_a_gap_behind_a_failed_batch_passes_when_that_one_is_through() -> None:
    first, second = batch_of(b"a"), batch_of(b"b")
    queue = queue_of(first, second)
    take(queue)
    take(queue)
    queue.again(first, LOST, 0)
    queue.sequence_refused(second, REFUSED, 0)
    assert take(queue) is first and take(queue) is second
    assert (first.stamp, second.stamp) == ((7, 0, 0), (7, 0, 1)), "the same numbers as before"


def test_a_gap_at_the_first_batch_starts_a_new_epoch_once_nothing_is_in_flight() -> None:
    first, second, third = batch_of(b"a"), batch_of(b"b", b"c"), batch_of(b"d")
    queue = queue_of(first, second, third)
    for _ in range(3):
        take(queue)
    queue.settled(first)
    queue.sequence_refused(second, REFUSED, 0)
    assert take(queue) is None, "the third may still arrive under the old numbers"
    queue.sequence_refused(third, REFUSED, 0)
    assert take(queue) is second and take(queue) is None, "the first of an epoch goes alone, too"
    queue.acknowledged(second)
    assert take(queue) is third
    assert (second.stamp, third.stamp) == ((7, 1, 0), (7, 1, 2))
    assert [record.value for record in read_records(second.data)] == [b"b", b"c"], "the CRC is right again"


def test_a_batch_that_is_too_large_is_halved_in_its_place() -> None:
    first, large, last = batch_of(b"a"), batch_of(b"b", b"c", b"d"), batch_of(b"e")
    large.bytes_taken = 31
    sent = [large.delivery(at) for at in range(3)]
    outcomes: list[tuple[int, int]] = []
    for at, item in enumerate(sent):
        item.add_callback(lambda where, at=at: outcomes.append((at, where.offset)))
    queue = queue_of(first, large, last)
    for _ in range(3):
        take(queue)
    left, right = queue.split(large)
    assert left.bytes_taken + right.bytes_taken == 31
    queue.sequence_refused(last, REFUSED, 0)
    assert take(queue) is None, "the first is not settled: only then may the count start anew"
    queue.settled(first)
    assert take(queue) is left
    queue.acknowledged(left)
    assert [take(queue) for _ in range(2)] == [right, last]
    assert [half.stamp for half in (left, right, last)] == [(7, 1, 0), (7, 1, 1), (7, 1, 3)]
    values = [record.value for half in (left, right) for record in read_records(half.data)]
    assert values == [b"b", b"c", b"d"]
    right.acknowledged(11, -1)
    left.acknowledged(10, -1)
    assert [batch.get(0).offset for batch in sent] == [10, 11, 12]
    assert outcomes == [(1, 11), (2, 12), (0, 10)], "each is told once, by the half that has it"


def test_when_epochs_are_used_up_another_producer_id_is_wanted() -> None:
    first = batch_of(b"a")
    queue = queue_of(first)
    queue.identified(7, EPOCH_MAX)
    take(queue)
    queue.sequence_refused(first, REFUSED, 0)
    assert queue.wants_producer_id and queue.spent_id == 7
    queue.identified(8, 0)
    assert take(queue) is first
    assert first.stamp.producer_id == 8 and first.stamp.sequence == 0


def test_sequence_numbers_wrap_as_brokers_expect() -> None:
    first, second = batch_of(b"a", b"b"), batch_of(b"c")
    queue = queue_of(first, second)
    queue._sequence = 2**31 - 1
    take(queue)
    take(queue)
    assert (first.stamp.sequence, second.stamp.sequence) == (2**31 - 1, 1)


def test_a_batch_given_up_before_it_was_sent_leaves_the_queue() -> None:
    first, second = batch_of(b"a"), batch_of(b"b")
    queue = queue_of(first, second)
    queue.lane.open = third = batch_of(b"c")
    queue.settled(first)
    queue.settled(third)
    assert list(queue.batches()) == [second]


# Against a model


class Model:
    """A broker behind a bad line: requests arrive in order or are lost, answers come or are lost, and now and
    then the broker refuses."""

    def __init__(self, seed: int, idempotent: bool) -> None:
        self.random = Random(seed)
        self.log = PartitionLog()
        self.idempotent = idempotent
        self.queue = queue_of(idempotent=idempotent, unsettled_max=5 if idempotent else 1, new=True)
        self.line: list[tuple[OutgoingBatch, bytes]] = []
        self.sent: list[bytes] = []
        self.given_up: set[bytes] = set()

    def values(self, batch: OutgoingBatch) -> list[bytes]:
        return [record.value or b"" for record in read_records(batch.data)]

    def send(self) -> None:
        values = [b"%d" % (len(self.sent) + at) for at in range(self.random.randint(1, 4))]
        self.sent += values
        self.queue.full.append(batch_of(*values))

    def step(self) -> None:
        kind = self.random.random()
        if kind < 0.25 and len(self.sent) < 60:
            self.send()
        elif kind < 0.6:
            batch = take(self.queue)
            if batch is not None:
                self.line.append((batch, batch.data))
        elif kind < 0.9 and self.line:
            self.answer(*self.line.pop(0))
        elif kind < 0.95 and self.line:
            self.break_line()
        elif kind < 0.97:
            self.give_up()

    def answer(self, batch: OutgoingBatch, data: bytes) -> None:
        kind = self.random.random()
        if kind < 0.1:
            self.refused(batch, errors.NotEnoughReplicas("for now"))
        elif kind < 0.15 and batch.count > 1 and not batch.done and not batch.maybe_written:
            self.queue.split(batch)
        else:
            code, base = self.log.append(data)
            if code:
                self.refused(batch, errors.by_code(code)("model"))
            elif kind < 0.2:
                self.refused(batch, errors.NotEnoughReplicasAfterAppend("written all the same"))
            else:
                self.queue.acknowledged(batch)
                if not batch.done:
                    batch.acknowledged(base, -1)

    def refused(self, batch: OutgoingBatch, problem: errors.TidelogError) -> None:
        if batch.done:
            self.queue.settled(batch)
        elif isinstance(problem, errors.OutOfOrderSequenceNumber):
            self.queue.sequence_refused(batch, problem, 0)
        else:
            assert problem.retriable, problem
            self.queue.again(batch, problem, 0)

    def break_line(self) -> None:
        """Some requests still arrive; no answer does."""
        arriving = self.random.randint(0, len(self.line))
        for at, (batch, data) in enumerate(self.line):
            if at < arriving:
                self.log.append(data)
            self.refused(batch, LOST)
        self.line.clear()

    def give_up(self) -> None:
        """The oldest batch has run out of time."""
        batch = next(self.queue.batches(), None)
        if batch is None or batch.done or not self.idempotent:
            return
        if not batch.packed:
            batch.pack(Codec.NONE, NO_STAMP)
        self.given_up.update(self.values(batch))
        batch.failed(errors.RequestTimedOut("model"))
        if not batch.in_flight:
            self.queue.settled(batch)

    def finish(self) -> None:
        self.random = Random(0)
        for _ in range(10_000):
            if self.queue.empty and not self.line:
                return
            batch = take(self.queue)
            if batch is not None:
                self.line.append((batch, batch.data))
            elif self.line:
                batch, data = self.line.pop(0)
                code, base = self.log.append(data)
                if code:
                    self.refused(batch, errors.by_code(code)("model"))
                else:
                    self.queue.acknowledged(batch)
                    if not batch.done:
                        batch.acknowledged(base, -1)
        raise AssertionError("the queue never empties")

    def written(self) -> list[bytes]:
        return [record.value or b"" for batch in self.log.batches for record in read_records(batch.data)]


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(10, 400))
def test_every_record_is_written_once_and_in_order_whatever_the_line_does(seed: int, steps: int) -> None:
    model = Model(seed, idempotent=True)
    for _ in range(steps):
        model.step()
    model.finish()
    written = model.written()
    assert len(set(written)) == len(written), "nothing twice"
    assert written == sorted(written, key=int), "nothing out of order"
    assert set(model.sent) - set(written) <= model.given_up, "nothing lost but what was given up"


@pytest.mark.parametrize("seed", range(20))
def test_without_idempotence_order_still_holds(seed: int) -> None:
    model = Model(seed, idempotent=False)
    for _ in range(300):
        model.step()
    model.finish()
    firsts = list(dict.fromkeys(model.written()))
    assert firsts == model.sent, "duplicates may be, gaps and swaps may not"
