"""Transactions on etcd that happen exactly once, although an answer may be lost and the request sent again.

Each transaction compares and writes a key of its writer, the *slot*: the slot must have the revision that the writer last
saw.  So at most one of all copies of a request can succeed, even a copy that a frozen member passes on much later; and a
writer that sends a request again finds its own mark in the slot and knows that the transaction has happened.  A slot
belongs to one transaction at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from tidelog.metadata.etcd import messages as messages
from tidelog.metadata.etcd.client import EtcdClient
from tidelog.metadata.etcd.messages import TxnAnswer
from tidelog.metadata.store import Unanswered

SLOTS_MAX = 32  # transactions of one writer in progress at a time; further ones wait


@dataclass(slots=True)
class WriterSlot:
    key: bytes
    revision: int | None = None
    """The revision that last wrote the slot; None if the writer does not know it."""


class EtcdWriter:
    """`prefix`: of the keys of this writer's slots.  Two running writers must not share a prefix."""

    def __init__(self, client: EtcdClient, prefix: bytes) -> None:
        self._client = client
        self._idle = [WriterSlot(prefix + b"%d" % number) for number in reversed(range(SLOTS_MAX))]
        self._free = asyncio.Semaphore(SLOTS_MAX)
        self._name = uuid4().hex.encode()
        self._count = 0

    async def write(self, compare: Sequence[bytes], then: Sequence[bytes]) -> int | None:
        """The revision, or None if a comparison does not hold."""
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
            slot.revision = await self._read(slot)
        while True:
            answer, tries = await self._try(slot, mark, compare, then)
            if answer.succeeded:
                slot.revision = answer.revision
                return answer.revision
            current = _slot_in(answer)
            if current.value == mark:
                slot.revision = current.revision
                return current.revision
            if current.revision == slot.revision:
                return None if tries == 1 else await self._settle(slot, mark)
            if tries > 1:
                raise Unanswered(
                    "Another process writes to etcd under the name of this one: the outcome of the change is unknown."
                )
            # The first use of this slot in this process: the answer tells when an earlier process wrote the slot.
            slot.revision = current.revision

    async def _read(self, slot: WriterSlot) -> int:
        answer = await self._client.call(messages.RANGE, messages.range_request(slot.key))
        entries = messages.read_range(answer.data).entries
        return entries[0].revision if entries else 0

    async def _settle(self, slot: WriterSlot, mark: bytes) -> int | None:
        """A comparison did not hold, but a copy of the request may still be on its way: writes the slot, so that the copy
        cannot succeed later."""
        answer, _ = await self._try(slot, b"-", (), ())
        current = None if answer.succeeded else _slot_in(answer)
        slot.revision = answer.revision if current is None else current.revision
        return current.revision if current is not None and current.value == mark else None

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


def _slot_in(answer: TxnAnswer) -> messages.KeyValue:
    """The slot as etcd has it; revision 0 if it does not exist."""
    entries = answer.ranges[0].entries
    return entries[0] if entries else messages.KeyValue(b"", b"", 0, 0)
