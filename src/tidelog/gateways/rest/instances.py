"""The consumer instances of this broker: made, found by group and name, and closed when nobody asks for them any more.

They live here only: another broker knows nothing of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from tidelog.errors import TidelogError
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.surroundings import Surroundings
from tidelog.gateways.rest.instance import GONE, Instance, Options

log = logging.getLogger("tidelog.rest")

CLIENT_ID = "tidelog-rest"
LOOK_S = 0.2
EXISTS, NOT_A_SETTING = 40902, 42204


class Instances:
    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._all: dict[tuple[str, str], Instance | None] = {}
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    def new_name(self) -> str:
        return f"rest-consumer-{self._around.node_id}-{uuid4()}"

    async def create(self, group: str, options: Options) -> Instance:
        key = group, options.name
        if key in self._all:
            raise Problem(409, f"group {group!r} has a consumer instance {options.name!r} already", EXISTS)
        most = self._around.config.tidelog_rest_consumers_max
        if len(self._all) >= most:
            raise Problem(429, f"this broker has {most} consumer instances, as many as it may: delete one")
        self._all[key] = None  # the name is taken while the consumer starts
        try:
            made = await self._open(group, options)
        except BaseException:
            del self._all[key]
            raise
        if self._closed:
            await made.close()
            raise Problem(503, "this broker is stopping")
        self._all[key] = made
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="idle instances")
            self._around.closing.push_async_callback(self.close)
        return made

    async def _open(self, group: str, options: Options) -> Instance:
        consumer_class = await asyncio.to_thread(_load)
        try:
            consumer = consumer_class(
                bootstrap_servers=self._around.bootstrap,
                client_id=CLIENT_ID,
                group_id=group,
                auto_offset_reset=options.reset,
                enable_auto_commit=False,  # the instance does it: it knows what was sent
                # An instance that nobody reads is no member any more when it is closed.
                max_poll_interval_ms=self._around.config.tidelog_rest_consumer_instance_timeout_ms,
                fetch_max_bytes=8 << 20,
            )
        except ValueError as problem:
            raise Problem(422, f"{problem}", NOT_A_SETTING) from None
        await consumer.start()
        return Instance(group, options, consumer, self._around.clock)

    @contextmanager
    def using(self, group: str, name: str) -> Iterator[Instance]:
        """Not idle inside."""
        found = self._all.get((group, name))
        if found is None:
            raise Problem(
                404,
                f"there is no consumer instance {name!r} of group {group!r} in this broker: "
                "it was deleted, was idle for too long, or lives in another broker (see its base_uri)",
                GONE,
            )
        found.asked += 1
        try:
            yield found
        finally:
            found.asked -= 1
            found.used_ms = self._around.clock.monotonic_ms()

    async def delete(self, group: str, name: str) -> None:
        with self.using(group, name) as found:
            self._all.pop((group, name), None)
            await found.close()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            limit_ms = self._around.config.tidelog_rest_consumer_instance_timeout_ms
            now_ms = self._around.clock.monotonic_ms()
            for (group, name), one in list(self._all.items()):
                if one is not None and not one.asked and now_ms - one.used_ms >= limit_ms:
                    log.info("consumer instance %s of group %r was idle for %d ms", name, group, limit_ms)
                    try:
                        await self.delete(group, name)
                    except (TidelogError, Problem) as problem:
                        log.warning("consumer instance %s of group %r: %s", name, group, problem)

    async def close(self) -> None:
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        there = [one for one in self._all.values() if one is not None]
        self._all.clear()
        await asyncio.gather(*(one.close() for one in there), return_exceptions=True)


def _load():  # type: ignore[no-untyped-def]
    from tidelog.client.consumer.consumer import Consumer

    return Consumer
