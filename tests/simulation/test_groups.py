"""A group whose broker is killed at any moment: no offset that was acknowledged is lost, none goes back, and nobody shares a
partition in one generation."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.grouped import (
    PARTITIONS,
    TOPIC,
    GroupMember,
    GroupOffsetsNeverBack,
    Meeting,
    Promises,
    committed,
)
from tests.simulation.world import World
from tidelog.errors import TidelogError
from tidelog.testing import run, seeds

SETTINGS = {"group.initial.rebalance.delay.ms": "500", "offsets.topic.num.partitions": "3"}
ROUNDS = 3
OPERATIONS_MAX = 200


def play(seed: int) -> Promises:
    async def main(random: Random) -> Promises:
        world, promises = World(random, SETTINGS), Promises()
        await world.start()
        await world.create_topic(TOPIC, PARTITIONS, {})
        members = [
            GroupMember(world, Random(random.getrandbits(64)), f"member-{number}", promises)
            for number in range(random.choice((1, 2, 3, 5)))
        ]
        tasks = [asyncio.ensure_future(member.run()) for member in members]
        for _ in range(ROUNDS):
            if random.random() < 0.5:
                world.machine.crash_after(random.randrange(1, OPERATIONS_MAX), False)
            await asyncio.sleep(random.random() * 20)
            if not world.machine.is_down:
                world.kill()
            world.broker = None
            world.machine.restart()
            await asyncio.sleep(random.choice((0.1, 0.1, 10)))  # longer than a session, now and then
            await world.start()
            await check(world, promises)
            for task in tasks:
                if task.done():
                    task.result()
        before = promises.commits
        await asyncio.sleep(30)
        assert promises.commits > before, "the group does not work any more"
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, AssertionError):
                raise ended
        await check(world, promises)
        await world.stop()
        return promises

    return run(main, seed=seed)


async def check(world: Meeting, promises: Promises) -> None:
    """What was acknowledged is there."""
    for partition, offset in dict(promises.committed).items():
        while True:
            connection = await world.connect("check")
            try:
                GroupOffsetsNeverBack.check(partition, offset, await committed(connection, partition))
                break
            except TidelogError:
                await asyncio.sleep(0.1)  # still loading
            finally:
                connection.close()


@pytest.mark.parametrize("seed", seeds(40))
def test_a_group_outlives_its_broker(seed: int) -> None:
    play(seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1000, start=1000))
def test_a_group_outlives_its_broker_many_more_times(seed: int) -> None:
    play(seed)


def test_a_run_is_worth_its_name() -> None:
    played = [play(seed) for seed in range(5)]
    assert sum(one.commits for one in played) > 200
    assert sum(one.assignments for one in played) > 30
