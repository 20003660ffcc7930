from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from tests.unit.cli.top.frames import ONE, ZERO, frame, group, topic
from tidelog.cli.top.columns import bars, trend
from tidelog.cli.top.frame import CLUSTER, BrokerSeen, GroupSeen
from tidelog.cli.top.screen import draw
from tidelog.cli.top.view import PLACES, View
from tidelog.cli.top.window import FrameWindow, Picture


def picture(*names: str, **others: object) -> Picture:
    window = FrameWindow()
    topics = [topic(name, 1) for name in ("orders", "__internal", *names)]
    for at_ms in (0, 2_000):
        broker = BrokerSeen(
            at_ms,
            {ZERO: at_ms, ONE: 0},
            {ZERO: 0, ONE: 0},
            {ZERO: at_ms},
            (group("billing", p0=0), group("idle")),
        )
        found = window.add(frame(at_ms, {1: broker}, *topics, **others))
    return found


def plain(lines: list[Text]) -> list[str]:
    return [one.plain.rstrip() for one in lines]


def pressed(view: View, *keys: str) -> View:
    for key in keys:
        view.pressed(key)
    return view


def test_the_views_have_their_rows() -> None:
    view, now = View(), picture("payments")
    topics = plain(draw(view, now, 120, 20))
    assert topics[0].startswith("tidelog top   cluster test")
    assert "2 brokers   2 topics" in topics[1] and "in 1k/s" in topics[1] and "lag 2k" in topics[1]
    assert topics[4].split()[:3] == ["TOPIC", "IN/S", "BYTES"]
    assert topics[5].split()[:2] == ["orders", "1k"] and topics[6].split()[0] == "payments"
    assert len(topics) == 20 and topics[-1].startswith("q quit")
    groups = plain(draw(pressed(view, "2"), now, 120, 20))
    assert groups[5].split()[:3] == ["billing", "2k", "▲1k"] and groups[6].split()[0] == "idle"
    brokers = plain(draw(pressed(view, "tab"), now, 120, 20))
    assert brokers[5].split()[:3] == ["1", "host:9001", "controller"]
    assert plain(draw(pressed(view, "right"), now, 120, 20))[5:] == topics[5:]


def test_sorted_by_any_column_both_ways_with_the_unknown_last() -> None:
    view, now = pressed(View(), "i"), picture("a", "z")
    assert [one.name for one in view.rows(now)] == ["orders", "__internal", "a", "z"]
    pressed(view, "S")
    assert [one.name for one in view.rows(now)] == ["__internal", "a", "orders", "z"]
    pressed(view, "r")
    assert [one.name for one in view.rows(now)] == ["z", "orders", "a", "__internal"]
    for _ in view.columns:
        pressed(view, "s")
        assert len(view.rows(now)) == 4
        pressed(view, "r")
        assert view.rows(now)[0] is not None


def test_a_filter_is_typed_kept_and_taken_back() -> None:
    view, now = View(), picture("payments", "parcels")
    pressed(view, "/", "P", "a", "y", "x", "backspace")
    lines = plain(draw(view, now, 120, 20))
    assert lines[-1] == "/Pay█" and "1-1 of 1  with 'Pay'" in lines[3]
    pressed(view, "q", "clear", "p", "enter")
    assert not view.quit, "while one types, a letter is a letter"
    assert [one.name for one in view.rows(now)] == ["payments", "parcels"]
    pressed(view, "escape")
    assert len(view.rows(now)) == 3
    pressed(view, "/", *"x" * 1_000, "enter")
    assert len(view.here.filter) == 100
    assert "none" in plain(draw(view, now, 120, 20))[3]


def test_scrolling_stays_within_the_rows() -> None:
    view, now = View(), picture(*(f"t{number:03}" for number in range(100)))
    first = plain(draw(view, now, 120, 16))[5:-1]
    assert len(first) == 10
    pressed(view, "page-down", "down", "down", "up")
    assert [one.split()[0] for one in plain(draw(view, now, 120, 16))[5:-1]] == [
        f"t{n:03}" for n in range(10, 20)
    ]
    pressed(view, "end")
    assert plain(draw(view, now, 120, 16))[-2].startswith("t099")
    pressed(view, "down", "page-down")
    assert plain(draw(view, now, 120, 16))[-2].startswith("t099")
    assert "92-101 of 101" in plain(draw(view, now, 120, 16))[3]
    pressed(view, "home", "up")
    assert plain(draw(view, now, 120, 16))[5:-1] == first
    pressed(view, "end", "/", "t", "enter")
    assert view.here.scroll == 0, "what is found is seen from its beginning"


