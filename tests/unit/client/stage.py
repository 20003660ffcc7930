"""A stage for client tests: virtual time, a network in memory, scripted brokers, and nothing left over at the
end."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

from tests.unit.client.scripted import ScriptedBroker, World
from tidelog.client.environment import Environment
from tidelog.testing import VirtualClock, VirtualNetwork, run
from tidelog.testing.process import virtual_loop


class Stage:
    def __init__(self, random: Random) -> None:
        self.loop = virtual_loop()
        self.network = VirtualNetwork(random)
        self.clock = VirtualClock()
        self.random = random
        self.environment = Environment(self.network.host("client"), self.clock, random)
        self.world = World()

    def broker(self, node: int = 1) -> ScriptedBroker:
        return ScriptedBroker(self.world, self.network.host(f"broker{node}"), node)

    def client_sockets(self) -> int:
        return sum(socket.fileno() >= 0 for socket in self.network.host("client").sockets)


def play(scenario: Callable[[Stage], Awaitable[Any]], seed: int = 0) -> None:
    """Runs the scenario; afterwards the client must have left neither sockets nor tasks."""

    async def on_stage(random: Random) -> None:
        stage = Stage(random)
        await scenario(stage)
        for broker in stage.world.brokers.values():
            broker.stop()
        await stage.clock.advance_ms(2_000)  # the peers hear that we are gone
        assert stage.client_sockets() == 0, "a socket is left open"
        left = [task.get_name() for task in stage.loop.living_tasks()]
        assert len(left) == 1, f"tasks are left: {left}"

    run(on_stage, seed)


def staged(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes a test of `async def test_...(stage, ...)`: each run has a stage of its own, on virtual time.  An argument
    `seed` is the seed of the stage's random numbers, too."""

    @functools.wraps(scenario)
    def test(**arguments: Any) -> None:
        play(lambda stage: scenario(stage, **arguments), arguments.get("seed", 0))

    signature = inspect.signature(scenario)
    parameters = [parameter for name, parameter in signature.parameters.items() if name != "stage"]
    test.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return test
