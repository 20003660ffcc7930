"""What else the machine was doing: figures taken while others had the processor are worth little."""

from __future__ import annotations

import os
import time

from bench import usage

CORES_MAX = 0.25  # taken by others during a measurement, before it counts as noisy
LOOK_SECONDS = 5


class Meter:
    """CPU that went elsewhere since it was made: neither to the bench nor to its brokers."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._own, self._all = usage.cpu_seconds(os.getpid()), usage.machine_busy_seconds()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def cores(self) -> float:
        own = usage.cpu_seconds(os.getpid()) - self._own
        return max(0.0, usage.machine_busy_seconds() - self._all - own) / self.seconds


def wait_for_quiet(seconds_max: float) -> None:
    """Returns when others have left the processor alone for a moment, or when the patience is over."""
    deadline = time.perf_counter() + seconds_max
    while time.perf_counter() < deadline:
        meter = Meter()
        time.sleep(LOOK_SECONDS)
        if meter.cores() <= CORES_MAX:
            return
