"""What a process and its workers have used, as the kernel tells it in /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20


def tree(pid: int) -> list[int]:
    """`pid` and its living descendants."""
    found = [pid]
    for parent in found:
        try:
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:  # it ended meanwhile
            continue
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, of living workers, and of those that have ended and were waited for."""
    seconds = 0.0
    for process in tree(pid):
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
            seconds += time.clock_gettime(_cpu_clock(process))
        except OSError:
            continue
        # The name in brackets may hold spaces; cutime and cstime are fields 16 and 17.
        fields = stat.rpartition(")")[2].split()
        seconds += sum(int(field) for field in fields[13:15]) / TICKS_PER_SECOND
    return seconds


def _cpu_clock(pid: int) -> int:
    """The clock id of a process's CPU time (clock_getcpuclockid(3)): nanoseconds, where /proc counts ticks."""
    return (~pid << 3) | 2


def _status_bytes(pid: int, field: str) -> int:
    total = 0
    for process in tree(pid):
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        for line in status.splitlines():
            if line.startswith(field + ":"):
                total += int(line.split()[1]) * 1024
    return total


def resident_mib(pid: int) -> float:
    return _status_bytes(pid, "VmRSS") / MIB


def peak_mib(pid: int) -> float:
    return _status_bytes(pid, "VmHWM") / MIB


def private_mib(pid: int) -> float:
    """Without the pages of mapped files, which the kernel can take back."""
    return _status_bytes(pid, "RssAnon") / MIB


def shared_once_mib(pid: int) -> float:
    """The same, with what several of them share counted once."""
    total = 0
    for process in tree(pid):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Anon:"))
    return total / MIB


def descriptors(pid: int) -> int:
    return sum(len(os.listdir(f"/proc/{process}/fd")) for process in tree(pid))


def machine_busy_seconds() -> float:
    """CPU time that all processes and the hypervisor's other guests have taken from this machine since it started."""
    with Path("/proc/stat").open() as stat:
        fields = [int(field) for field in stat.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND
