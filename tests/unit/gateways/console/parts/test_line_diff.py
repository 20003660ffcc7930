"""Differences of two texts."""

from __future__ import annotations

from tidelog.gateways.console.parts.line_diff import Change, differences


def test_differences_by_line() -> None:
    assert differences("a\nb\nc", "a\nx\nc\nd") == [
        (Change.KEPT, "a"),
        (Change.REMOVED, "b"),
        (Change.ADDED, "x"),
        (Change.KEPT, "c"),
        (Change.ADDED, "d"),
    ]
