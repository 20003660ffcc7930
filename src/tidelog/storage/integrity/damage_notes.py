"""Notes in a log what was found out about its bytes: which ranges are damaged, and what a second search has learned.

The file of damaged ranges, the segments and their indexes say the same afterwards.  Blocks; used by `scrubber` and
`restoring`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.log import Log
from tidelog.storage.log_state import LogState
from tidelog.storage.segments.segment import Segment
from tidelog.storage.segments.txn_index import Aborted


def note_damage(log: Log, segment: Segment, ranges: Sequence[BadRange]) -> None:
    """These ranges of `segment`, and no others, are damaged: found just now, or what a repair has left."""
    log.state.change(partial(_set_damage, log.state, segment, list(ranges)), f"remember damage of {log.name}")


def _set_damage(state: LogState, segment: Segment, ranges: list[BadRange]) -> None:
    state.damage.put(segment.base, ranges)
    segment.bad = ranges
    # A search never walks over a bad range: indexes must know the way behind it.
    segment.rebuild_indexes()


def note_learned(log: Log, aborted: Sequence[Aborted], damaged: Iterable[BadRange]) -> None:
    """The log was searched again, all but what is `damaged` now, and these transactions were aborted."""
    log.state.damage.unlearned = frozenset(damaged)
    log.state.change(partial(_put_aborted, log.state, aborted), f"note aborted transactions of {log.name}")


def _put_aborted(state: LogState, aborted: Sequence[Aborted]) -> None:
    segments = state.segments
    by_segment: dict[int, list[Aborted]] = {}
    for transaction in aborted:
        if transaction.last_offset >= segments.first.base:
            number = segments.holding(transaction.last_offset)
            by_segment.setdefault(number, []).append(transaction)
    for number, transactions in by_segment.items():
        segments[number].indexes.transactions.put(transactions)
