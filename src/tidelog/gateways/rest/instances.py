"""The consumer instances of this broker: created, instance by group and name, and closed after their idle time.

An instance belongs to one broker; the others do not know it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4
from weakref import WeakKeyDictionary

from tidelog.errors import TidelogError
from tidelog.gateways.http import identity
from tidelog.gateways.http.identity import as_broker
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.rest.instance import GONE, ConsumerInstance, Options
from tidelog.net.on_behalf import BROKER

log = logging.getLogger("tidelog.rest")

CLIENT_ID = "tidelog-rest"
LOOK_S = 0.2
EXISTS, NOT_A_SETTING = 40902, 42204


class Instances:
    def __init__(self, around: GatewayServices) -> None:
        self._around = around
        self._all: dict[tuple[str, str], ConsumerInstance | None] = {}
        self._owners: WeakKeyDictionary[ConsumerInstance, str | None] = WeakKeyDictionary()
        """The principals that made them; nobody else may use them."""
        self._closing_idle: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    def new_name(self) -> str:
        return f"rest-consumer-{self._around.node_id}-{uuid4()}"

    async def create(self, group: str, options: Options) -> ConsumerInstance:
        key = group, options.name
        if key in self._all:
            raise Problem(
                409, f"consumer instance {options.name!r} of group {group!r} already exists", EXISTS
            )
        most = self._around.config.tidelog_rest_consumers_max
        if len(self._all) >= most:
            raise Problem(429, f"this broker already has {most} consumer instances, the maximum: delete one")
        self._all[key] = None  # reserves the name while the consumer starts
        try:
            made = await self._open(group, options)
        except BaseException:
            del self._all[key]
            raise
        if self._closed:
            await made.close()
            raise Problem(503, "the broker is stopping")
        self._all[key] = made
        if self._closing_idle is None:
            self._closing_idle = asyncio.get_running_loop().create_task(
                self._close_idle(), name="idle instances", context=as_broker()
            )
            self._around.closing.push_async_callback(self.close)
        return made

    async def _open(self, group: str, options: Options) -> ConsumerInstance:
        consumer_class = await asyncio.to_thread(_load)
        try:
            consumer = consumer_class(
                **self._around.clients.options(),
                client_id=CLIENT_ID,
                group_id=group,
                auto_offset_reset=options.reset,
                enable_auto_commit=False,  # the instance commits: it knows which records were answered
                # An instance that nobody reads leaves the group when it is closed, not before.
                max_poll_interval_ms=self._around.config.tidelog_rest_consumer_instance_timeout_ms,
                fetch_max_bytes=8 << 20,
            )
        except ValueError as problem:
            raise Problem(422, f"{problem}", NOT_A_SETTING) from None
        await consumer.start()
        instance = ConsumerInstance(group, options, consumer, self._around.clock)
        self._owners[instance] = _user()
        return instance

    @contextmanager
    def using(self, group: str, name: str) -> Iterator[ConsumerInstance]:
        """The instance, which does not count as idle inside the `with` block."""
        instance = self._all.get((group, name))
        if instance is None or _user() not in (self._owners[instance], BROKER):
            raise Problem(
                404,
                f"consumer instance {name!r} of group {group!r} does not exist on this broker: "
                "it was deleted, was idle for too long, or belongs to another broker (see its base_uri)",
                GONE,
            )
        instance.requests += 1
        try:
            yield instance
        finally:
            instance.requests -= 1
            instance.used_ms = self._around.clock.monotonic_ms()

    async def delete(self, group: str, name: str) -> None:
        with self.using(group, name) as instance:
            self._all.pop((group, name), None)
            await instance.close()

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            limit_ms = self._around.config.tidelog_rest_consumer_instance_timeout_ms
            now_ms = self._around.clock.monotonic_ms()
            for (group, name), instance in list(self._all.items()):
                if instance is not None and not instance.requests and now_ms - instance.used_ms >= limit_ms:
                    log.info("consumer instance %s of group %r was idle for %d ms", name, group, limit_ms)
                    try:
                        await self.delete(group, name)
                    except (TidelogError, Problem) as problem:
                        log.warning("consumer instance %s of group %r: %s", name, group, problem)

    async def close(self) -> None:
        self._closed = True
        if self._closing_idle is not None:
            self._closing_idle.cancel()
            await asyncio.gather(self._closing_idle, return_exceptions=True)
        instances = [instance for instance in self._all.values() if instance is not None]
        self._all.clear()
        await asyncio.gather(*(instance.close() for instance in instances), return_exceptions=True)


def _user() -> str | None:
    """None where nobody logs in."""
    behalf = identity.behalf()
    return None if behalf is None else behalf.principal


def _load():  # type: ignore[no-untyped-def]
    from tidelog.client.consumer.consumer import Consumer

    return Consumer
