"""A simulated machine: its disk, its clock, its host on the network, and the process that runs on it.

`kill` and `lose_power` end all of them at the same moment, from outside or in the middle of a disk operation, so the machine
sends nothing after its end."""

from __future__ import annotations

from random import Random

from tidelog.testing.clock import VirtualClock
from tidelog.testing.disk import VirtualDisk, successor
from tidelog.testing.network import VirtualNetwork
from tidelog.testing.process import Process


class Machine:
    """`process`: the process that runs now; after a crash, `restart` starts the next one."""

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
        """Ends the process at once, as by kill -9; the machine stays up."""
        if not self.is_down:
            self._down(power=False)

    def pause(self) -> None:
        """Pauses the process, as after SIGSTOP; its connections stay, and what others send to it waits."""
        self.process.pause()

    def go_on(self) -> None:
        """Resumes the process, which finds that time has passed: leases have ended, and timers are due all at once."""
        self.process.go_on()

    def lose_power(self) -> None:
        """Ends the machine, whether or not its process was killed before."""
        if not self._power_lost:
            self._down(power=True)

    def crash_after(self, operations: int, power: bool) -> None:
        """Plans a kill or a power loss in the middle of the `operations`-th change to the disk from now."""
        self.disk.crash_after(operations, power, lambda: self._down(power))

    def replace_disk(self) -> None:
        """Replaces the disk by an empty one while the machine is down; everything on the old disk is lost."""
        assert self.is_down, f"{self.name} is still running: its disk cannot be taken out"
        self.disk = successor(self.disk)

    def replace_folder(self, path: str) -> None:
        """Replaces the disk that is mounted at `path` by an empty one while the machine is down."""
        assert self.is_down, f"{self.name} is still running: its disk cannot be taken out"
        self.disk._state.replace_folder(path)

    def restart(self) -> Process:
        """Starts a new process, with the disk as the crash left it and the network reachable again."""
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
        """Ends the process last: the `finally` blocks that Python then runs find disk and sockets dead."""
        self._power_lost = power
        self.disk.fence()
        if power:
            self.host.power_off()
        else:
            self.host.kill_process()
        self.process.kill()
