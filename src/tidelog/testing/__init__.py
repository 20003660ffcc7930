"""A machine made of memory: time, network and disk that a test drives, and that one seed replays.

Tidelog's own tests run whole brokers on it; users test their own code with it.  See docs/guide/testing.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.testing.disk import VirtualDisk as VirtualDisk
    from tidelog.testing.platter import Crashed as Crashed

_HOMES = {
    "Crashed": "platter",
    "VirtualDisk": "disk",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
