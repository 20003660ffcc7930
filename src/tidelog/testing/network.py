"""A network in memory between named hosts: `tidelog.net.network.Network` on the virtual loop.

Bytes arrive after a latency, in segments cut and joined at random, through bounded buffers.  Lines between hosts can be cut,
one way or both; connections can be reset; processes and machines can be stopped.  TCP's guarantee holds: what arrives is a
prefix of what was sent.  Give each machine its `host(name)`; the network itself is the view of "localhost"."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tidelog.net.network import LISTEN_BACKLOG
from tidelog.testing.process import virtual_loop
from tidelog.testing.sockets import VirtualListener, VirtualSocket, pair

OWN_NAMES = frozenset({"", "localhost", "127.0.0.1", "0.0.0.0", "::", "::1"})
FIRST_FREE_PORT = 40_000
CONNECT_TIMEOUT_S = 127.0  # Linux's timeout of a connection attempt without an answer


class VirtualHost:
    """One machine's view of the network."""

    def __init__(self, network: VirtualNetwork, name: str) -> None:
        self.network = network
        self.name = name
        self.is_up = True
        self.listeners: dict[int, VirtualListener] = {}
        self.sockets: dict[VirtualSocket, None] = {}
        self._next_port = FIRST_FREE_PORT

    def __repr__(self) -> str:
        return self.name

    def listen(self, host: str, port: int) -> VirtualListener:
        if host not in OWN_NAMES and host != self.name:
            raise OSError(errno.EADDRNOTAVAIL, f"{host} is not an address of {self.name}")
        if port == 0:
            port = self._free_port()
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, f"{self.name}:{port} is taken")
        listener = VirtualListener(self, (self.name, port), LISTEN_BACKLOG)
        self.listeners[port] = listener
        return listener

    async def connect(self, host: str, port: int) -> VirtualSocket:
        """Connects to a port.  An unknown host name is refused at once, a port without a listener after the latency.  A
        machine that is off or behind a cut line does not answer, and the attempt ends after `CONNECT_TIMEOUT_S`."""
        network = self.network
        target = self if host in OWN_NAMES else network.known(host)
        if target is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"no host is called {host}")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await network.trip()
                await network.until_passable(self, target)
                await network.trip()
        except TimeoutError:
            raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port} does not answer") from None
        listener = target.listeners.get(port)
        if listener is None or listener.full:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"no process listens on {host}:{port}")
        local = (self.name, self._free_port())
        near, far = (
            VirtualSocket(self, local, (host, port)),
            VirtualSocket(target, (target.name, port), local),
        )
        pair(near, far)
        listener.arrived(far)
        return near

    def kill_process(self) -> None:
        """Closes all sockets, as the system does for a process that ends; what was sent still arrives."""
        for listener in [*self.listeners.values()]:
            listener.killed()
        for socket in [*self.sockets]:
            socket.killed()

    def power_off(self) -> None:
        """Ends all connections without a notice; peers learn it from their next segment after `power_on`."""
        self.is_up = False
        for socket in [*self.sockets]:
            socket.vanish()
        for listener in [*self.listeners.values()]:
            listener.killed()

    def power_on(self) -> None:
        self.is_up = True
        self.network.lines_changed()

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port


class VirtualNetwork:
    """Attributes may be set at any time.  `short_send_chance`: how often a send accepts less than it could; `split_chance`:
    how often a segment is cut short."""

    def __init__(self, random: Random | None = None) -> None:
        self.loop = virtual_loop()
        self.random = random or Random(0)
        self.latency_s = (0.000_1, 0.002)
        self.buffer_bytes = 64 * 1024
        self.short_send_chance = 0.1
        self.split_chance = 0.3
        self._hosts: dict[str, VirtualHost] = {}
        self._cut: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()
        self.mended_ms = 0
        """When a line that was cut was last healed, on the loop's clock: what it held back arrives from then on."""

    def host(self, name: str) -> VirtualHost:
        """The host of this name, made at the first call."""
        return self._hosts.setdefault(name, VirtualHost(self, name))

    def listen(self, host: str, port: int) -> VirtualListener:
        return self.host("localhost" if host in OWN_NAMES else host).listen(host, port)

    async def connect(self, host: str, port: int) -> VirtualSocket:
        return await self.host("localhost").connect(host, port)

    # Trouble.

    def cut(self, source: str, target: str, one_way: bool = False) -> None:
        """Cuts the line from `source` to `target` (and back) until it is healed; TCP keeps the bytes for later."""
        self._cut.add((source, target))
        if not one_way:
            self._cut.add((target, source))

    def heal(self) -> None:
        """Heals all lines."""
        self._cut.clear()
        self.lines_changed()

    def mend(self, source: str, target: str) -> None:
        """Heals the line between the two hosts, both ways; other lines stay cut."""
        self._cut -= {(source, target), (target, source)}
        self.lines_changed()

    def reset(self, host: str | None = None, chance: float = 1.0) -> int:
        """Resets connections of one host, or of all hosts, each with this chance; returns how many."""
        hosts = [*self._hosts.values()] if host is None else [self.host(host)]
        sockets = [socket for of_host in hosts for socket in of_host.sockets if socket.alive]
        hit = [socket for socket in sockets if self.chance(chance)]
        for socket in hit:
            socket.reset()
        return len(hit)

    # For hosts and sockets.

    def known(self, name: str) -> VirtualHost | None:
        return self._hosts.get(name)

    def passes(self, source: VirtualHost, target: VirtualHost) -> bool:
        return source.is_up and target.is_up and (source.name, target.name) not in self._cut

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def segment_bytes(self, size: int) -> int:
        return self.random.randint(1, size) if self.chance(self.split_chance) else size

    def later(self, event: Callable[[], None]) -> None:
        self.loop.call_later(self.random.uniform(*self.latency_s), event, context=self.loop.outside)

    async def trip(self) -> None:
        await asyncio.sleep(self.random.uniform(*self.latency_s))

    async def until_passable(self, source: VirtualHost, target: VirtualHost) -> None:
        while not (self.passes(source, target) and self.passes(target, source)):
            await self._changed.wait()

    def lines_changed(self) -> None:
        self.mended_ms = self.loop.elapsed_ms()
        self._changed.set()
        self._changed = asyncio.Event()
        for host in self._hosts.values():
            for socket in host.sockets:
                socket.resume()


if TYPE_CHECKING:
    from tidelog.net.network import Network

    _SEAM: type[Network] = VirtualNetwork
    _HOST_SEAM: type[Network] = VirtualHost
