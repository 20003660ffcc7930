"""Differences of two texts."""

from __future__ import annotations

from tidelog.gateways.console.parts.line_diff import LineChange, differences


def test_differences_by_line() -> None:
    assert differences("a\nb\nc", "a\nx\nc\nd") == [
        (LineChange.KEPT, "a"),
        (LineChange.REMOVED, "b"),
        (LineChange.ADDED, "x"),
        (LineChange.KEPT, "c"),
        (LineChange.ADDED, "d"),
    ]
