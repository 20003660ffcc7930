"""Keeps the queues that this broker leads: loaded, within their bounds, and free of expired records, also while nobody
reads them.

A queue is a share partition of a group that `queue.groups` of its topic names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from tidelog import errors
from tidelog.groups.share.expiry import expiry_of
from tidelog.groups.share.group_state import ShareKey
from tidelog.groups.share.led_partition import LedSharePartition
from tidelog.groups.share.log_window import window
from tidelog.groups.share.partitions import SharePartitions
from tidelog.groups.share.queue_limits import admit, trim
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.changes import Update
from tidelog.replication.delayed_fetch import FetchWait
from tidelog.replication.partitions import Partitions
from tidelog.storage.fetched_log import fetch_bytes

log = logging.getLogger("tidelog.shares")

LOOK_BYTES = 256 << 10
LOOK_MS_MIN = 100  # between two looks at a queue that changes all the time
RETRY_MS = 1_000


class QueueKeepers:
    def __init__(self, controller: Controller, partitions: Partitions, shares: SharePartitions) -> None:
        self._controller = controller
        self._partitions = partitions
        self._shares = shares
        self._keeping: dict[ShareKey, asyncio.Task[None]] = {}
        self._stopping = False

    def start(self) -> None:
        for name in list(self._controller.newest.topics):
            self._look_at(name)

    def apply(self, update: Update) -> None:
        for name in dict.fromkeys((*update.topics, *update.topic_configs)):
            self._look_at(name)

    def _look_at(self, name: str) -> None:
        topic = self._controller.newest.topics.get(name)
        groups = self._controller.topic_config(name).queue_groups if topic is not None else ()
        if topic is None or not groups:
            return
        for partition in topic.partitions:
            for group in groups:
                key = ShareKey(group, topic.id, partition.index)
                if (
                    key not in self._keeping
                    and partition.leader == self._partitions.node
                    and not self._stopping
                ):
                    task = asyncio.get_running_loop().create_task(self._keep(key, name))
                    self._keeping[key] = task
                    task.add_done_callback(partial(self._ended, key))

    def _ended(self, key: ShareKey, task: asyncio.Task[None]) -> None:
        self._keeping.pop(key, None)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("%s: the queue is not kept any more", key, exc_info=problem)

    def _wanted(self, key: ShareKey, name: str) -> bool:
        topic = self._controller.newest.topics.get(name)
        if topic is None or topic.id != key.topic_id:
            return False
        leads = topic.partitions[key.partition].leader == self._partitions.node
        return leads and key.group in self._controller.topic_config(name).queue_groups

    async def _keep(self, key: ShareKey, name: str) -> None:
        while self._wanted(key, name):
            try:
                led = await self._shares.open(key.group, (key.topic_id, key.partition))
            except errors.TidelogError as problem:
                log.debug("%s: cannot be loaded now: %s", key, problem)
                await asyncio.sleep(RETRY_MS / 1000)
                continue
            led.kept = True
            led.partition.admissions[key.group] = partial(admit, led)
            try:
                await _QueueKeeper(led, self._shares, lambda: self._wanted(key, name)).run()
            finally:
                led.kept = False
                led.partition.admissions.pop(key.group, None)

    async def stop(self) -> None:
        self._stopping = True
        tasks = list(self._keeping.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _QueueKeeper:
    def __init__(self, led: LedSharePartition, shares: SharePartitions, wanted: Callable[[], bool]) -> None:
        self._led = led
        self._shares = shares
        self._now_ms = shares.clock.now_ms
        self._wanted = wanted

    async def run(self) -> None:
        led = self._led
        while led.current and self._wanted():
            wait = FetchWait(1)
            led.waits[wait] = None
            led.partition.fetch_waits[wait] = None
            try:
                trim(led)
                next_ms = await self._expire()
                timeout_s = None if next_ms is None else max(next_ms - self._now_ms(), 0) / 1000
                await asyncio.wait([wait.future], timeout=timeout_s)
            except errors.TidelogError as problem:
                log.warning("%s: cannot be read now: %s", led.key, problem)
                await asyncio.sleep(RETRY_MS / 1000)
            finally:
                led.waits.pop(wait, None)
                led.partition.fetch_waits.pop(wait, None)
            trim(led)
            self._delete_consumed()
            if wait.future.done():
                await asyncio.sleep(LOOK_MS_MIN / 1000)

    def _delete_consumed(self) -> None:
        """What all groups of the queue have finished is gone for every reader."""
        partition, key = self._led.partition, self._led.key
        config = partition.log.config
        if not config.queue_delete_consumed or not self._led.current:
            return
        leds = [self._shares.led(group, (key.topic_id, key.partition)) for group in config.queue_groups]
        starts = [led.state.start for led in leds if led is not None]
        if len(starts) == len(leds):
            start = min(*starts, partition.state.committed) if starts else 0
            if start > partition.log.start:
                partition.delete_records(start)

    async def _expire(self) -> int | None:
        """Gives up the expired records at the head; returns when the next one expires."""
        led = self._led
        while led.current:
            led.state.log_started(led.partition.log.start)
            offset, bound = led.state.next_offset(), led.partition.readable_end(False)
            terms = led.terms()
            if offset >= bound or not led.state.has_room(terms):
                return None
            data = await fetch_bytes(led.partition.log, offset, LOOK_BYTES, bound)
            if data is None:
                return None
            expiry = expiry_of(led.partition.log.config, self._now_ms(), by_key=False)
            assert expiry is not None  # of a queue there always is one
            spans = window(data, offset, (), expiry).spans
            alive = next(
                (at for at, span in enumerate(spans) if not (span.expired or span.empty or span.delayed)),
                len(spans),
            )
            change = led.state.expire(spans[:alive], terms)
            if change.batches:
                await led.apply(change)
            if alive < len(spans) or not change.batches:
                return expiry.next_ms
        return None
