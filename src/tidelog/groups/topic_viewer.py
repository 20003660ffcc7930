"""The client of a subscription by regular expression: the expression matches only topics that the client may see."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class TopicViewer(NamedTuple):
    sees: Callable[[str], bool]
    rules: object
    """Another object once the client may see other topics."""
