from __future__ import annotations

import click
import pytest

from tidelog.cli.partitions.command import _rate
from tidelog.cli.partitions.throttles import FOLLOWERS, LEADERS, Copy, nodes_of, replicas


def test_whoever_may_lead_is_throttled_as_leader_and_who_is_new_as_follower() -> None:
    copies = [Copy("a", 0, (1, 2), (3,)), Copy("a", 4, (2,), (1, 3)), Copy("b", 1, (3, 1), (2,))]
    assert replicas(copies) == {
        "a": {LEADERS: "0:1,0:2,4:2", FOLLOWERS: "0:3,4:1,4:3"},
        "b": {LEADERS: "1:3,1:1", FOLLOWERS: "1:2"},
    }


def test_lists_name_the_brokers_that_were_limited() -> None:
    assert nodes_of("0:1,0:2,4:2") == {1, 2}
    assert nodes_of("*") == nodes_of("") == nodes_of("0:x") == set()


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1", 1), ("1500", 1500), ("500K", 500 << 10), ("20M", 20 << 20), ("2g", 2 << 30), (None, None)],
)
def test_a_rate_is_bytes_a_second(text: str | None, rate: int | None) -> None:
    assert _rate(click.Context(click.Command("x")), click.Option(["--throttle"]), text) == rate


@pytest.mark.parametrize("text", ["", "0", "-1", "M", "1.5M", "20MB", "0K", "fast"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="such as 50000000, 500K or 20M"):
        _rate(click.Context(click.Command("x")), click.Option(["--throttle"]), text)
