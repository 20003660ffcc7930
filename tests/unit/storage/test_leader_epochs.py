"""Leader epochs: which one an offset is from, and where one ended."""

from __future__ import annotations

from tidelog.storage.leader_epochs import Epochs


def test_an_epoch_ends_where_the_next_began() -> None:
    epochs = Epochs([(1, 0), (2, 10), (5, 30)])
    assert epochs.end_of(1, 100) == (1, 10)
    assert epochs.end_of(2, 100) == (2, 30)
    assert epochs.end_of(3, 100) == (2, 30)
    assert epochs.end_of(5, 100) == (5, 100)


def test_an_epoch_nobody_has_seen_has_no_end() -> None:
    epochs = Epochs([(2, 10)])
    assert epochs.end_of(3, 100) == (-1, -1)
    assert epochs.end_of(-1, 100) == (-1, -1)
    assert Epochs().end_of(0, 100) == (-1, -1)


def test_an_epoch_from_before_the_log_ends_where_the_log_starts() -> None:
    assert Epochs([(3, 50), (4, 70)]).end_of(1, 100) == (1, 50)


def test_an_offset_knows_its_epoch() -> None:
    epochs = Epochs([(1, 5), (4, 10)])
    assert [epochs.of(offset) for offset in (4, 5, 9, 10, 1000)] == [-1, 1, 1, 4, 4]


def test_a_newer_epoch_replaces_what_it_contradicts() -> None:
    epochs = Epochs([(1, 0), (2, 10), (3, 20)])
    assert epochs.assign(4, 15)
    assert list(epochs) == [(1, 0), (2, 10), (4, 15)]
    assert not epochs.assign(4, 40)
    assert epochs.assign(4, 12)
    assert list(epochs) == [(1, 0), (2, 10), (4, 12)]


def test_an_epoch_that_wrote_nothing_is_replaced_by_the_next() -> None:
    epochs = Epochs([(1, 0), (2, 10)])
    epochs.assign(3, 10)
    assert list(epochs) == [(1, 0), (3, 10)]


def test_truncation_and_deletion_take_epochs_along() -> None:
    epochs = Epochs([(1, 0), (2, 10), (3, 20)])
    assert not epochs.version
    epochs.truncate_to(20)
    assert (list(epochs), epochs.latest, epochs.version) == ([(1, 0), (2, 10)], 2, 1)
    epochs.advance_start(15)
    assert list(epochs) == [(2, 15)]
    epochs.truncate_to(0)
    assert (list(epochs), epochs.latest) == ([], -1)


def test_nothing_changes_when_the_start_is_where_it_was() -> None:
    epochs = Epochs([(1, 5), (2, 10)])
    epochs.advance_start(3)
    epochs.advance_start(5)
    assert (list(epochs), epochs.version) == ([(1, 5), (2, 10)], 0)
