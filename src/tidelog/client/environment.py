"""What a client takes from the machine: sockets, the clock, random numbers.  Tests pass their own."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tidelog.clock import Clock, SystemClock
from tidelog.net.network import Network, SystemNetwork


@dataclass(frozen=True, slots=True)
class Environment:
    network: Network
    clock: Clock
    random: random.Random

    @classmethod
    def system(cls) -> Environment:
        return cls(SystemNetwork(), SystemClock(), random.Random())
