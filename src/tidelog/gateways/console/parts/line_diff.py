"""The differences of two texts, line by line.  Pure."""

from __future__ import annotations

from difflib import SequenceMatcher
from enum import Enum

LINES_MAX = 2_000


class LineChange(Enum):
    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"


def differences(before: str, after: str) -> list[tuple[LineChange, str]]:
    """All lines of both texts, at most `LINES_MAX` of each."""
    old, new = before.splitlines()[:LINES_MAX], after.splitlines()[:LINES_MAX]
    lines: list[tuple[LineChange, str]] = []
    for kind, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, False).get_opcodes():
        if kind == "equal":
            lines += [(LineChange.KEPT, text) for text in old[old_from:old_to]]
            continue
        lines += [(LineChange.REMOVED, text) for text in old[old_from:old_to]]
        lines += [(LineChange.ADDED, text) for text in new[new_from:new_to]]
    return lines
