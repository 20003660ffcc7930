"""Tidelog: a message queue that speaks the Kafka protocol; a broker, a client and a command line.

The public names are in `__all__` of this module and of `tidelog.aio`; everything else may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.errors import TidelogError
    from tidelog.types import TopicPartition

__version__ = "0.1.0"

__all__ = ["TidelogError", "TopicPartition", "__version__"]

# Loaded when first asked for: the command line must not wait for what it does not use.
_HOMES = {"TidelogError": "tidelog.errors", "TopicPartition": "tidelog.types"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
