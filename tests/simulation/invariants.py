"""What must hold whenever a partition is read from end to end, whatever happened before.

`PartitionHistory.settle` has by then taken out what a power loss was allowed to take: the end of partitions that do
not sync before they answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

from tests.simulation.history import Found, PartitionHistory


class Invariant(Protocol):
    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]: ...


class OffsetsDense:
    """Every offset from the start to the end has one record: no hole, nothing twice, nothing out of order.  Only
    compaction leaves holes."""

    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]:
        offsets = [offset for offset, _ in found.records]
        if history.compacted:
            if offsets != sorted(set(offsets)):
                yield f"offsets do not ascend: {_short(offsets)}"
        elif offsets != list(range(found.start, found.end)):
            yield f"offsets are {_short(offsets)}, the log says {found.start} to {found.end}"


class StartWhereAsked:
    """Only a deletion that was asked for moves the start."""

    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]:
        if found.start > history.deleted:
            yield f"the log starts at {found.start}, deletion was asked up to {history.deleted}"


class DeletedStaysDeleted:
    """A topic has no records of an earlier one that had its name."""

    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]:
        for offset, value in found.records:
            if value in history.buried:
                yield f"offset {offset} has {value[:30]!r}, which went to a topic that is deleted"


class NoCorruptServed:
    """Every record is, to the byte, one that somebody sent here."""

    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]:
        for offset, value in found.records:
            if value not in history.origins and value not in history.buried:
                yield f"offset {offset} has {value[:60]!r}, which nobody sent"


class AcknowledgedSurvives:
    """What was acknowledged is there, where it was said to be."""

    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]:
        yield from _missing(history, found, history.promised, "acknowledged")


class NothingLostWithoutLease:
    """What a leader acknowledged after its lease was over is there: it had asked all replicas, whatever its client asked."""

    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]:
        yield from _missing(history, found, history.without_lease, "acknowledged by a leader without a lease")


class ShownStays:
    """What a reader saw once, every later reader sees."""

    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]:
        yield from _missing(history, found, history.shown, "read")


class CommittedNeverBack:
    """The end of the log, once told, does not go back."""

    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]:
        if found.end < history.committed:
            yield f"the log ends at {found.end}, readers were told {history.committed}"


class IdempotentOnce:
    """However often an idempotent producer repeats itself, each of its records is there once."""

    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]:
        for value, count in Counter(value for _, value in found.records).items():
            origin = history.origins.get(value)
            if origin and count > 1 and history.sessions[origin.producer, origin.session].idempotent:
                yield f"{origin} is there {count} times"


class PrefixOfHistory:
    """A producer's records are there in the order sent; those of an idempotent one without a gap, up to some
    point.  (A producer that goes on after a power loss took the memory of its sequences leaves one.)"""

    def violations(self, history: PartitionHistory, found: Found) -> Iterator[str]:
        numbers: dict[tuple[int, int], list[int]] = {}
        for _, value in found.records:
            if (origin := history.origins.get(value)) is not None:
                numbers.setdefault((origin.producer, origin.session), []).append(origin.number)
        for key, got in numbers.items():
            session = history.sessions[key]
            if got != sorted(got):
                yield f"records of producer and session {key} are out of order: {_short(got)}"
            elif session.idempotent and not session.power_losses and not history.compacted:
                first = got[0] if history.deleted else 0
                if got != list(range(first, first + len(got))):
                    yield f"records of producer and session {key} have a gap: {_short(got)}"


ALL: tuple[Invariant, ...] = (
    OffsetsDense(),
    StartWhereAsked(),
    DeletedStaysDeleted(),
    NoCorruptServed(),
    AcknowledgedSurvives(),
    NothingLostWithoutLease(),
    ShownStays(),
    CommittedNeverBack(),
    IdempotentOnce(),
    PrefixOfHistory(),
)


class Violated(AssertionError):
    """`names` of what did not hold."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.names = {name for name, _ in problems}
        shown = "\n".join(f"  {name}: {problem}" for name, problem in problems[:20])
        super().__init__(f"{len(problems)} violations\n{shown}")


def check(history: PartitionHistory, found: Found) -> list[tuple[str, str]]:
    history.settle(found)
    return [
        (type(invariant).__name__, f"{history.name}: {problem}")
        for invariant in ALL
        for problem in invariant.violations(history, found)
    ]


def _missing(
    history: PartitionHistory, found: Found, expected: Mapping[int, bytes], verb: str
) -> Iterator[str]:
    there = dict(found.records)
    last_of_key = {history.keys.get(value): offset for offset, value in found.records}
    for offset, value in expected.items():
        if offset < found.start or there.get(offset) == value:
            continue
        if offset not in there and history.compacted and last_of_key.get(history.keys[value], -1) > offset:
            continue  # compaction keeps the last record of each key
        yield f"offset {offset} was {verb} as {value[:30]!r} and has {there.get(offset)!r:.60}"


def _short(numbers: list[int]) -> str:
    return str(numbers) if len(numbers) < 40 else f"{numbers[:20]} ... {numbers[-20:]}"
