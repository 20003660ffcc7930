"""Verdicts on Tidelog's client beside the others."""

from __future__ import annotations

import pytest

from bench.clients.compare import ARROW, FIRST, ROWS, Case, Figures, cases


@pytest.mark.parametrize(
    ("size", "client", "one", "met"),
    [
        (100, ROWS, {"cpu_us": 9.0, "rate": 100.0}, True),
        (100, ROWS, {"cpu_us": 0.1, "rate": 99.0}, False),
        (100, ARROW, {"cpu_us": 0.1, "rate": 1.0}, True),
        (100, ARROW, {"cpu_us": 0.11, "rate": 900.0}, False),
        (1000, ARROW, {"cpu_us": 0.25, "rate": 1.0}, True),
        (1000, ARROW, {"cpu_us": 0.26, "rate": 900.0}, False),
        (1000, "aiokafka", {"cpu_us": 0.1, "rate": 900.0}, None),
    ],
)
def test_rows_are_held_against_the_rate_and_arrow_against_the_cpu(
    size: int, client: str, one: dict[str, float], met: bool | None
) -> None:
    figures = Figures(Case("produce", size))
    figures.add(FIRST, {"cpu_us": 1.0, "rate": 100.0})
    figures.add(client, one)
    goal = figures.goal(client)
    assert (None if goal is None else goal[1]) is met
    assert ("yes" in str(figures), "NO" in str(figures)) == (met is True, met is False)


def test_reading_has_no_settings_of_its_own() -> None:
    found = cases(("produce", "consume"), (100,), ("same", "default"))
    assert [str(case) for case in found] == [
        "produce, 100 B, same settings",
        "produce, 100 B, default settings",
        "consume, 100 B",
        "produce, 100 B, same settings, keys, nulls, headers, lz4",
        "consume, 100 B, keys, nulls, headers, lz4",
    ]
