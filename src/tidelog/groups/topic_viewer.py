"""Who subscribes by a regular expression: an expression matches no topic that its client may not know of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class TopicViewer(NamedTuple):
    sees: Callable[[str], bool]
    rules: object
    """Another object once the client may see other topics."""
