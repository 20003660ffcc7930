"""Reads a query's positions from Spark's checkpoint, which `status` shows before the first batch.

`offsets/N` has the ends of micro-batch N, one line per source after two lines of Spark's own; `commits/N` exists once the
batch is done."""

from __future__ import annotations

import os
from pathlib import Path

from tidelog.pipeline.running.progress import Offsets, offsets_of, the_furthest_behind

LINES_OF_SPARK = 2


def positions_of(folder: str) -> Offsets:
    """The positions after the last finished batch; empty for a new query, or if the checkpoint is on another machine."""
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
