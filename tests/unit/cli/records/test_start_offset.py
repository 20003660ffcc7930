from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.records.start_offset import BadStart, Start, parse_start

NOW_MS = 1_750_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", Start("beginning")),
        ("EARLIEST", Start("beginning")),
        ("end", Start("end")),
        ("latest", Start("end")),
        ("0", Start("offset", 0)),
        ("1500", Start("offset", 1500)),
        ("-5", Start("last", 5)),
        ("-10m", Start("time", NOW_MS - 600_000)),
        ("-1.5h", Start("time", NOW_MS - 5_400_000)),
        ("-2d", Start("time", NOW_MS - 172_800_000)),
        ("-250ms", Start("time", NOW_MS - 250)),
        ("1970-01-01T00:00:01Z", Start("time", 1000)),
        ("2026-01-31T09:00:00.250+01:00", Start("time", 1769846400250)),
        ("-99999d", Start("time", 0)),
    ],
)
def test_places_are_read_as_people_write_them(text: str, expected: Start) -> None:
    assert parse_start(text, NOW_MS) == expected


def test_a_time_without_a_zone_is_local() -> None:
    expected = int(datetime(2026, 1, 31, 9).astimezone().timestamp() * 1000)
    assert parse_start("2026-01-31T09:00", NOW_MS) == Start("time", expected)
    assert parse_start("2026-01-31", NOW_MS).kind == "time"


@pytest.mark.parametrize("text", ["", "now", "-", "-10x", "10m", "2026-13-01", "1e3", "-m"])
def test_anything_else_is_refused_with_what_is_possible(text: str) -> None:
    with pytest.raises(BadStart, match="use beginning, end, an offset"):
        parse_start(text, NOW_MS)


@given(st.text(max_size=20))
def test_no_text_breaks_it(text: str) -> None:
    try:
        assert parse_start(text, NOW_MS).value >= 0
    except BadStart:
        pass
