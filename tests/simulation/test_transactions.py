"""Transactions through crashes: nothing aborted is read, nothing committed is lost, and what is stable stays so."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.simulation import transaction_invariants
from tests.simulation.invariants import Violated
from tests.simulation.transactional import (
    PROGRESS_S_MAX,
    CommittedReader,
    OneBroker,
    Refused,
    TransactionalProducer,
)
from tests.simulation.trouble import (
    End,
    clock_jumps,
    connections_reset,
    disk_is_full,
    disk_is_slow,
    line_is_cut,
)
from tests.simulation.world import World
from tidelog import errors
from tidelog.replication.partition import Partition
from tidelog.storage.producers import Producers
from tidelog.storage.segments.txn_index import TxnIndex
from tidelog.testing import Crashed, run, seeds
from tidelog.transactions.coordinator import TransactionCoordinator
from tidelog.types import TopicPartition
from tidelog.wire.messages.produce import ProduceResponse

pytestmark = pytest.mark.simulated

ROUNDS = 3
OPERATIONS_MAX = 400
SETTINGS = {
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.cleaner.backoff.ms": "300",
}
SYNCED = {"log.flush.interval.messages": "1"}
ROLLING = {
    "segment.index.bytes": "120",
    "index.interval.bytes": "300",
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": str(1 << 62),
}
TROUBLES = (connections_reset, clock_jumps, disk_is_full, disk_is_slow, line_is_cut)


class Play:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.synced = random.random() < 0.5
        self.world = World(random, SETTINGS | (SYNCED if self.synced else {}))
        # Only what syncs before it answers promises anything about a power loss.
        self.brokers = OneBroker(self.world)
        self.ends = tuple(End) if self.synced else (End.STOP, End.KILL, End.KILL_IN_WRITE)

    async def run(self) -> None:
        world, random = self.world, self.random
        await world.start()
        await world.create_topic("data", 2, ROLLING)
        names = [TopicPartition("data", 0), TopicPartition("data", 1)]
        self.producers = [
            TransactionalProducer(
                self.brokers, Random(random.getrandbits(64)), number, names, random.random() < 0.6
            )
            for number in range(random.choice((1, 2, 3)))
        ]
        self.readers = [CommittedReader(name) for name in names]
        for _ in range(ROUNDS):
            await self._round(random.choice(self.ends))
        await self._settle()

    async def _round(self, end: End) -> None:
        world, random = self.world, self.random
        if end in (End.KILL_IN_WRITE, End.POWER_IN_WRITE):
            world.machine.crash_after(random.randrange(1, OPERATIONS_MAX), end.power)
        await self._traffic(random.uniform(0.1, 3))
        world.network.heal()
        world.machine.disk.heal()
        world.machine.disk.run_delay_s_max = 0.001
        if end is End.STOP and not world.machine.is_down:
            await world.stop()
            world.kill()
        elif not world.machine.is_down:
            world.lose_power() if end.power else world.kill()
        await self._restart(end.power)

    async def _restart(self, power: bool) -> None:
        world, random = self.world, self.random
        for attempt in range(4):
            world.went_down(power)
            world.machine.restart()
            power = self.synced and random.random() < 0.5
            if attempt < 3 and random.random() < 0.3:
                world.machine.crash_after(random.randrange(1, 100), power)
            try:
                await world.start()
                world.machine.disk.heal()
                return
            except Crashed:
                continue

    async def _traffic(self, seconds: float) -> None:
        world, random = self.world, self.random
        tasks = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        tasks += [
            asyncio.ensure_future(reader.follow(self.brokers, Random(random.getrandbits(64))))
            for reader in self.readers
        ]
        deadline = world.clock.monotonic_ms() + int(seconds * 1000)
        while world.clock.monotonic_ms() < deadline and not world.machine.is_down:
            await asyncio.sleep(0.05)
            if random.random() < 0.05:
                tasks.append(asyncio.ensure_future(random.choice(TROUBLES)(world, random)))
            _raise_first(tasks)
        await _end(tasks)

    async def _settle(self) -> None:
        """All trouble is over: everybody gets on, and in the end nothing is open."""
        world = self.world
        tasks = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        before = [producer.completed for producer in self.producers]
        async with asyncio.timeout(PROGRESS_S_MAX):
            while any(now.completed == then for now, then in zip(self.producers, before, strict=True)):
                await asyncio.sleep(0.1)
                _raise_first(tasks)
        await _end(tasks)
        for producer in self.producers:
            await producer.begin()
        requester = await world.connect("last")
        await asyncio.sleep(5)  # markers that had to wait
        found = {}
        for reader in self.readers:
            fresh = CommittedReader(reader.name)
            fresh.stable = reader.stable
            offset, before_step = 0, -1
            while offset != before_step:
                before_step, offset = offset, await fresh.step(requester, self.random, offset)
            if offset != fresh.stable:
                text = f"{reader.name}: nothing is open, and yet {fresh.stable} ends it"
                raise Violated([("NothingStaysOpen", text)])
            if not reader.found.items() <= fresh.found.items():
                raise Violated([("ShownStays", f"{reader.name}: what was read is gone")])
            found[reader.name] = list(fresh.found.values())
        requester.close()
        problems = transaction_invariants.check(self.producers, found)
        if problems:
            raise Violated(problems)
        await world.stop()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    _raise_first(tasks)


def _raise_first(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception() is not None:
            problem = task.exception()
            assert problem is not None
            if not isinstance(problem, OSError | errors.TidelogError | Refused):
                raise problem


async def played(random: Random) -> Play:
    play = Play(random)
    await play.run()
    return play


def play(seed: int) -> Play:
    return run(played, seed)


@pytest.mark.parametrize("seed", seeds(40))
def test_transactions_keep_their_promises_through_crashes(seed: int) -> None:
    play(seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1000, start=1000))
def test_transactions_keep_their_promises_through_many_more_crashes(seed: int) -> None:
    play(seed)


def test_a_run_is_worth_its_name() -> None:
    plays = [play(seed) for seed in range(6)]
    assert sum(producer.completed for played in plays for producer in played.producers) > 100


async def test_pipelined_batches_keep_their_order_while_their_transaction_is_being_recorded(
    random: Random,
) -> None:
    """The record that adds the partition has to be synced first; the requests behind it wait, too."""
    world = World(random, SETTINGS | SYNCED)
    world.machine.disk.run_delay_s_max = 0.05
    await world.start()
    await world.create_topic("data", 1, {})
    name = TopicPartition("data", 0)
    producer = TransactionalProducer(OneBroker(world), random, 0, [name], True)
    await producer.begin()
    requester = await world.connect("pipelining")
    answers = [
        requester.submit(producer.request(name, number, b"%d" % number), ProduceResponse, version=12)
        for number in range(5)
    ]
    told = [(await answer).responses[0].partition_responses[0] for answer in answers]
    assert [(one.error_code, one.base_offset) for one in told] == [(0, number) for number in range(5)]
    requester.close()


def markers_are_forgotten_by_a_crash(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionCoordinator, "_opened", lambda self, shard: None)


def aborted_transactions_are_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TxnIndex, "between", lambda self, start, end: ([], False))


def open_transactions_are_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "last_stable", property(lambda self: self.state.committed))


def zombies_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producers, "check_end", lambda *_: None)
    patch.setattr(
        TransactionCoordinator, "_write_markers", lambda self, shard, decided, names: (frozenset(), [])
    )


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], set[str]] = {
    markers_are_forgotten_by_a_crash: {"TimeoutError"},
    aborted_transactions_are_not_told: {"NoAbortedRead"},
    open_transactions_are_shown: {"ShownStays"},
    zombies_are_not_fenced: {"CommittedIsThere"},
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_mistake_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    others: Counter[str] = Counter()
    for seed in range(60):
        try:
            play(seed)
        except (Violated, TimeoutError, Refused) as problem:
            names = problem.names if isinstance(problem, Violated) else {type(problem).__name__}
            if names & PLANTED[plant]:
                return
            others.update(names)
    pytest.fail(f"not found in 60 seeds, which found {dict(others)}")
