"""The facts without which a figure means nothing: processor, memory, kernel, versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path


def _first_match(path: str, field: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(field):
            return line.partition(":")[2].strip()
    return "unknown"


def _java() -> str:
    if shutil.which("java") is None:
        return "not installed"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    return said.splitlines()[0] if said else "unknown"


def _commit() -> str:
    folder = Path(__file__).parent
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True)
    return done.stdout.strip() or "not a git checkout"


def facts(folder: Path) -> dict[str, object]:
    """`folder` is where the brokers keep their data."""
    disk = shutil.disk_usage(folder)
    return {
        "processor": _first_match("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _first_match("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": _java(),
        "tidelog": importlib.metadata.version("tidelog"),
        "commit": _commit(),
        "disk_free_bytes": disk.free,
        "load_average": os.getloadavg(),
    }
