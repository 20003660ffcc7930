"""The share partitions that this broker leads: loaded at their first fetch, dropped with leadership or the last session.

A partition's state is read from the share coordinator.  A group that reads a partition for the first time starts where
`share.auto.offset.reset` says; this start is persisted at once, so that a restart does not move it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from uuid import UUID

from tidelog import errors
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.config.group import BY_DURATION, GroupConfig, duration_ms
from tidelog.coordination.timers import Timers
from tidelog.groups.share.dead_letters import ShareDeadLetters
from tidelog.groups.share.group_state import UNKNOWN_START, ShareKey, ShareState, StateWrite
from tidelog.groups.share.led_partition import LedSharePartition, persister_error
from tidelog.groups.share.other_brokers import RemotePartitions
from tidelog.groups.share.partition import SharePartition
from tidelog.groups.share.persister import SharePersister
from tidelog.groups.share.sessions import SessionKey, SharePartitionId, ShareSession, ShareSessions
from tidelog.metadata.controller import Controller
from tidelog.metadata.image.changes import Update
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.storage.offset_lookup import look_up

log = logging.getLogger("tidelog.shares")

CONFIGS_MAX = 1_000


class SharePartitions:
    def __init__(
        self,
        controller: Controller,
        partitions: Partitions,
        persister: SharePersister,
        elsewhere: RemotePartitions,
        clock: Clock,
    ) -> None:
        self._controller = controller
        self._partitions = partitions
        self._persister = persister
        self.clock = clock
        self.timers = Timers(clock)
        self.sessions = ShareSessions()
        self.letters = ShareDeadLetters(controller, elsewhere, clock)
        self.draining = False
        self._led: dict[ShareKey, LedSharePartition] = {}
        self._loading: dict[ShareKey, asyncio.Task[LedSharePartition]] = {}
        self._releases: dict[asyncio.Task[None], None] = {}
        self._configs: dict[str, tuple[Mapping[str, str], BrokerConfig, GroupConfig]] = {}

    # For handlers

    @property
    def config(self) -> BrokerConfig:
        return self._controller.config()

    def group_config(self, group: str) -> GroupConfig:
        """The group's settings, cached until they or the broker's settings change: every request needs them."""
        overrides, broker = self._controller.image.group_overrides(group), self._controller.config()
        cached = self._configs.get(group)
        if cached is None or cached[0] is not overrides or cached[1] is not broker:
            if len(self._configs) >= CONFIGS_MAX:
                self._configs.clear()
            cached = self._configs[group] = (overrides, broker, GroupConfig.of(overrides, broker))
        return cached[2]

    def led(self, group: str, part: SharePartitionId) -> LedSharePartition | None:
        """The share partition, or None if it is not loaded."""
        led = self._led.get(ShareKey(group, *part))
        return led if led is not None and led.current else None

    def of_group(self, group: str) -> list[LedSharePartition]:
        """The loaded share partitions of a group."""
        return [led for key, led in self._led.items() if key.group == group and led.current]

    async def open(self, group: str, part: SharePartitionId) -> LedSharePartition:
        """The share partition; loads it if necessary."""
        key = ShareKey(group, *part)
        led = self._led.get(key)
        if led is not None:
            if led.current:
                return led
            self._drop(led)
        loading = self._loading.get(key)
        if loading is None:
            loading = asyncio.get_running_loop().create_task(self._load(key))
            self._loading[key] = loading
            loading.add_done_callback(lambda loading: self._loaded(key, loading))
        return await asyncio.shield(loading)

    def _loaded(self, key: ShareKey, loading: asyncio.Task[LedSharePartition]) -> None:
        self._loading.pop(key, None)
        if not loading.cancelled():
            loading.exception()  # marks the exception as retrieved: the waiting request may be gone

    async def _load(self, key: ShareKey) -> LedSharePartition:
        partition = self._partitions.led_here(key.topic_id.bytes, key.partition)
        epoch = int(partition.state.epoch)
        try:
            kept = await self._read_state(key, epoch, key.group in partition.log.config.queue_groups)
            state = SharePartition(kept.start, kept.batches, kept.undecided)
            state_epoch = kept.state_epoch
            log_end = partition.log.end
            if kept.start == UNKNOWN_START:
                state = SharePartition(await self._first_offset(partition, key.group))
                await self._persister.write(key, StateWrite(state_epoch, epoch, state.start, 0, ()))
            elif state.end > log_end:
                # The log has lost its end, but the state has not: new records at these offsets were never delivered.
                log.warning("%s was read up to offset %d, but its log ends at %d", key, state.end, log_end)
                rest = [batch._replace(last=min(batch.last, log_end - 1)) for batch in kept.batches]
                rest = [batch for batch in rest if batch.first <= batch.last]
                state = SharePartition(min(kept.start, log_end), rest)
                state_epoch += 1
                await self._persister.initialize(key, state_epoch, state.start)
                await self._persister.write(key, StateWrite(state_epoch, epoch, *state.outlook(), rest))
        except errors.TidelogError as problem:
            raise persister_error(problem) from problem
        state.log_started(partition.log.start)
        led = LedSharePartition(
            key,
            partition,
            state,
            state_epoch,
            self._persister,
            self.timers,
            self.clock,
            lambda: self.group_config(key.group),
        )
        led.letters = self.letters.wake
        led.routed = lambda: self.letters.routes(partition.topic, key.group) is not None
        self._led[key] = led
        led.outcomes.look()
        if state.letters():
            self.letters.wake(led)
        return led

    def transaction_decided(self, key: ShareKey) -> None:
        """The share coordinator on this broker knows the outcome."""
        led = self._led.get(key)
        if led is not None:
            led.outcomes.look()

    async def _read_state(self, key: ShareKey, leader_epoch: int, queue: bool) -> ShareState:
        """Reads the state.  A queue has none before its first use.  If it is lost, after a power cut of all its replicas,
        the group starts again where its settings say: nothing else would ever create the state again."""
        try:
            return await self._persister.read(key, leader_epoch)
        except errors.InvalidRequest as problem:
            say = log.debug if queue else log.warning
            say("%s: %s; the group starts where its share.auto.offset.reset says", key, problem)
            await self._persister.initialize(key, 0, UNKNOWN_START)
            return await self._persister.read(key, leader_epoch)

    async def _first_offset(self, partition: HostedPartition, group: str) -> int:
        config = self.group_config(group)
        reset = config.share_auto_offset_reset
        if reset == "earliest" or group in partition.log.config.queue_groups:
            return partition.log.start
        if reset.startswith(BY_DURATION):
            since = self.clock.now_ms() - duration_ms(reset[len(BY_DURATION) :])
            position = await look_up(partial(partition.log.offset_for_time, since))
            if position is not None and position.offset < partition.state.committed:
                return position.offset
        return partition.readable_end(config.share_isolation_level == "read_committed")

    # Sessions

    def attach(self, group: str) -> None:
        """A reader of this process keeps the group's share partitions loaded, until `detach`."""
        self.sessions.attached(group)

    async def detach(self, group: str, member: str) -> None:
        """Releases what the member has acquired."""
        self.sessions.detached(group)
        await self._released((group, member), self._give_back((group, member)))

    def begin_session(self, key: SessionKey, peer: str, parts: Iterable[SharePartitionId]) -> ShareSession:
        """Records of the member's earlier session are released, because the member does not know of them any more."""
        self._release_later(key)
        return self.sessions.begin(key, peer, parts, self.config.group_share_max_share_sessions)

    async def end_session(self, key: SessionKey) -> None:
        """Ends the session and releases the member's records."""
        if self.sessions.end(key) is not None:
            await self._released(key, self._give_back(key))

    def connection_ended(self, peer: str) -> None:
        """Ends the sessions of the connection's members."""
        for key in self.sessions.of_peer(peer):
            self._release_later(key)

    def _release_later(self, key: SessionKey) -> None:
        if self.sessions.end(key) is not None:
            task = asyncio.get_running_loop().create_task(self._released(key, self._give_back(key)))
            self._releases[task] = None
            task.add_done_callback(self._releases.pop)

    def _give_back(self, key: SessionKey) -> list[asyncio.Future[None]]:
        """Releases at once, so that records of the member's next session are not affected."""
        group, member = key
        return [
            wait
            for led in self._led.values()
            if led.key.group == group and led.current and (wait := led.release(member)) is not None
        ]

    async def _released(self, key: SessionKey, waits: list[asyncio.Future[None]]) -> None:
        if waits:
            await asyncio.wait(waits)
        if not self.sessions.has_group(key[0]):
            self.forget(lambda share_key: share_key.group == key[0])

    # Following metadata and leadership

    def forget(self, which: Callable[[ShareKey], bool]) -> None:
        """Drops share partitions that no session reads; the next fetch loads them again."""
        for led in [led for key, led in self._led.items() if which(key)]:
            if not (led.state.letters() or led.kept) or not led.current:
                self._drop(led)

    def reset(self, group: str, topics: Iterable[UUID]) -> None:
        """The state of these topics was replaced: the old state must not be written any more."""
        gone = frozenset(topics)
        for led in [led for key, led in self._led.items() if key.group == group and key.topic_id in gone]:
            self._drop(led)

    def apply(self, update: Update) -> None:
        for led in list(self._led.values()):
            if led.partition.topic in update.topics and not self._still(led):
                self._drop(led)
            elif update.group_configs and led.state.letters():
                self.letters.wake(led)

    def _still(self, led: LedSharePartition) -> bool:
        try:
            return led.current and self._partitions.led_here(*led.partition.name) is led.partition
        except errors.TidelogError:
            return False

    def _drop(self, led: LedSharePartition) -> None:
        if self._led.get(led.key) is led:
            del self._led[led.key]
        led.close()

    def drain(self) -> None:
        """Answers waiting fetches, because the broker is shutting down."""
        self.draining = True
        for led in self._led.values():
            for wait in tuple(led.waits):
                wait.changed()

    async def stop(self) -> None:
        self.draining = True
        self.timers.clear()
        for led in list(self._led.values()):
            await led.settled()
            self._drop(led)
        await asyncio.gather(*self._loading.values(), *self._releases, return_exceptions=True)
