from __future__ import annotations

import pytest

from tidelog.gateways.console.parts import amounts


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7, "7"),
        (999, "999"),
        (999.6, "1.00k"),
        (1_234, "1.23k"),
        (99_950, "100k"),
        (12_300_000, "12.3M"),
    ],
)
def test_short_numbers_have_three_digits(number: float, text: str) -> None:
    assert amounts.short(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.50 KiB"), (5 << 40, "5 TiB")],
)
def test_sizes(number: int, text: str) -> None:
    assert amounts.size(number) == text


def test_what_is_not_known_is_a_dash() -> None:
    for shown in (
        amounts.count,
        amounts.short,
        amounts.size,
        amounts.moment,
        amounts.duration,
        amounts.percent,
    ):
        assert shown(None) == "–"


def test_times() -> None:
    assert amounts.moment(1_769_850_000_123) == "2026-01-31 09:00:00.123"
    assert amounts.moment(2**62) == str(2**62)
    assert [amounts.duration(one) for one in (0.42, 350, 4_200, 180_000, 7_200_000, 500_000_000)] == [
        "0.42 ms",
        "350 ms",
        "4.2 s",
        "3 min",
        "2 h",
        "6 d",
    ]
