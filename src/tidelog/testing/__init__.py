"""A simulated machine in memory: time, network and disk that a test controls, and that one seed replays.

Tidelog's own tests run whole brokers on simulated machines; users test their own code with them.  See
docs/guide/testing.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.testing.clock import VirtualClock as VirtualClock
    from tidelog.testing.disk import VirtualDisk as VirtualDisk
    from tidelog.testing.disk_state import Crashed as Crashed
    from tidelog.testing.local_broker import ChildBroker as ChildBroker
    from tidelog.testing.local_broker import InnerBroker as InnerBroker
    from tidelog.testing.local_broker import broker as broker
    from tidelog.testing.local_broker import child_broker as child_broker
    from tidelog.testing.loop import Stuck as Stuck
    from tidelog.testing.loop import VirtualLoop as VirtualLoop
    from tidelog.testing.machine import Machine as Machine
    from tidelog.testing.metadata import VirtualMetadata as VirtualMetadata
    from tidelog.testing.metadata import Weather as Weather
    from tidelog.testing.network import VirtualHost as VirtualHost
    from tidelog.testing.network import VirtualNetwork as VirtualNetwork
    from tidelog.testing.process import Process as Process
    from tidelog.testing.scenario import rerun_command as rerun_command
    from tidelog.testing.scenario import run as run
    from tidelog.testing.scenario import seeds as seeds

_HOMES = {
    "ChildBroker": "local_broker",
    "InnerBroker": "local_broker",
    "broker": "local_broker",
    "child_broker": "local_broker",
    "Crashed": "disk_state",
    "Machine": "machine",
    "Process": "process",
    "Stuck": "loop",
    "VirtualClock": "clock",
    "VirtualDisk": "disk",
    "VirtualHost": "network",
    "VirtualLoop": "loop",
    "VirtualMetadata": "metadata",
    "VirtualNetwork": "network",
    "Weather": "metadata",
    "rerun_command": "scenario",
    "run": "scenario",
    "seeds": "scenario",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
