"""What a transactional producer may do now, and what a failure means for it.  Pure.

READY -> OPEN -> COMMITTING or ABORTING -> READY; or OPEN -> READY when somebody else is to end it.  A failure of what
was sent leaves BROKEN, from where only an abort leads back; a fence or a refusal of the id is the end: DEAD.
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
# The coordinator's word for the same; from a partition's leader they only end the transaction.
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
        """The coordinator may know of the transaction: it has to be told how it ends."""
        self.count_lost = False
        """Something failed in it: sequence numbers may have gaps, the next one needs another epoch."""
        self.handed_over = False
        """The last one is for somebody else to end: the next one needs the coordinator's word for its epoch."""

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
        """To be called again when it was not known whether the first attempt has succeeded."""
        self._alive()
        if self.phase is TransactionPhase.BROKEN:
            raise self._must_abort()
        if self.phase not in (TransactionPhase.OPEN, TransactionPhase.COMMITTING):
            raise errors.InvalidTxnState("no transaction is open: there is nothing to commit")
        self.phase = TransactionPhase.COMMITTING

    def prepared(self) -> None:
        """It is complete, and somebody else ends it."""
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
        """Everything is settled: may the coordinator be asked to commit?"""
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
            raise type(problem)(f"{problem}; this producer cannot go on: close it and make a new one")

    def _must_abort(self) -> errors.TidelogError:
        return errors.TransactionAbortable(f"the transaction must be aborted: {self.problem}")
