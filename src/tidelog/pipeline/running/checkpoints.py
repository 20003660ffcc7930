"""How far a query had come, from the checkpoint that Spark keeps of it: what `status` tells before the first batch.

`offsets/N` has the ends of micro-batch N, one line for each source behind two of Spark's own; `commits/N` is there when
it was done."""

from __future__ import annotations

import os
from pathlib import Path

from tidelog.pipeline.running.progress import Offsets, offsets_of, the_furthest_behind

LINES_OF_SPARK = 2


def positions_of(folder: str) -> Offsets:
    """Nothing for a query that is new, or whose checkpoint is not on this machine."""
    done = [int(name) for name in _names(folder, "commits") if name.isdigit()]
    if not done:
        return {}
    try:
        lines = Path(folder, "offsets", str(max(done))).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return the_furthest_behind(offsets_of(line) for line in lines[LINES_OF_SPARK:])


def _names(folder: str, kind: str) -> list[str]:
    try:
        return os.listdir(os.path.join(folder, kind))
    except OSError:
        return []
