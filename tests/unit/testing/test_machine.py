"""A machine's disk, network and process end at the same moment, wherever that falls."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tidelog.testing import Crashed, Machine, VirtualNetwork, run
from tidelog.testing.sockets import VirtualSocket

pytestmark = pytest.mark.simulated

PORT = 7


async def acknowledge_writes(machine: Machine, synced: bool) -> None:
    """A server that writes each byte it gets to its file and then sends the byte back."""
    machine.disk.make_folder("/data")
    machine.disk.sync_folder("/")
    file = machine.disk.open("/data/log", create=True)
    machine.disk.sync_folder("/data")
    loop = asyncio.get_running_loop()
    listener = machine.host.listen("", PORT)

    def answer(socket: VirtualSocket) -> None:
        byte = bytearray(1)
        if socket.recv_into(byte) == 0:
            loop.remove_reader(socket.fileno())
            socket.close()
            return
        file.write(byte, file.size())
        if synced:
            file.sync()
        socket.send(byte)

    def accept() -> None:
        socket, _ = listener.accept()
        loop.add_reader(socket.fileno(), answer, socket)

    loop.add_reader(listener.fileno(), accept)


async def acknowledged(network: VirtualNetwork, machine: Machine) -> bytes:
    """Sends bytes until the connection breaks or falls silent; those that came back."""
    socket = await network.host("client").connect(machine.name, PORT)
    got = b""
    for number in range(20):
        try:
            socket.send(bytes([number]))
            async with asyncio.timeout(10):
                got += await _byte(socket)
        except (OSError, TimeoutError):
            break
    socket.close()
    return got


async def _byte(socket: VirtualSocket) -> bytes:
    loop, byte = asyncio.get_running_loop(), bytearray(1)
    while True:
        try:
            count = socket.recv_into(byte)
        except BlockingIOError:
            ready = loop.create_future()
            loop.add_reader(socket.fileno(), lambda ready=ready: ready.done() or ready.set_result(None))
            try:
                await ready
            finally:
                loop.remove_reader(socket.fileno())
        else:
            if count == 0:
                raise ConnectionResetError("ended")
            return bytes(byte)


async def survives(random: Random, power: bool, synced: bool) -> bool:
    """Whether all that was acknowledged is there after a crash at some point."""
    network = VirtualNetwork(random)
    machine = Machine(network, "server", random)
    await machine.process.run(acknowledge_writes(machine, synced))
    machine.crash_after(random.randrange(1, 40), power)
    promised = await acknowledged(network, machine)
    if not machine.is_down:
        machine.lose_power() if power else machine.kill()
    machine.restart()
    return machine.disk.read_file("/data/log").startswith(promised)


@pytest.mark.parametrize(("power", "synced", "all_survive"), [(0, 0, 1), (0, 1, 1), (1, 1, 1), (1, 0, 0)])
def test_what_was_acknowledged_survives_when_it_was_synced_or_the_machine_stayed_up(
    power: bool, synced: bool, all_survive: bool
) -> None:
    survived = [run(lambda random: survives(random, power, synced), seed) for seed in range(40)]
    assert all(survived) == bool(all_survive)


async def test_a_machine_that_lost_power_is_reached_again_after_its_restart(random: Random) -> None:
    network = VirtualNetwork(random)
    machine = Machine(network, "server", random)
    for _ in range(3):
        await machine.process.run(acknowledge_writes(machine, synced=True))
        assert len(await acknowledged(network, machine)) == 20
        machine.lose_power()
        machine.lose_power()
        with pytest.raises(Crashed):
            await machine.process.run(asyncio.sleep(1))
        machine.restart()
    assert len(machine.disk.read_file("/data/log")) == 60


async def content_after_power_loss(random: Random) -> bytes:
    machine = Machine(VirtualNetwork(random), "server", random)
    machine.disk.open("/a", create=True).write(b"unsynced", 0)
    machine.kill()
    machine.lose_power()
    machine.restart()
    machine.kill()
    machine.restart()
    return machine.disk.read_file("/a") if machine.disk.exists("/a") else b""


def test_power_lost_after_a_kill_takes_what_was_not_synced() -> None:
    assert len({run(content_after_power_loss, seed) for seed in range(20)}) > 1


async def test_a_running_machine_is_not_restarted(random: Random) -> None:
    with pytest.raises(AssertionError, match="still running"):
        Machine(VirtualNetwork(random), "server", random).restart()


async def test_a_process_that_stands_still_misses_nothing_but_time(random: Random) -> None:
    network = VirtualNetwork(random)
    machine, other = Machine(network, "server", random), Machine(network, "other", random)
    ticks: dict[str, list[int]] = {"server": [], "other": []}

    async def tick(ticking: Machine) -> None:
        while True:
            await asyncio.sleep(1)
            ticks[ticking.name].append(ticking.clock.monotonic_ms() // 1000)

    for ticking in (machine, other):
        ticking.process.spawn(tick(ticking))
    await machine.process.run(acknowledge_writes(machine, synced=True))
    start = machine.clock.monotonic_ms() // 1000
    machine.pause()
    machine.pause()
    answer = asyncio.ensure_future(acknowledged(network, machine))
    await asyncio.sleep(5.5)
    assert ticks["server"] == [] and len(ticks["other"]) == 5
    assert not answer.done(), "what was sent waits"
    machine.go_on()
    machine.go_on()
    assert len(await answer) == 20
    await asyncio.sleep(2)
    assert ticks["server"][:2] == [start + 5, start + 6], "a timer that was due is late, and only once"


async def test_a_process_that_stands_still_can_be_killed(random: Random) -> None:
    network = VirtualNetwork(random)
    machine = Machine(network, "server", random)
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(1)
        done.append("worked")

    machine.process.spawn(work())
    await asyncio.sleep(0.5)
    machine.pause()
    await asyncio.sleep(3)
    machine.kill()
    machine.go_on()
    await asyncio.sleep(3)
    assert done == []
    machine.restart()
    await machine.process.run(work())
    assert done == ["worked"]
