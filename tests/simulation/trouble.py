"""What can go wrong while clients are at work, chosen by chance."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from enum import Enum
from random import Random

from tests.simulation.world import BROKER, CLIENT, World
from tidelog import errors
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

Trouble = Callable[[World, Random], Awaitable[None]]


class End(Enum):
    """How a run of the broker ends."""

    STOP = "clean stop"
    KILL = "kill"
    KILL_IN_WRITE = "kill in the middle of a disk operation"
    POWER = "power loss"
    POWER_IN_WRITE = "power loss in the middle of a disk operation"

    @property
    def power(self) -> bool:
        return self in (End.POWER, End.POWER_IN_WRITE)


async def connections_reset(world: World, random: Random) -> None:
    world.network.reset(chance=random.random())


async def clock_jumps(world: World, random: Random) -> None:
    world.machine.clock.jump_ms(random.choice((-1, 1)) * random.choice((10, 60_000, 3_600_000)))


async def disk_is_full(world: World, random: Random) -> None:
    world.machine.disk.limit_free(random.choice((0, 10, 500, 10_000)))
    await asyncio.sleep(random.random())
    world.machine.disk.limit_free(None)


async def disk_is_slow(world: World, random: Random) -> None:
    world.machine.disk.run_delay_s_max = random.choice((0.001, 0.05, 2.0))
    await asyncio.sleep(random.random() * 2)
    world.machine.disk.run_delay_s_max = 0.001


async def disk_fails(world: World, random: Random) -> None:
    operation = random.choice(("open", "read", "write", "resize", "sync", "name"))
    pattern = random.choice(("*", "*.log", "*index", "*.snapshot", "*checkpoint*"))
    world.machine.disk.fail(operation, pattern, random.choice((errno.EIO, errno.ENOSPC)))


async def line_is_cut(world: World, random: Random) -> None:
    ends = random.choice(((CLIENT, BROKER), (BROKER, CLIENT)))
    world.network.cut(*ends, one_way=random.random() < 0.5)
    await asyncio.sleep(random.random() * 4)
    world.network.heal()


async def records_are_deleted(world: World, random: Random) -> None:
    histories = [history for history in world.partitions.values() if not history.compacted]
    history = random.choice(histories)
    before = random.randint(0, history.committed)
    history.deletion_asked(before)
    name = history.name
    part = DeleteRecordsPartition(partition_index=name.partition, offset=before)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name.topic, partitions=[part])], timeout_ms=1_000
    )
    try:
        requester = await world.connect("admin")
    except (OSError, errors.TidelogError):
        return
    try:
        await requester.ask(request, DeleteRecordsResponse)
    except (OSError, errors.TidelogError):
        pass
    finally:
        requester.close()


async def nothing(world: World, random: Random) -> None:
    pass


KINDS: tuple[Trouble, ...] = (
    nothing,
    nothing,
    nothing,
    connections_reset,
    connections_reset,
    clock_jumps,
    disk_is_full,
    disk_is_slow,
    disk_fails,
    line_is_cut,
    records_are_deleted,
)


async def troubles(world: World, random: Random) -> None:
    """One after the other, until cancelled."""
    while True:
        await asyncio.sleep(random.random() * 0.5)
        await random.choice(KINDS)(world, random)