def test_help_and_pause() -> None:
    view, now = View(), picture()
    assert any("scroll" in one for one in plain(draw(pressed(view, "?"), now, 100, 30)))
    pressed(view, "q")
    assert not view.help and not view.quit
    assert "PAUSED" in plain(draw(pressed(view, "p"), now, 100, 30))[0]
    assert "PAUSED" not in plain(draw(pressed(view, " "), now, 100, 30))[0]
    assert pressed(view, "q").quit
    assert pressed(pressed(View(), "/"), "quit").quit, "Ctrl-C always ends"


def test_trouble_is_told() -> None:
    window = FrameWindow()
    lost = frame(
        0,
        {1: BrokerSeen(0)},
        topic("orders", 1, -1, lacking=1),
        problems={1: "is\nslow", CLUSTER: "no \x1b[31m"},
    )
    line = plain(draw(View(), window.add(lost), 200, 20))[2]
    assert line == (
        r"no \x1b[31m; 1 partition without a leader; 1 partition under-replicated; broker 1 is\nslow"
    )


@given(
    name=st.text(max_size=400),
    width=st.integers(1, 250),
    height=st.integers(1, 60),
    keys=st.lists(
        st.sampled_from(["1", "2", "3", "s", "S", "r", "i", "/", "?", "end", "page-down", "down", "p"])
    ),
)
def test_any_name_fits_any_terminal_and_is_only_text(
    name: str, width: int, height: int, keys: list[str]
) -> None:
    named = GroupSeen(name, "classic", name, None, {ZERO: 1})
    broker = BrokerSeen(0, {ZERO: 5}, {ZERO: 0}, groups=(named,))
    now = FrameWindow().add(frame(0, {1: broker}, topic(name, 1), problems={1: name}))
    view = pressed(View("groups"), *keys)
    lines = draw(view, now, width, height)
    assert len(lines) <= height
    for line in lines:
        assert cell_len(line.plain) <= width
        assert line.plain.isprintable(), "nothing moves the cursor"


@pytest.mark.parametrize("place", PLACES)
def test_markup_and_escapes_in_names_are_shown_as_they_are(place: str) -> None:
    name = "[bold]x[/] \x1b[2J\x9b31m"
    broker = BrokerSeen(0, groups=(GroupSeen(name, "classic", "Stable", 0),))
    now = FrameWindow().add(frame(0, {1: broker}, topic(name, 1), problems={1: name}))
    assert any(r"[bold]x[/] \x1b[2J\x9b31m" in one for one in plain(draw(View(place), now, 200, 20)))


@pytest.mark.parametrize(("width", "headings"), [(40, ["TOPIC", "IN/S", "BYTES", "IN/S"]), (12, ["TOPIC"])])
def test_a_narrow_terminal_has_fewer_columns(width: int, headings: list[str]) -> None:
    found = plain(draw(View(), picture(), width, 20))[4].split()
    assert found[: len(headings)] == headings and len(found) <= len(headings) + 2


def test_long_names_take_the_place_of_what_matters_less() -> None:
    short, long = picture(), picture("a-topic-with-a-name-that-says-what-it-is-for")
    assert "REPL" in plain(draw(View(), short, 120, 20))[4].split()
    lines = plain(draw(View(), long, 120, 20))
    assert "REPL" not in lines[4].split() and "LAG" in lines[4].split()
    assert any(one.startswith("a-topic-with-a-name-that-says-what-it-is") for one in lines)


def test_a_low_terminal_shows_rows_first() -> None:
    assert plain(draw(View(), picture(), 80, 1))[0].startswith("orders")
    assert len(draw(View(), picture(), 80, 4)) == 4


def test_trends_and_bars() -> None:
    assert [trend(one) for one in (None, 0, 0.001, 12.5, -2_000)] == ["–", "=", "=", "▲12.5", "▼2k"]
    assert bars(()) == "" and bars((0, 0)) == "▁▁" and bars((0, 4, 8)) == "▁▄█"
