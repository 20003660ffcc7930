from __future__ import annotations

import json

import pytest

from tidelog.cli.output import (
    ProgressLine,
    bytes_text,
    counted,
    data_fields,
    plain,
    print_json,
    print_table,
    time_text,
)


def test_tables_are_plainly_aligned_when_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "COUNT"), [("a", 5), ("longer", 12345), ("c", None)], right=("COUNT",))
    assert capsys.readouterr().out == "NAME    COUNT\na           5\nlonger  12345\nc           -\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_572_864, "1.5 MiB"),
        (5 << 40, "5.0 TiB"),
        (-1, None),
        (None, None),
    ],
)
def test_sizes_are_short(size: int | None, text: str | None) -> None:
    assert bytes_text(size) == text


def test_one_is_not_several() -> None:
    assert [counted(number, "broker") for number in (0, 1, 2)] == ["0 brokers", "1 broker", "2 brokers"]


def test_times_are_utc_to_the_millisecond() -> None:
    assert time_text(1_750_000_000_123) == "2025-06-15T15:06:40.123Z"
    assert time_text(2**62) == f"{2**62} ms"


def test_bytes_are_text_where_they_are_text() -> None:
    assert data_fields("value", "ä".encode()) == {"value": "ä"}
    assert data_fields("value", b"\xff") == {"value_base64": "/w=="}
    assert data_fields("value", None) == {"value": None}


def test_tables_have_no_stray_lines_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    print_table(("NAME", "COUNT"), [("[bold]a", 5)], right=("COUNT",))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "[bold]a" in lines[1], "data is data, not markup"


def test_progress_is_shown_on_a_terminal_only_and_wiped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = ProgressLine()
    silent.update(1.0, "10 records")
    silent.clear()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = ProgressLine()
    shown.update(1.0, "10 records")
    shown.update(1.1, "too soon to be shown")
    shown.update(1.3, "20")
    shown.clear()
    assert capsys.readouterr().err == "\r10 records\r20        \r  \r"


HOSTILE = "a\x1b[2J\x9b31m\u202e\nb"


@pytest.mark.parametrize("terminal", [True, False])
def test_names_cannot_speak_to_the_terminal(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "80")
    print_table(("NAME",), [(HOSTILE,)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and r"a\x1b[2J\x9b31m\u202e\nb" in lines[1]
    assert plain("Grüße 東京") == "Grüße 東京"


def test_json_has_no_control_characters_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": HOSTILE})
    shown = capsys.readouterr().out
    assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for one in shown.rstrip("\n"))
    assert json.loads(shown) == {"name": HOSTILE}
