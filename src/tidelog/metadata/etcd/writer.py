"""Transactions on etcd that happen once, although an answer may be lost and the request sent again.

Each carries a key of its author, its *slot*: it must be as the author left it, and it is written along with the rest.
So of all copies of a request one can succeed at most, also one that a frozen member passes on much later; and whoever
asks again finds his own mark in the slot and knows that it has happened.  A slot belongs to one transaction at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from tidelog.metadata.etcd import messages as messages
from tidelog.metadata.etcd.client import EtcdClient
from tidelog.metadata.etcd.messages import TxnAnswer
from tidelog.metadata.store import Unanswered

SLOTS_MAX = 32  # transactions of one author that are under way at a time; more wait


@dataclass(slots=True)
class WriterSlot:
    key: bytes
    revision: int | None = None
    """When it was last written, as far as we know; None when we do not."""


class EtcdWriter:
    """`prefix`: where the slots of this author are.  No two that run at the same time may share it."""

    def __init__(self, client: EtcdClient, prefix: bytes) -> None:
        self._client = client
        self._idle = [WriterSlot(prefix + b"%d" % number) for number in reversed(range(SLOTS_MAX))]
        self._free = asyncio.Semaphore(SLOTS_MAX)
        self._name = uuid4().hex.encode()
        self._count = 0

    async def write(self, compare: Sequence[bytes], then: Sequence[bytes]) -> int | None:
        """The revision, or None when a comparison does not hold."""
        async with self._free:
            slot = self._idle.pop()
            try:
                return await self._write(slot, compare, then)
            except Unanswered:
                slot.revision = None
                raise
            finally:
                self._idle.append(slot)

    async def _write(self, slot: WriterSlot, compare: Sequence[bytes], then: Sequence[bytes]) -> int | None:
        mark = self._next_mark()
        if slot.revision is None:
            slot.revision = await self._look(slot)
        while True:
            answer, tries = await self._try(slot, mark, compare, then)
            if answer.succeeded:
                slot.revision = answer.revision
                return answer.revision
            found = _found(answer)
            if found.value == mark:
                slot.revision = found.revision
                return found.revision
            if found.revision == slot.revision:
                return None if tries == 1 else await self._settle(slot, mark)
            if tries > 1:
                raise Unanswered(
                    "another process writes to etcd under the name of this one: which change won?"
                )
            # Our first use of this slot: now we know when an earlier process wrote it.
            slot.revision = found.revision

    async def _look(self, slot: WriterSlot) -> int:
        answer = await self._client.call(messages.RANGE, messages.range_request(slot.key))
        entries = messages.read_range(answer.data).entries
        return entries[0].revision if entries else 0

    async def _settle(self, slot: WriterSlot, mark: bytes) -> int | None:
        """A comparison did not hold, but a copy of the request may still be on its way: it must not come later."""
        answer, _ = await self._try(slot, b"-", (), ())
        found = None if answer.succeeded else _found(answer)
        slot.revision = answer.revision if found is None else found.revision
        return found.revision if found is not None and found.value == mark else None

    async def _try(
        self, slot: WriterSlot, mark: bytes, compare: Sequence[bytes], then: Sequence[bytes]
    ) -> tuple[TxnAnswer, int]:
        assert slot.revision is not None
        request = messages.txn_request(
            [messages.compare_revision(slot.key, slot.revision), *compare],
            [messages.put_operation(slot.key, mark, 0), *then],
            [messages.range_operation(slot.key)],
        )
        answer = await self._client.call(messages.TXN, request)
        return messages.read_txn(answer.data), answer.tries

    def _next_mark(self) -> bytes:
        self._count += 1
        return b"%s-%d" % (self._name, self._count)


def _found(answer: TxnAnswer) -> messages.KeyValue:
    """The slot as it is; revision 0 when it is not there."""
    entries = answer.ranges[0].entries
    return entries[0] if entries else messages.KeyValue(b"", b"", 0, 0)
