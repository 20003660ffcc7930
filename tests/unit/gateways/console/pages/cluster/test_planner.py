"""The planner's form."""

from __future__ import annotations

import pytest

from tidelog.gateways.console.pages.cluster.planner import LOAD, MACHINE
from tidelog.gateways.console.pages.cluster.planner import _read as plan_read
from tidelog.model.capacity import BadLoad, plan


def test_the_planner_reads_what_the_command_does() -> None:
    defaults = {name: one.default for name, one in (LOAD | MACHINE).items()}
    load, machine = plan_read(defaults)
    assert load.throughput is None and plan(load, machine).brokers > 0
    load, _ = plan_read(defaults | {"throughput": "500MB/s", "groups": "0"})
    assert (load.throughput, load.groups) == (500e6, 0)
    for wrong in (
        {"peak": "0.1"},
        {"throughput": "1KB/s"},
        {"messages": "1e300", "size": "1e300"},
        {"replication": "99"},
    ):
        with pytest.raises(BadLoad):
            plan(*plan_read(defaults | wrong))
