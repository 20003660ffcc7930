"""The asking side of a service: sends requests to its queue, and gives each answer to the call that waits for it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from tidelog import errors
from tidelog._speed.client.consumed import Record
from tidelog.client.consumer.consumer import Consumer
from tidelog.client.errors import ClientClosed
from tidelog.client.producer.producer import Producer
from tidelog.client.security.security import Security
from tidelog.rpc.envelope import CallFailed, correlation_of, failure_of, request_headers
from tidelog.rpc.topics import REPLY_PARTITIONS, ensure_topics, replies_of
from tidelog.types import TopicPartition

log = logging.getLogger("tidelog.client")

POLL_MS = 1_000
AGAIN_S = 0.2
CALLS_MAX = 10_000


class AsyncCaller:
    """Calls a service, and waits for its answers.

        async with AsyncCaller("resize", bootstrap_servers="127.0.0.1:9092") as caller:
            answer = await caller.call(b"picture 7", timeout=10)
            print(answer.value)

    Calls run side by side.  Answers come to this caller alone, and end with it.
    """

    def __init__(
        self,
        queue: str,
        *,
        bootstrap_servers: str = "127.0.0.1:9092",
        security: Security | None = None,
    ) -> None:
        self._queue = queue
        self._bootstrap_servers = bootstrap_servers
        self._security = security
        self._replies = TopicPartition(replies_of(queue), secrets.randbelow(REPLY_PARTITIONS))
        self._producer = Producer(bootstrap_servers=bootstrap_servers, security=security)
        self._consumer = Consumer(bootstrap_servers=bootstrap_servers, security=security)
        self._calls: dict[str, asyncio.Future[Record]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Makes the queue and the topic of replies if they are missing; `async with` calls this."""
        await ensure_topics(self._bootstrap_servers, self._security, self._queue)
        await self._producer.start()
        await self._consumer.start()
        self._consumer.assign([self._replies])
        self._consumer.seek_to_end(self._replies)
        await self._consumer.position(self._replies)  # what comes from now on is read
        self._reading = asyncio.get_running_loop().create_task(self._read(), name="replies")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Calls that wait fail with `ClientClosed`."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_exception(ClientClosed("the caller was closed before its answer came"))
        await self._consumer.close()
        await self._producer.close()

    async def call(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        timeout: float = 30.0,
    ) -> Record:
        """The answer to this request.  Raises `CallFailed` when the responder could not answer, and `RequestTimedOut` when
        nobody answers within `timeout` seconds: then nobody begins with the request any more."""
        if self._reading is None:
            raise ClientClosed("the caller is not open: use it in `async with`")
        if len(self._calls) >= CALLS_MAX:
            raise errors.ThrottlingQuotaExceeded(f"{CALLS_MAX} calls wait for their answers: wait for some")
        correlation = secrets.token_hex(16)
        waiting = self._calls[correlation] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                named = request_headers(*self._replies, correlation, int(timeout * 1000), headers)
                sent = await self._producer.send(self._queue, value, key=key, headers=named)
                await sent
                answer: Record = await waiting
        except TimeoutError:
            raise errors.RequestTimedOut(
                f"service {self._queue!r} has not answered within {timeout} s"
            ) from None
        finally:
            del self._calls[correlation]
        failure = failure_of(answer.headers)
        if failure is not None:
            raise CallFailed(failure)
        return answer

    async def _read(self) -> None:
        while True:
            try:
                records = await self._consumer.poll(POLL_MS)
            except errors.TidelogError as problem:
                log.warning("answers of service %r cannot be read now: %s", self._queue, problem)
                await asyncio.sleep(AGAIN_S)
                continue
            for record in records:
                waiting = self._calls.get(correlation_of(record.headers) or "")
                if waiting is not None and not waiting.done():
                    waiting.set_result(record)
