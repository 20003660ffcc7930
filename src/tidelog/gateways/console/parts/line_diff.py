"""What changed between two texts, line by line.  Pure."""

from __future__ import annotations

from difflib import SequenceMatcher
from enum import Enum

LINES_MAX = 2_000


class Change(Enum):
    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"


def differences(before: str, after: str) -> list[tuple[Change, str]]:
    """All lines of both; very long texts are compared as far as the bound."""
    old, new = before.splitlines()[:LINES_MAX], after.splitlines()[:LINES_MAX]
    found: list[tuple[Change, str]] = []
    for kind, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, False).get_opcodes():
        if kind == "equal":
            found += [(Change.KEPT, line) for line in old[old_from:old_to]]
            continue
        found += [(Change.REMOVED, line) for line in old[old_from:old_to]]
        found += [(Change.ADDED, line) for line in new[new_from:new_to]]
    return found
