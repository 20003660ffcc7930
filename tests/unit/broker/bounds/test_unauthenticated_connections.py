from __future__ import annotations

import asyncio

from tidelog.broker.bounds.unauthenticated_connections import (
    UnauthenticatedConnection,
    UnauthenticatedConnections,
)
from tidelog.config import BrokerConfig


class Scene:
    def __init__(self, **settings: str) -> None:
        config = BrokerConfig.of({name.replace("_", "."): value for name, value in settings.items()})
        self.strangers = UnauthenticatedConnections(lambda: config, 1_000)
        self.closed: list[tuple[str, str]] = []

    def came(self, host: str, number: int) -> UnauthenticatedConnection:
        stranger = self.strangers.came("LOGIN", host, f"{host}:{number}")
        stranger.close = lambda bound, why: self.closed.append((stranger.peer, bound))
        return stranger


async def test_the_address_with_the_most_gives_up_its_oldest() -> None:
    scene = Scene(tidelog_login_connections_max="10")
    scene.came("good", 1)
    for number in range(9):
        scene.came("bad", number)
    scene.came("good", 2)
    scene.came("bad", 9)
    assert scene.closed == [(f"bad:{number}", "tidelog.login.connections.max") for number in (0, 1)]
    assert len(scene.strangers) == 10
    scene.strangers.stop()


async def test_who_has_not_logged_in_in_time_is_closed_and_who_has_is_not() -> None:
    scene = Scene(tidelog_login_timeout_ms="100")
    scene.came("slow", 1)
    known = scene.came("quick", 1)
    scene.strangers.left(known)
    scene.strangers.left(known)
    async with asyncio.timeout(30):
        while not scene.closed:
            await asyncio.sleep(0.01)
    assert scene.closed == [("slow:1", "tidelog.login.timeout.ms")]
    assert len(scene.strangers) == 0
    scene.strangers.stop()
