"""Acknowledgements that joined a transaction: which types they have, and what became of them.

Their records stay acquired, by nobody, until the share coordinator knows the outcome.  Pure; `partition` applies the
outcomes, `outcome_watch` asks for them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from tidelog.groups.share.in_flight import (
    InFlightRun,
    JoinedAcknowledgement,
    RecordState,
    StateBatch,
    UndecidedBatch,
)

DONE = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED)


class KnownOutcomes(NamedTuple):
    """The share coordinator's state, read after these acknowledgements were written."""

    acknowledgements: Container[JoinedAcknowledgement]
    start: int
    batches: Sequence[StateBatch]
    pending: Sequence[UndecidedBatch]

    def of(self, run: InFlightRun) -> bool | None:
        """True: committed; False: aborted; None: not decided, or not asked for."""
        if run.joined is None or run.joined not in self.acknowledgements:
            return None
        if any(
            batch.producer_id == run.joined.producer_id and batch.first <= run.last <= batch.last
            for batch in self.pending
        ):
            return None
        return run.last < self.start or any(
            batch.first <= run.last <= batch.last and batch.state in DONE for batch in self.batches
        )


def joined(runs: Iterable[InFlightRun]) -> set[JoinedAcknowledgement]:
    """Those whose outcome the share coordinator can tell."""
    return {run.joined for run in runs if run.joined is not None and run.joined.written}
