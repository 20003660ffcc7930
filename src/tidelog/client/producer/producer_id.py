"""The producer id and epoch of an idempotent producer (InitProducerId): asked for when first needed, and again when
the epochs of the id are used up."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import check
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

# Brokers check it even for producers that have no transactions.
TRANSACTION_TIMEOUT_MS = 60_000


class ProducerId(NamedTuple):
    id: int
    epoch: int


class ProducerIdentity:
    def __init__(self, cluster: Cluster, timeout_ms: int) -> None:
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._current: ProducerId | None = None
        self._asking: asyncio.Task[None] | None = None

    def other_than(self, spent: int) -> ProducerId | None:
        """The current producer id, unless it is `spent`; None: `ask` for one."""
        if self._current is not None and self._current.id == spent:
            self._current = None
        return self._current

    def ask(self) -> asyncio.Task[None]:
        """The request under way, or a new one."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask(), name="producer id")
        return self._asking

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        async def attempt() -> ProducerId:
            connection = await self._cluster.any()
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
            )
            answer = await connection.ask(request, InitProducerIdResponse)
            check(answer.error_code, "a producer id")
            return ProducerId(answer.producer_id, answer.producer_epoch)

        self._current = await self._cluster.retrying("a producer id", attempt, self._timeout_ms)
