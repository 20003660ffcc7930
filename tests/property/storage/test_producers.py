"""The check of idempotent producers against a model that keeps everything."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.storage.producer_state.test_producers import header
from tidelog.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from tidelog.storage.producer_state.producers import BATCHES_KEPT, SEQUENCE_MAX, Producers

START = SEQUENCE_MAX - 20  # so that numbers wrap soon

attempts = st.lists(
    st.tuples(
        st.integers(1, 3), st.integers(-12, 3), st.integers(1, 6), st.sampled_from([0, 0, 0, 0, 1, -1])
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(attempts=attempts, snapshots=st.sets(st.integers(0, 59)))
def test_the_answer_is_the_models(attempts: list[tuple[int, int, int, int]], snapshots: set[int]) -> None:
    """Sequences around the next one, epochs around the present one; the state passes through a snapshot now and then."""
    producers = Producers()
    model: dict[
        int, tuple[int, list[tuple[int, int, int]]]
    ] = {}  # id: (epoch, batches (first, last, offset))
    offset = 0
    for number, (producer, step, count, epoch_step) in enumerate(attempts):
        if number in snapshots:
            again = Producers()
            again.restore(producers.snapshot(offset))
            producers = again
        epoch, batches = model.get(producer, (0, []))
        following = (batches[-1][1] + 1) % (SEQUENCE_MAX + 1) if batches else START
        sequence = (following + step) % (SEQUENCE_MAX + 1)
        sent_epoch = max(0, epoch + epoch_step)
        last = (sequence + count - 1) % (SEQUENCE_MAX + 1)
        it = header(sequence, count, sent_epoch, producer=producer)
        outcome: object
        try:
            found = producers.check(it)
            outcome = "new" if found is None else found.base_offset
        except OutOfOrderSequenceNumber:
            outcome = "gap"
        except InvalidProducerEpoch:
            outcome = "fenced"

        expected: object
        copies = [old for old in batches[-BATCHES_KEPT:] if old[:2] == (sequence, last)]
        if not batches:
            expected = "new"
        elif sent_epoch < epoch:
            expected = "fenced"
        elif sent_epoch > epoch:
            expected = "new" if sequence == 0 else "gap"
        elif sequence == following:
            expected = "new"
        else:
            expected = copies[0][2] if copies else "gap"
        assert outcome == expected
        if outcome == "new":
            producers.appended(it, offset)
            kept = batches if sent_epoch == epoch and batches else []
            model[producer] = (sent_epoch, [*kept, (sequence, last, offset)])
            offset += count
