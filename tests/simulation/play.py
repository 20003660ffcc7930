"""One simulated run: rounds of clients at work and trouble, each ended by a stop or a crash, then a check of everything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from tests.simulation import invariants
from tests.simulation.producers import Producer
from tests.simulation.readers import follow, read_all
from tests.simulation.trouble import End, troubles
from tests.simulation.world import World
from tidelog.errors import NONE, TidelogError, TopicAlreadyExists, UnknownTopicOrPartition
from tidelog.testing import Crashed, run

OPERATIONS_MAX = 150
WORK_MS_MAX = 1_500
RESTART_CRASHES_MAX = 4
HEALTHY_S_MAX = 60
INSIST_MAX = 20

# Small indexes fill up, so that segments roll; nothing ages out.
ROLLING = {
    "segment.index.bytes": "120",
    "index.interval.bytes": "300",
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": str(1 << 62),
}
COMPACTED = {**ROLLING, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
TOPICS = {
    "synced": {**ROLLING, "flush.messages": "1"},
    "cached": ROLLING,
    "sometimes": {**ROLLING, "flush.messages": "7", "flush.ms": "300"},
    "compacted": COMPACTED,
    "compacted-synced": {**COMPACTED, "flush.messages": "1"},
}


@dataclass(frozen=True, slots=True)
class Profile:
    """What a run is made of."""

    rounds: int = 3
    ends: tuple[End, ...] = tuple(End)
    topics: tuple[str, ...] = ("cached", "sometimes", "compacted", "compacted-synced")
    """One of these, beside "synced"."""
    pause_chance: float = 0.2
    recreate_chance: float = 0.15


class Play:
    def __init__(self, random: Random, profile: Profile) -> None:
        self.random = random
        self.profile = profile
        folders = random.choice(("/data", "/data", "/data,/more"))
        self.world = World(random, {"log.dirs": folders, "log.cleaner.backoff.ms": "300"})
        self.producers: list[Producer] = []

    async def run(self) -> None:
        await self.world.start()
        for topic in ("synced", self.random.choice(self.profile.topics)):
            await self.world.create_topic(topic, self.random.choice((1, 1, 2)), TOPICS[topic])
        self._hire()
        for _ in range(self.profile.rounds):
            if self.random.random() < self.profile.recreate_chance:
                await self._recreate(self.random.choice([name.topic for name in self.world.partitions]))
            await self.round(self.random.choice(self.profile.ends))
        await self._healthy()
        await self.round(End.STOP)
        await self.world.stop()

    def _hire(self) -> None:
        for history in self.world.partitions.values():
            for _ in range(self.random.choice((1, 1, 2))):
                producer = Producer(
                    self.world,
                    Random(self.random.getrandbits(64)),
                    len(self.producers),
                    history,
                    idempotent=self.random.random() < 0.6,
                    acks=self.random.choice((1, -1)),
                )
                if producer.idempotent:
                    producer.acks = -1
                self.producers.append(producer)

    async def round(self, end: End) -> None:
        await self._work(end)
        await self._end(end)
        await self.check()

    async def _work(self, end: End) -> None:
        """Clients at work, now and then a long pause, until it is time or the machine is down."""
        world, random = self.world, self.random
        if end in (End.KILL_IN_WRITE, End.POWER_IN_WRITE):
            world.machine.crash_after(random.randrange(1, OPERATIONS_MAX), end.power)
        if random.random() < self.profile.pause_chance:
            await self._traffic()
            await asyncio.sleep(random.choice((5, 70, 400)))  # housekeeping has its time
        down = {End.KILL: world.kill, End.POWER: world.lose_power}.get(end, lambda: None)
        struck = asyncio.get_running_loop().call_later(random.random() * WORK_MS_MAX / 1000, down)
        await self._traffic()
        struck.cancel()
        if end is not End.STOP:
            world.lose_power() if end.power else world.kill()

    async def _traffic(self) -> None:
        world, random = self.world, self.random
        tasks = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        for history in world.partitions.values():
            tasks.append(asyncio.ensure_future(follow(world, Random(random.getrandbits(64)), history)))
        tasks.append(asyncio.ensure_future(troubles(world, Random(random.getrandbits(64)))))
        deadline = world.clock.monotonic_ms() + random.randint(50, WORK_MS_MAX)
        while world.clock.monotonic_ms() < deadline and not world.machine.is_down:
            await asyncio.sleep(0.02)
            raise_first(tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise_first(tasks)

    async def _healthy(self) -> None:
        """With all trouble over, everybody gets on."""
        before = [producer.answers for producer in self.producers]
        tasks = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        try:
            async with asyncio.timeout(HEALTHY_S_MAX):
                while any(now.answers == then for now, then in zip(self.producers, before, strict=True)):
                    await asyncio.sleep(0.05)
                    raise_first(tasks)
        except TimeoutError:
            stuck = [p for p, then in zip(self.producers, before, strict=True) if p.answers == then]
            raise invariants.Violated([("Progress", f"no answer any more for {p}") for p in stuck]) from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self, end: End) -> None:
        """Down, and up again: which may take several attempts."""
        world = self.world
        world.network.heal()
        world.machine.disk.heal()
        world.machine.disk.run_delay_s_max = 0.001
        if end is End.STOP:
            await world.stop()
            world.kill()  # what is left of the process
        await self._restart(end.power)

    async def _restart(self, power: bool) -> None:
        world, random = self.world, self.random
        world.went_down(power)
        for attempt in range(RESTART_CRASHES_MAX + 1):
            world.machine.restart()
            power = random.random() < 0.5
            if attempt < RESTART_CRASHES_MAX and random.random() < 0.3:
                world.machine.crash_after(random.randrange(1, 100), power)
            try:
                await world.start()
                world.machine.disk.heal()
                return
            except Crashed:
                world.went_down(power)
            except Exception as problem:
                raise invariants.Violated([("Restarts", repr(problem))]) from problem

    async def _recreate(self, topic: str) -> None:
        """Deletes a topic and makes it again, through crashes, until both is done."""
        world, random = self.world, self.random
        partitions = [name for name in world.partitions if name.topic == topic]
        power = random.random() < 0.5
        world.machine.crash_after(random.randrange(1, 60), power)
        gone, there = {NONE, UnknownTopicOrPartition.code}, {NONE, TopicAlreadyExists.code}
        await self._insist(lambda: world.ask_to_delete(topic), gone, power)
        await self._insist(lambda: world.ask_to_create(topic, len(partitions), TOPICS[topic]), there, power)
        if world.machine.is_down:
            await self._restart(power)
        world.machine.disk.heal()
        for name in partitions:
            world.partitions[name] = world.partitions[name].recreated()
        for producer in self.producers:
            if producer.history.name in partitions:
                producer.begin_anew(world.partitions[producer.history.name])

    async def _insist(self, ask: Callable[[], Awaitable[int]], wanted: set[int], power: bool) -> None:
        for _ in range(INSIST_MAX):
            try:
                if await ask() in wanted:
                    return
            except (OSError, TidelogError):
                pass
            if self.world.machine.is_down:
                await self._restart(power)
        raise invariants.Violated([("Progress", "a topic could not be deleted or created")])

    async def check(self) -> None:
        problems: list[tuple[str, str]] = []
        for name, history in self.world.partitions.items():
            found = await read_all(self.world, self.random, name, holes=history.compacted)
            problems += invariants.check(history, found)
            for offset, value in found.records:
                history.was_shown(offset, value, history.power_losses)
            history.end_was_told(found.end, history.power_losses)
        if problems:
            raise invariants.Violated(problems)


def raise_first(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception() is not None:
            raise task.exception()  # type: ignore[misc]


async def played(random: Random, profile: Profile) -> Play:
    play = Play(random, profile)
    await play.run()
    return play


def play(seed: int, profile: Profile = Profile()) -> Play:  # noqa: B008 - immutable
    return run(lambda random: played(random, profile), seed)
