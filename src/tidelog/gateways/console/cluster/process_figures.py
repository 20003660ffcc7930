"""Figures of this broker: its traffic since the start, its process.  Other brokers ask for them over HTTP."""

from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING, Any

from tidelog.broker.routes import PRODUCE
from tidelog.config.damaged_partitions import show_damaged
from tidelog.storage.integrity.damaged_logs import damaged_logs

if TYPE_CHECKING:
    from tidelog.gateways.http.services import GatewayServices

_PAGE_BYTES = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")

COUNTERS = ("messages_in", "messages_out", "bytes_in", "bytes_out", "requests", "errors", "isr_shrinks")


def process_figures(around: GatewayServices) -> dict[str, Any]:
    """Numbers, lists of numbers, and the damaged logs.  Counters start at 0 with the process."""
    counts = around.partitions.counts()
    tally = around.services.counters.requests
    requests, produce_times = 0, []
    for key, count, *_, times in tally.read():
        requests += count
        if key == PRODUCE:
            produce_times = list(times)
    return {
        "messages_in": counts.messages_in,
        "messages_out": counts.messages_out,
        "bytes_in": counts.bytes_in,
        "bytes_out": counts.bytes_out,
        "requests": requests,
        "errors": sum(tally.errors.values()),
        "isr_shrinks": around.figures.shifts.shrinks,
        "lease_proven": around.services.partitions.lease_proven(),
        "produce_times": produce_times,
        "connections": len(around.figures.server.connections),
        "memory_bytes": _memory(),
        "up_ms": _up_ms(),
        "damaged": show_damaged(damaged_logs(around.services.log_dirs.dirs)),
    }


def _memory() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def _up_ms() -> int:
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    return int(1000 * (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / _TICKS))
