"""The commit of an epoch of an exactly-once sink, on the driver: first the decision, then the end of every transaction.

An epoch that runs again after a crash finds its decision.  Then the parts in the decision are committed, and the parts
written again are aborted.  Exception: if the coordinator has aborted a part meanwhile because its transaction timed out,
the part written again replaces it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterable, Sequence

from tidelog import errors
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.pipeline.clients import PipelineClients, clients
from tidelog.pipeline.options.sink import SinkOptions
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.sink.decision import Epoch, EpochDecision, Part, decide, repair
from tidelog.pipeline.sink.decision_log import DecisionLog, decisions_of, forget, is_open

log = logging.getLogger("tidelog.pipeline")

# The transaction has already ended: its coordinator knows whether it was committed.
ENDED = (
    errors.InvalidTxnState,
    errors.ProducerFenced,
    errors.InvalidProducerEpoch,
    errors.InvalidProducerIdMapping,
)
COMMITTED = ("PrepareCommit", "CompleteCommit")
OPEN = "Ongoing"
SWEEP_EVERY_S = 30.0

_swept: dict[str, tuple[str, float]] = {}
"""By sink: the run of the query and the time of the last sweep."""


def commit(options: SinkOptions, epoch: Epoch, parts: Sequence[Part], *, attempts: bool, last: bool) -> None:
    """`attempts`: some task ran more than once; `last`: the sink is never used again."""
    try:
        was_open = is_open(options, epoch.key, epoch.run)
        decisions = decisions_of(options, epoch.key, epoch.run)
        try:
            _commit(options, decisions, epoch, parts)
        except PipelineError:
            raise
        except errors.TidelogError as problem:
            if not was_open:
                raise
            decisions = _opened_again(options, epoch, problem)
            _commit(options, decisions, epoch, parts)
        _sweep(options, epoch, decisions.last, attempts)
        if last:
            decisions.write(None)
    except BaseException:
        forget(options, epoch.key, epoch.run)
        raise
    if last:
        forget(options, epoch.key, epoch.run)


def _opened_again(options: SinkOptions, epoch: Epoch, problem: errors.TidelogError) -> DecisionLog:
    """Opens the decision log again.  Spark has several workers for commits, and gives a commit to any free worker.  So
    another worker of the same run may have fenced the log that this worker has open, and may have decided meanwhile.  If a
    driver of another run has fenced it, that driver stays in charge."""
    forget(options, epoch.key, epoch.run)
    decisions = decisions_of(options, epoch.key, epoch.run)
    if decisions.last is None or decisions.last.run != epoch.run:
        raise problem
    return decisions


def _commit(options: SinkOptions, decisions: DecisionLog, epoch: Epoch, parts: Sequence[Part]) -> None:
    connected, decided = clients(options.connection), decisions.last
    if decided is not None and decided == decide(epoch, parts):
        # An earlier try wrote the decision, although its answer was lost.
        _end_all(connected, decided)
        return
    if decided is None or decided.epoch < epoch.number:
        _check_open(connected, options, parts)
        decision = decide(epoch, parts)
        decisions.write(decision)
        _end_all(connected, decision)
        return
    if decided.epoch == epoch.number and epoch.may_be_of(decided.run):
        raise PipelineError(
            f"sink {epoch.sink!r} has already been written in batch {epoch.number}: each of several writes in one "
            "foreachBatch needs its own option sinkId"
        )
    if decided.epoch > epoch.number:
        log.warning(
            "Epoch %s of sink %s was already written, and so were later epochs up to %s: nothing is written.",
            epoch.number,
            epoch.key,
            decided.epoch,
        )
    else:
        decided = _finish(connected, options, decisions, decided, parts)
    kept = {part.transaction for part in decided.parts}
    abort(options, [part for part in parts if part.transaction not in kept])


def _end_all(connected: PipelineClients, decision: EpochDecision) -> None:
    lost = _end(connected, decision.parts)
    if lost:
        raise PipelineError(
            f"epoch {decision.epoch}: {len(lost)} of {len(decision.parts)} transactions were aborted before they "
            "could be committed. Start the query again: it repairs the epoch"
        )


def _finish(
    connected: PipelineClients,
    options: SinkOptions,
    decisions: DecisionLog,
    decided: EpochDecision,
    parts: Sequence[Part],
) -> EpochDecision:
    """Commits what an earlier run decided."""
    lost = _end(connected, decided.parts)
    if not lost:
        log.info("Epoch %s was already written: nothing is written again.", decided.epoch)
        return decided
    repaired = repair(decided, lost, {part.index: part for part in parts}, len(parts))
    log.warning("Epoch %s: %s of its transactions had timed out and are replaced.", decided.epoch, len(lost))
    again = [part for part in repaired.parts if part not in decided.parts]
    _check_open(connected, options, again)
    decisions.write(repaired)
    if _end(connected, again):
        raise PipelineError(
            f"epoch {decided.epoch}: transactions were aborted before they could be committed. Start the query "
            "again: it repairs them"
        )
    return repaired


def abort(options: SinkOptions, parts: Iterable[Part]) -> None:
    """Aborts the transactions of `parts`.  A transaction that cannot be aborted now is aborted when it times out."""
    connected = clients(options.connection)

    async def one_of(transaction: PreparedTransaction) -> None:
        try:
            await connected.admin.end_transaction(transaction, commit=False)
        except errors.TidelogError as problem:
            log.info("The transaction of %s was not aborted: %s", transaction.transactional_id, problem)

    async def every() -> None:
        await asyncio.gather(*(one_of(part.transaction) for part in parts if part.transaction is not None))

    connected.run(every())


def abort_undecided(options: SinkOptions, epoch: Epoch, parts: Sequence[Part]) -> None:
    """Aborts the undecided parts after a failure.  Decided parts stay, and are committed when the epoch runs again."""
    if not any(part.transaction is not None for part in parts):
        return
    # The decision that this process has read may be old: another process may have decided since.
    forget(options, epoch.key, epoch.run)
    decided = decisions_of(options, epoch.key, epoch.run).last
    kept = {part.transaction for part in decided.parts} if decided is not None else set()
    abort(options, [part for part in parts if part.transaction not in kept])


# Transactions


def _check_open(connected: PipelineClients, options: SinkOptions, parts: Iterable[Part]) -> None:
    """Raises an error if a transaction has already ended: a decision could not be kept."""

    async def is_open(transaction: PreparedTransaction) -> bool:
        name = transaction.transactional_id
        description = (await connected.admin.describe_transactions([name]))[name]
        mine = description.producer_id, description.producer_epoch
        return description.state == OPEN and mine == (transaction.producer_id, transaction.producer_epoch)

    async def every() -> list[bool]:
        return await asyncio.gather(
            *(is_open(part.transaction) for part in parts if part.transaction is not None)
        )

    if not all(connected.patiently(every)):
        raise PipelineError(
            f"the epoch took longer than its transactions may take ({options.transaction_timeout_ms} ms), so the brokers "
            "have aborted some: raise option transactionTimeoutMs (and the brokers' transaction.max.timeout.ms), or make "
            "batches smaller with maxRecordsPerTrigger"
        )


def _end(connected: PipelineClients, parts: Sequence[Part]) -> list[Part]:
    """Commits all parts; returns those that had been aborted before."""

    async def committed(transaction: PreparedTransaction | None) -> bool:
        if transaction is None:
            return True
        try:
            await connected.admin.end_transaction(transaction, commit=True)
            return True
        except ENDED:
            return await _was_committed(connected, transaction)

    async def every() -> list[bool]:
        return await asyncio.gather(*(committed(part.transaction) for part in parts))

    outcomes = connected.patiently(every)
    return [part for part, is_committed in zip(parts, outcomes, strict=True) if not is_committed]


async def _was_committed(connected: PipelineClients, transaction: PreparedTransaction) -> bool:
    name = transaction.transactional_id
    try:
        description = (await connected.admin.describe_transactions([name]))[name]
    except errors.TransactionalIdNotFound:
        raise PipelineError(
            f"it is unknown whether transaction {name!r} was committed: the brokers have forgotten it "
            "(transactional.id.expiration.ms). Compare the sink's topic with its source, and continue with a new "
            "checkpoint"
        ) from None
    # With transaction version 2 every end raises the producer epoch, and after the last epoch gives a new producer id.
    same = description.producer_id != transaction.producer_id or description.producer_epoch in (
        transaction.producer_epoch,
        transaction.producer_epoch + 1,
    )
    return description.state in COMMITTED and same


# Leftovers of failed attempts


def _sweep(options: SinkOptions, epoch: Epoch, decided: EpochDecision | None, attempts: bool) -> None:
    """Aborts open transactions of this sink that no driver will end: otherwise readers wait until they time out."""
    now = time.monotonic()
    run, when = _swept.get(epoch.key, ("", 0.0))
    if not attempts and run == epoch.run and now - when < SWEEP_EVERY_S:
        return
    _swept[epoch.key] = epoch.run, now
    kept = (
        {part.transaction.transactional_id for part in decided.parts if part.transaction}
        if decided
        else set()
    )
    connected = clients(options.connection)

    async def sweep() -> None:
        try:
            pattern = re.escape(epoch.sink_prefix) + ".*"
            transactions = await connected.admin.list_transactions(states=[OPEN], pattern=pattern)
        except errors.UnsupportedVersion:
            transactions = await connected.admin.list_transactions(states=[OPEN])
        for transaction in transactions:
            if (
                transaction.transactional_id.startswith(epoch.sink_prefix)
                and transaction.transactional_id not in kept
            ):
                await connected.admin.fence_producer(transaction.transactional_id)

    try:
        connected.run(sweep())
    except errors.TidelogError as problem:
        log.warning("Open transactions of sink %s could not be listed: %s", epoch.key, problem)
