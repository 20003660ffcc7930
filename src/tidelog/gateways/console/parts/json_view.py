"""A JSON value that can be folded: objects and lists are <details>, so folding needs no script and works with the keyboard.
Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tidelog.gateways.console.parts.markup import Child, Markup, h

NODES_MAX = 2_000
"""More than a reader folds, and few enough for a page; larger values are shown as text."""
OPEN_DEPTH = 3


def json_view(value: Any) -> Markup | None:
    """None for a value that is no object and no list, or has too many parts."""
    if not isinstance(value, dict | list) or _exceeds(value, NODES_MAX):
        return None
    return h.div(_node(None, value, 0), class_="raw json", tabindex="0")


def _exceeds(value: Any, left: int) -> bool:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        left -= 1
        if left < 0 or len(waiting) > NODES_MAX:
            return True
        if isinstance(part, dict | list):
            if len(part) > NODES_MAX:
                return True
            waiting += part.values() if isinstance(part, dict) else part
    return False


def _node(name: str | None, value: Any, depth: int) -> Markup:
    title: list[Child] = [] if name is None else [h.span(name, class_="json-name"), ": "]
    if not isinstance(value, dict | list) or not value:
        return h.div(title, _leaf(value), class_="json-leaf")
    parts: Iterable[tuple[str | None, Any]]
    if isinstance(value, dict):
        parts, brackets, noun = value.items(), "{}", "field"
    else:
        parts, brackets, noun = ((None, part) for part in value), "[]", "item"
    amount = f"{len(value):,} {noun}{'' if len(value) == 1 else 's'}"
    return h.details(
        h.summary(title, brackets[0], h.span(f" {amount} ", class_="muted"), brackets[1]),
        [_node(key, part, depth + 1) for key, part in parts],
        open=depth < OPEN_DEPTH,
    )


def _leaf(value: Any) -> Markup:
    kind = {str: "string", bool: "word", type(None): "word"}.get(type(value), "number")
    if isinstance(value, dict | list):
        kind = "word"
    return h.span(json.dumps(value, ensure_ascii=False), class_=f"json-{kind}")
