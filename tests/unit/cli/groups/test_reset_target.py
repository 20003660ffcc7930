from __future__ import annotations

import click
import pytest

from tests.unit.cli.commands import invoke
from tidelog.cli.groups.reset_target import ago, parse_moment, parse_topic
from tidelog.cli.session import Failure


@pytest.mark.parametrize(
    ("text", "before_ms"),
    [("10m", 600_000), ("1.5h", 5_400_000), ("2d", 172_800_000), ("7s", 7_000), ("9ms", 9)],
)
def test_durations(text: str, before_ms: int) -> None:
    assert ago(text, 10**12) == 10**12 - before_ms


@pytest.mark.parametrize("text", ["10", "m", "-10m", "10 minutes", ""])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write it like 10m"):
        ago(text, 10**12)


def test_moments() -> None:
    assert parse_moment("2026-01-31T09:00Z") == 1_769_850_000_000
    assert parse_moment("1960-01-01") == 0
    with pytest.raises(click.BadParameter, match="'tomorrow' is not a time"):
        parse_moment("tomorrow")


def test_topics_with_and_without_partitions() -> None:
    assert parse_topic("orders") == ("orders", None)
    assert parse_topic("orders:0,12") == ("orders", [0, 12])
    for bad in ("orders:", "orders:x", ":1"):
        with pytest.raises(Failure, match="TOPIC:N,N"):
            parse_topic(bad)


@pytest.mark.parametrize(
    "where", [(), ("--to", "latest", "--offset", "3"), ("--shift", "1", "--duration", "1m")]
)
def test_a_reset_goes_to_exactly_one_place(where: tuple[str, ...]) -> None:
    shown = invoke("groups", "reset", "g", "--all", *where)
    assert shown.exit_code == 2 and "with one of --to" in shown.stderr


@pytest.mark.parametrize("which", [(), ("--all", "--topic", "t")])
def test_a_reset_names_topics_or_takes_all(which: tuple[str, ...]) -> None:
    shown = invoke("groups", "reset", "g", *which, "--to", "latest")
    assert shown.exit_code == 2 and "--topic" in shown.stderr


def test_partitions_and_offsets_are_the_groups_business() -> None:
    assert "cannot be used with --group" in invoke("consume", "t", "--group", "g", "--partition", "1").stderr
    assert "beginning, end or a time" in invoke("consume", "t", "--group", "g", "--from", "7").stderr
