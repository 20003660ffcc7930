"""The state of a transactional producer: which calls it allows now, and what a failure changes.  Pure.

READY -> OPEN -> COMMITTING or ABORTING -> READY; or OPEN -> READY when another process is to end the transaction.  A
batch that fails leads to BROKEN, from where only an abort leads back; a fenced producer or a refused id is DEAD for
good.
"""

from __future__ import annotations

from enum import Enum, auto

from tidelog import errors

# Nothing this producer does can succeed any more.
FATAL = (
    errors.ProducerFenced,
    errors.TransactionalIdAuthorizationFailed,
    errors.ClusterAuthorizationFailed,
    errors.UnsupportedVersion,
    errors.UnsupportedForMessageFormat,
)
# The same from the coordinator; from a partition's leader these errors only end the transaction.
FATAL_FROM_COORDINATOR = (*FATAL, errors.InvalidProducerEpoch, errors.InvalidTxnState)


class TransactionPhase(Enum):
    READY = auto()
    OPEN = auto()
    COMMITTING = auto()
    ABORTING = auto()
    BROKEN = auto()
    DEAD = auto()


class TransactionState:
    def __init__(self) -> None:
        self.phase = TransactionPhase.READY
        self.problem: errors.TidelogError | None = None
        self.started = False
        """The coordinator may know of the transaction, and must hear of its end."""
        self.count_lost = False
        """A batch of the transaction failed: sequence numbers may have gaps, and the next transaction needs another
        epoch."""
        self.handed_over = False
        """Another process ends the last transaction: the next one must ask the coordinator for its epoch."""

    def begun(self) -> None:
        self._alive()
        if self.phase is not TransactionPhase.READY:
            raise errors.InvalidTxnState(
                "a transaction is open already: commit or abort it before beginning another"
            )
        self.phase = TransactionPhase.OPEN
        self.started = self.count_lost = False

    def in_transaction(self) -> None:
        """Raises unless records and offsets can be added now."""
        self._alive()
        if self.phase is TransactionPhase.BROKEN:
            raise self._must_abort()
        if self.phase is not TransactionPhase.OPEN:
            raise errors.InvalidTxnState("no transaction is open: begin_transaction() first")

    def committing(self) -> None:
        """Called again when the outcome of the first attempt is unknown."""
        self._alive()
        if self.phase is TransactionPhase.BROKEN:
            raise self._must_abort()
        if self.phase not in (TransactionPhase.OPEN, TransactionPhase.COMMITTING):
            raise errors.InvalidTxnState("no transaction is open: there is nothing to commit")
        self.phase = TransactionPhase.COMMITTING

    def prepared(self) -> None:
        """The transaction is complete, and another process ends it."""
        self.ended()
        self.handed_over = True

    def aborting(self) -> None:
        self._alive()
        if self.phase is TransactionPhase.COMMITTING:
            raise errors.InvalidTxnState(
                "a commit is under way and may have succeeded: commit_transaction() again to know"
            )
        if self.phase not in (TransactionPhase.OPEN, TransactionPhase.BROKEN, TransactionPhase.ABORTING):
            raise errors.InvalidTxnState("no transaction is open: there is nothing to abort")
        self.phase = TransactionPhase.ABORTING

    @property
    def abortable(self) -> bool:
        return self.phase in (TransactionPhase.OPEN, TransactionPhase.BROKEN, TransactionPhase.ABORTING)

    def check_commit(self) -> None:
        """Called when all batches are settled; raises unless the coordinator may be asked to commit."""
        self._alive()
        if self.phase is TransactionPhase.BROKEN:
            raise self._must_abort()

    def ended(self) -> None:
        self.phase = TransactionPhase.READY
        self.problem = None
        self.started = False

    def failed(self, problem: errors.TidelogError, *, by_coordinator: bool = False) -> None:
        if self.phase is TransactionPhase.DEAD:
            return
        if isinstance(problem, FATAL_FROM_COORDINATOR if by_coordinator else FATAL):
            self.phase, self.problem = TransactionPhase.DEAD, problem
            return
        self.count_lost = True
        if self.phase in (TransactionPhase.OPEN, TransactionPhase.COMMITTING):
            self.phase, self.problem = TransactionPhase.BROKEN, problem

    def _alive(self) -> None:
        if self.phase is TransactionPhase.DEAD:
            problem = self.problem or errors.ProducerFenced()
            raise type(problem)(f"{problem}; this producer cannot continue: close it and make a new one")

    def _must_abort(self) -> errors.TidelogError:
        return errors.TransactionAbortable(f"the transaction must be aborted: {self.problem}")
