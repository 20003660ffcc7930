"""One watch on etcd that yields revision after revision, whichever member serves it.

If a stream ends, falls silent or is refused because there is no leader, the watch opens a new stream after the last
revision it yielded, on the client's next endpoint.  Requests for progress detect silence.  The watch does not read ahead
of its reader, so that a slow reader costs no memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import groupby
from typing import Any

import grpc
import grpc.aio

from tidelog.metadata.etcd import messages as messages
from tidelog.metadata.etcd.client import TRY_MS, EtcdAttempt, EtcdClient, EtcdLink, EtcdLost, EtcdRefused
from tidelog.metadata.etcd.messages import Event, Header, WatchAnswer
from tidelog.metadata.store import Compacted, RolledBack, Unanswered

SILENCE_MS = 1_000
DENIED_MAX = 2


class WatchEnded(Exception):
    """The client is closed."""


async def watch(
    client: EtcdClient, key: bytes, end: bytes, from_revision: int
) -> AsyncGenerator[list[Event], None]:
    """Yields the events of one revision at a time, without end; Compacted if etcd no longer has the next revision,
    RolledBack if etcd no longer has a revision that it had sent."""
    following = from_revision
    history = _History(client, key)
    attempt = EtcdAttempt(client, None)
    denied = 0
    while not client.closing.done():
        link = client.link()
        stream = None
        try:
            stream = await EtcdWatchStream.open(client, link, messages.watch_request(key, end, following))
            history.unchecked = True
            while True:
                answer = await stream.next()
                if answer.compacted:
                    raise Compacted(
                        f"etcd has no changes before revision {answer.compacted}, and the watch asks for {following}."
                    )
                if answer.canceled:
                    # etcd denies an expired token in the same way as a user without permission for these keys.
                    denied += 1
                    if denied > DENIED_MAX:
                        raise EtcdRefused(answer.reason or "the watch was cancelled")
                    client.forget_token()
                    raise EtcdLost(answer.reason)
                await history.check(answer.header, following - 1)
                attempt, denied = EtcdAttempt(client, None), 0
                for revision, events in groupby(answer.events, lambda event: event.revision):
                    following = revision + 1
                    of_revision = list(events)
                    history.yielded(of_revision)
                    yield of_revision
        except WatchEnded:
            return
        except (grpc.aio.AioRpcError, EtcdLost) as problem:
            await attempt.failed(link, problem)
        finally:
            if stream is not None:
                stream.close()


class _History:
    """What the watch has received, to notice that etcd was restored from a backup: etcd is then another cluster, or at an
    older revision, or has another value at a known revision."""

    def __init__(self, client: EtcdClient, key: bytes) -> None:
        self._client = client
        self._key = key
        self._cluster_id = 0
        self._last_put: Event | None = None
        self.unchecked = True
        """A new stream was opened: another member, or a restored one, may answer there."""

    def yielded(self, events: list[Event]) -> None:
        for event in events:
            if event.value is not None:
                self._last_put = event

    async def check(self, header: Header, revision: int) -> None:
        """`revision`: the last known revision.  RolledBack if etcd no longer has it."""
        self._cluster_id = self._cluster_id or header.cluster_id
        if header.cluster_id != self._cluster_id or header.revision < revision:
            # A member may be behind the others for a moment: a linearizable read asks the leader.
            answer = await self._ask(messages.range_request(self._key))
            newest = messages.read_header_of(answer)
            if newest.cluster_id != self._cluster_id or newest.revision < revision:
                raise _restored(
                    f"is at revision {newest.revision} and was at {revision}, or is another cluster"
                )
        if self.unchecked and self._last_put is not None:
            await self._check_last_put(self._last_put)
        self.unchecked = False

    async def _check_last_put(self, put: Event) -> None:
        try:
            answer = await self._ask(messages.range_request(put.key, revision=put.revision))
        except EtcdRefused:
            return  # a compacted revision cannot be compared
        entries = messages.read_range(answer).entries
        if not entries or (entries[0].revision, entries[0].value) != (put.revision, put.value):
            raise _restored(f"has another value at revision {put.revision} than it sent before")

    async def _ask(self, request: bytes) -> bytes:
        try:
            return (await self._client.call(messages.RANGE, request)).data
        except Unanswered as problem:
            raise EtcdLost(str(problem)) from None


def _restored(symptom: str) -> RolledBack:
    return RolledBack(
        f"etcd {symptom}: it was restored from a backup.  Restart this broker: it will compare its logs with the metadata."
    )


class EtcdWatchStream:
    def __init__(self, client: EtcdClient, link: EtcdLink, call: Any) -> None:
        self._client = client
        self._link = link
        self._call = call
        self._reading: asyncio.Future[Any] | None = None

    @staticmethod
    async def open(client: EtcdClient, link: EtcdLink, request: bytes) -> EtcdWatchStream:
        metadata = await client.metadata(link)
        stream = EtcdWatchStream(client, link, link.channel.stream_stream(messages.WATCH)(metadata=metadata))
        try:
            await stream._write(request)
        except BaseException:
            stream.close()
            raise
        return stream

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._call.cancel()

    async def next(self) -> WatchAnswer:
        """The next answer; EtcdLost if the member is silent even after a request for progress."""
        self._reading = reading = asyncio.ensure_future(self._call.read())
        if not await self._wait(reading, SILENCE_MS):
            await self._write(messages.PROGRESS_REQUEST)
            if not await self._wait(reading, TRY_MS):
                raise EtcdLost(f"{self._link.endpoint} is silent")
        answer = _result(reading)
        if answer is grpc.aio.EOF:
            raise EtcdLost(f"{await self._call.code()}: {await self._call.details()}")
        return messages.read_watch(answer)

    async def _wait(self, work: asyncio.Future[Any], timeout_ms: int) -> bool:
        done, _ = await asyncio.wait(
            [work, self._link.left, self._client.closing],
            timeout=timeout_ms / 1000,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self._client.closing in done:
            raise WatchEnded
        if work not in done and self._link.left in done:
            raise EtcdLost(f"{self._link.endpoint} was left")
        return work in done

    async def _write(self, request: bytes) -> None:
        writing = asyncio.ensure_future(self._call.write(request))
        try:
            if not await self._wait(writing, TRY_MS):
                raise EtcdLost(f"{self._link.endpoint} does not take a request")
            _result(writing)
        finally:
            writing.cancel()


def _result(done: asyncio.Future[Any]) -> Any:
    """The result of a read or write; a stream that ends cancels it, which is not a cancellation of the calling task."""
    if done.cancelled():
        raise EtcdLost("the stream has ended")
    try:
        return done.result()
    except asyncio.InvalidStateError:
        raise EtcdLost("the stream has ended already") from None
