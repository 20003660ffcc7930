"""The acknowledgements of one led share partition that joined transactions: writes them to the share coordinator, and asks
it for their outcome.

The share coordinator gets the transactions' markers.  It tells partitions that the same broker leads at once; others ask,
at first soon and then less often, as long as anything is undecided."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog import errors
from tidelog.groups.share.group_state import UNCHANGED, StateWrite, TransactionMember
from tidelog.groups.share.in_flight import JoinedAcknowledgement, StateBatch
from tidelog.groups.share.joined_acknowledgements import KnownOutcomes, joined

if TYPE_CHECKING:
    from tidelog.groups.share.led_partition import LedSharePartition

log = logging.getLogger("tidelog.shares")

ASK_MS = 50
ASK_MS_MAX = 1000


class OutcomeWatch:
    def __init__(self, led: LedSharePartition) -> None:
        self._led = led
        self._asking: asyncio.Task[None] | None = None
        self._again = False
        self._pause_ms = ASK_MS

    def join(
        self,
        batches: Sequence[StateBatch],
        acknowledgement: JoinedAcknowledgement,
        transaction: TransactionMember,
    ) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_task(self._join(batches, acknowledgement, transaction))

    async def _join(
        self,
        batches: Sequence[StateBatch],
        acknowledgement: JoinedAcknowledgement,
        transaction: TransactionMember,
    ) -> None:
        """If the write fails, or nobody knows whether it did, the producer is told to abort, and the records come again
        when the share coordinator does not have it."""
        led = self._led
        update = StateWrite(led.state_epoch, led.leader_epoch, UNCHANGED, 0, batches)
        try:
            await led.persister.join(led.key, update, transaction)
        except errors.TidelogError as problem:
            error = led.write_failed(problem)
            raise error from problem
        finally:
            acknowledgement.written = True
            self._pause_ms = ASK_MS
            self._ask_later()

    def look(self) -> None:
        """A transaction may have been decided."""
        if self._asking is not None:
            self._again = True
        elif joined(self._led.state.runs) and not self._led.closed:
            self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        try:
            await self._settle()
        except errors.TidelogError as problem:
            log.info("%s: the outcome of transactions is not known yet: %s", self._led.key, problem)
        finally:
            self._asking = None
        if self._again:
            self._again = False
            self.look()
        else:
            self._pause_ms = min(2 * self._pause_ms, ASK_MS_MAX)
            self._ask_later()

    async def _settle(self) -> None:
        led = self._led
        acknowledgements = joined(led.state.runs)
        state = await led.persister.read(led.key, led.leader_epoch)
        if led.closed or state.state_epoch != led.state_epoch:
            return
        led.decide(KnownOutcomes(acknowledgements, state.start, state.batches, state.undecided))

    def _ask_later(self) -> None:
        led = self._led
        if led.closed or not joined(led.state.runs):
            self._pause_ms = ASK_MS
            return
        led.timers.set((led.key, "outcome"), self._pause_ms, self.look)

    def close(self) -> None:
        self._led.timers.cancel((self._led.key, "outcome"))
        if self._asking is not None:
            self._asking.cancel()
