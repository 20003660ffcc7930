"""A simulated machine: its disk, its clock, its place on the network, and the process that runs on it.

`kill` and `lose_power` strike all of them at the same moment, from outside or in the middle of a disk
operation, so nothing is said on the network that happened after the end."""

from __future__ import annotations

from random import Random

from tidelog.testing.clock import VirtualClock
from tidelog.testing.disk import VirtualDisk, successor
from tidelog.testing.network import VirtualNetwork
from tidelog.testing.process import Process


class Machine:
    """`process` is what runs now; after a crash, `restart` gives the next one."""

    def __init__(self, network: VirtualNetwork, name: str, random: Random) -> None:
        self.name = name
        self.disk = VirtualDisk(random)
        self.clock = VirtualClock()
        self.host = network.host(name)
        self.process = Process(name)
        self._power_lost = False

    @property
    def is_down(self) -> bool:
        return self.process.dead

    def kill(self) -> None:
        """The process ends at once, as by kill -9; the machine stays up."""
        if not self.is_down:
            self._down(power=False)

    def pause(self) -> None:
        """The process stands still, as after SIGSTOP; its connections stay, and what is sent to it waits."""
        self.process.pause()

    def go_on(self) -> None:
        """It finds that time has passed: leases are over, and timers due all at once."""
        self.process.go_on()

    def lose_power(self) -> None:
        """The machine goes dark, whether or not its process was killed before."""
        if not self._power_lost:
            self._down(power=True)

    def crash_after(self, operations: int, power: bool) -> None:
        """A kill or a power loss in the middle of the `operations`-th change to the disk from now."""
        self.disk.crash_after(operations, power, lambda: self._down(power))

    def replace_disk(self) -> None:
        """While the machine is down: an empty disk takes the place of the old one, with all that was on it."""
        assert self.is_down, f"{self.name} is still running: its disk cannot be taken out"
        self.disk = successor(self.disk)

    def restart(self) -> Process:
        """The disk as the crash left it, the network reachable again, and a fresh process."""
        assert self.is_down, f"{self.name} is still running: kill it first"
        if self._power_lost:
            self.disk.crash()
            self.host.power_on()
        else:
            self.disk.kill()
        self._power_lost = False
        self.process = Process(self.name)
        return self.process

    def _down(self, power: bool) -> None:
        """The process last: what Python runs while throwing it away finds disk and sockets dead."""
        self._power_lost = power
        self.disk.fence()
        if power:
            self.host.power_off()
        else:
            self.host.kill_process()
        self.process.kill()
