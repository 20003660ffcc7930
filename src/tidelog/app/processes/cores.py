"""How many cores this process may use."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = CGROUP) -> int:
    """The cores that the system lets us run on, and no more than a container's limit pays for."""
    cores = len(os.sched_getaffinity(0))
    limit = _limit(cgroup)
    return cores if limit is None else max(1, min(cores, int(limit)))


def _limit(cgroup: Path) -> float | None:
    """The share of time that the control group may use, in cores; None without a limit."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None
    return int(quota) / int(period)
