"""The answering side of a service: workers that share its queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tidelog import errors
from tidelog._speed.client.consumed import Record
from tidelog.client.producer.producer import Producer
from tidelog.client.security.security import Security
from tidelog.client.share.consumer import ShareConsumer
from tidelog.rpc.envelope import reply_address
from tidelog.rpc.topics import ensure_topics

log = logging.getLogger("tidelog.client")

POLL_MS = 500


class AsyncResponder:
    """Answers the requests of a service; any number of responders share them.

        async def answer(request):
            return resize(request.value)

        await AsyncResponder("resize", answer, bootstrap_servers="127.0.0.1:9092").run()

    What `answer` returns is the value of the reply.  When it raises, the caller gets the exception's text as `CallFailed`.
    A request is acknowledged after its reply is stored: a responder that dies in between leaves it to another one, so that a
    request may be worked on twice.  At most `concurrency` requests are worked on at a time.
    """

    def __init__(
        self,
        queue: str,
        answer: Callable[[Record], Awaitable[bytes | None]],
        *,
        bootstrap_servers: str = "127.0.0.1:9092",
        concurrency: int = 16,
        security: Security | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        self._queue = queue
        self._answer = answer
        self._bootstrap_servers = bootstrap_servers
        self._concurrency = concurrency
        self._security = security
        self._stopping = asyncio.Event()
        self.ready = asyncio.Event()
        """Requests are taken from now on."""

    def stop(self) -> None:
        """`run` returns when the requests in hand are answered."""
        self._stopping.set()

    async def run(self) -> None:
        await ensure_topics(self._bootstrap_servers, self._security, self._queue)
        async with (
            Producer(bootstrap_servers=self._bootstrap_servers, security=self._security) as producer,
            ShareConsumer(
                self._queue,
                group_id=self._queue,
                bootstrap_servers=self._bootstrap_servers,
                acknowledgement_mode="explicit",
                max_poll_records=self._concurrency,
                security=self._security,
            ) as consumer,
        ):
            self.ready.set()
            while not self._stopping.is_set():
                requests = await consumer.poll(POLL_MS)
                if not requests:
                    continue
                await asyncio.gather(*(self._serve(producer, request) for request in requests))
                for request in requests:
                    consumer.acknowledge(request)
                try:
                    await consumer.commit()
                except* errors.TidelogError as problems:
                    log.warning("requests of %r may be answered again: %s", self._queue, problems.exceptions)

    async def _serve(self, producer: Producer, request: Record) -> None:
        failure: str | None = None
        value: bytes | None = None
        try:
            value = await self._answer(request)
        except Exception as problem:
            log.warning("a request of %r failed", self._queue, exc_info=problem)
            failure = str(problem) or type(problem).__name__
        address = reply_address(request.headers)
        if address is None:
            return
        try:
            sent = await producer.send(
                address.topic, value, partition=address.partition, headers=address.headers(failure)
            )
            await sent
        except errors.TidelogError as problem:
            # The caller is gone, or named what is not there; other requests go on.
            log.warning("an answer of %r is lost: %s", self._queue, problem)
