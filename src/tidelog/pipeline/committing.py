"""The end of an epoch of an exactly-once sink, on the driver: the decision, then the end of every transaction.

An epoch that is run again after a crash finds its decision.  Then its parts are committed as was decided, and what was
written anew is aborted, except where the coordinator had aborted a part meanwhile because its time was up: that part
is replaced by the new one.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterable, Sequence

from tidelog import errors
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.pipeline.clients import Clients, clients
from tidelog.pipeline.decision import Decision, Epoch, Part, decide, repair
from tidelog.pipeline.decisions import Decisions, decisions_of, forget, is_open
from tidelog.pipeline.option_text import PipelineError
from tidelog.pipeline.sink_options import SinkOptions

log = logging.getLogger("tidelog.pipeline")

# It was ended otherwise: what became of it, its coordinator knows.
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
"""By sink: in which life of the query, and when."""


def commit(options: SinkOptions, epoch: Epoch, parts: Sequence[Part], *, attempts: bool, last: bool) -> None:
    """`attempts`: some task was tried more than once; `last`: the sink will not be heard of again."""
    try:
        known = is_open(options, epoch.key, epoch.run)
        decisions = decisions_of(options, epoch.key, epoch.run)
        try:
            _commit(options, decisions, epoch, parts)
        except PipelineError:
            raise
        except errors.TidelogError as problem:
            if not known:
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


def _opened_again(options: SinkOptions, epoch: Epoch, problem: errors.TidelogError) -> Decisions:
    """Spark has as many workers for commits as queries commit at a time, and whichever is free gets the next one.  So
    what this one has open may have been fenced by another of the same run, which has decided meanwhile.  A driver of
    another run is not of ours, and stays in charge."""
    forget(options, epoch.key, epoch.run)
    decisions = decisions_of(options, epoch.key, epoch.run)
    if decisions.last is None or decisions.last.run != epoch.run:
        raise problem
    return decisions


def _commit(options: SinkOptions, decisions: Decisions, epoch: Epoch, parts: Sequence[Part]) -> None:
    here, decided = clients(options.connection), decisions.last
    if decided is not None and decided == decide(epoch, parts):
        # Written just now, although it was not heard of.
        _end_all(here, decided)
        return
    if decided is None or decided.epoch < epoch.number:
        _check_open(here, options, parts)
        decision = decide(epoch, parts)
        decisions.write(decision)
        _end_all(here, decision)
        return
    if decided.epoch == epoch.number and epoch.may_be_of(decided.run):
        raise PipelineError(
            f"sink {epoch.sink!r} has been written in batch {epoch.number} already: several writes in one "
            "foreachBatch need an option sinkId of their own each"
        )
    if decided.epoch > epoch.number:
        log.warning(
            "epoch %s of sink %s was written before, and so were later ones up to %s: nothing is written",
            epoch.number,
            epoch.key,
            decided.epoch,
        )
    else:
        decided = _finish(here, options, decisions, decided, parts)
    kept = {one.transaction for one in decided.parts}
    abort(options, [one for one in parts if one.transaction not in kept])


def _end_all(here: Clients, decision: Decision) -> None:
    lost = _end(here, decision.parts)
    if lost:
        raise PipelineError(
            f"epoch {decision.epoch}: {len(lost)} of {len(decision.parts)} transactions were aborted before they "
            "could be committed. Start the query again: it repairs them"
        )


def _finish(
    here: Clients, options: SinkOptions, decisions: Decisions, decided: Decision, parts: Sequence[Part]
) -> Decision:
    """Commits what was decided in an earlier life."""
    lost = _end(here, decided.parts)
    if not lost:
        log.info("epoch %s was written before: nothing is written again", decided.epoch)
        return decided
    repaired = repair(decided, lost, {one.index: one for one in parts}, len(parts))
    log.warning(
        "epoch %s: %s of its transactions had run out of time and are replaced", decided.epoch, len(lost)
    )
    again = [one for one in repaired.parts if one not in decided.parts]
    _check_open(here, options, again)
    decisions.write(repaired)
    if _end(here, again):
        raise PipelineError(
            f"epoch {decided.epoch}: transactions were aborted before they could be committed. Start the query "
            "again: it repairs them"
        )
    return repaired


def abort(options: SinkOptions, parts: Iterable[Part]) -> None:
    """What is not to be seen.  What cannot be aborted now is aborted by its time-out."""
    here = clients(options.connection)

    async def one_of(transaction: PreparedTransaction) -> None:
        try:
            await here.admin.end_transaction(transaction, commit=False)
        except errors.TidelogError as problem:
            log.info("the transaction of %s was not aborted: %s", transaction.transactional_id, problem)

    async def every() -> None:
        await asyncio.gather(*(one_of(one.transaction) for one in parts if one.transaction is not None))

    here.run(every())


def abort_undecided(options: SinkOptions, epoch: Epoch, parts: Sequence[Part]) -> None:
    """After a failure: what was decided stays so, and is committed when the epoch is run again."""
    if not any(one.transaction is not None for one in parts):
        return
    # What this process knows may be old: another may have decided since.
    forget(options, epoch.key, epoch.run)
    decided = decisions_of(options, epoch.key, epoch.run).last
    kept = {one.transaction for one in decided.parts} if decided is not None else set()
    abort(options, [one for one in parts if one.transaction not in kept])


# Each transaction


def _check_open(here: Clients, options: SinkOptions, parts: Iterable[Part]) -> None:
    """A decision for a transaction that is over already would be a broken promise."""

    async def is_open(transaction: PreparedTransaction) -> bool:
        name = transaction.transactional_id
        found = (await here.admin.describe_transactions([name]))[name]
        mine = found.producer_id, found.producer_epoch
        return found.state == OPEN and mine == (transaction.producer_id, transaction.producer_epoch)

    async def every() -> list[bool]:
        return await asyncio.gather(
            *(is_open(one.transaction) for one in parts if one.transaction is not None)
        )

    if not all(here.patiently(every)):
        raise PipelineError(
            f"the epoch took longer than its transactions may ({options.transaction_timeout_ms} ms), so the brokers have "
            "aborted some: raise option transactionTimeoutMs (and the brokers' transaction.max.timeout.ms), or make "
            "batches smaller with maxRecordsPerTrigger"
        )


def _end(here: Clients, parts: Sequence[Part]) -> list[Part]:
    """Commits them all; those that were aborted before are returned."""

    async def committed(transaction: PreparedTransaction | None) -> bool:
        if transaction is None:
            return True
        try:
            await here.admin.end_transaction(transaction, commit=True)
            return True
        except ENDED:
            return await _was_committed(here, transaction)

    async def every() -> list[bool]:
        return await asyncio.gather(*(committed(one.transaction) for one in parts))

    outcomes = here.patiently(every)
    return [one for one, well in zip(parts, outcomes, strict=True) if not well]


async def _was_committed(here: Clients, transaction: PreparedTransaction) -> bool:
    name = transaction.transactional_id
    try:
        found = (await here.admin.describe_transactions([name]))[name]
    except errors.TransactionalIdNotFound:
        raise PipelineError(
            f"whether {name!r} was committed is not known any more: the brokers have forgotten it "
            "(transactional.id.expiration.ms). Compare the sink's topic with its source, and go on with a new "
            "checkpoint"
        ) from None
    # With the newer protocol every end brings a new epoch, and at the last epoch a new producer id.
    same = found.producer_id != transaction.producer_id or found.producer_epoch in (
        transaction.producer_epoch,
        transaction.producer_epoch + 1,
    )
    return found.state in COMMITTED and same


# What failed attempts have left


def _sweep(options: SinkOptions, epoch: Epoch, decided: Decision | None, attempts: bool) -> None:
    """Aborts open transactions of this sink that nobody will end: readers would wait for their time-out."""
    now = time.monotonic()
    run, when = _swept.get(epoch.key, ("", 0.0))
    if not attempts and run == epoch.run and now - when < SWEEP_EVERY_S:
        return
    _swept[epoch.key] = epoch.run, now
    kept = (
        {one.transaction.transactional_id for one in decided.parts if one.transaction} if decided else set()
    )
    here = clients(options.connection)

    async def sweep() -> None:
        try:
            pattern = re.escape(epoch.sink_prefix) + ".*"
            found = await here.admin.list_transactions(states=[OPEN], pattern=pattern)
        except errors.UnsupportedVersion:
            found = await here.admin.list_transactions(states=[OPEN])
        for one in found:
            if one.transactional_id.startswith(epoch.sink_prefix) and one.transactional_id not in kept:
                await here.admin.fence_producer(one.transactional_id)

    try:
        here.run(sweep())
    except errors.TidelogError as problem:
        log.warning("open transactions of %s could not be looked for: %s", epoch.key, problem)
