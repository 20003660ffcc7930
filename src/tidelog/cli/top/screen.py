"""Draws a picture for a terminal of some size: lines of text, none wider than the terminal, no more than it is high.
Pure; `terminal` shows them.

All texts are shown as they are: nothing in a name is taken for markup."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from tidelog.cli.output import plain
from tidelog.cli.top.columns import TopColumn, fitting, name_text, rate
from tidelog.cli.top.frame import CLUSTER
from tidelog.cli.top.rows import total
from tidelog.cli.top.view import COLUMNS, PLACES, View
from tidelog.cli.top.window import Picture
from tidelog.gateways.console.parts.amounts import clock_time, count, short, size

KEYS = "q quit  1 2 3 views  s sort  r reverse  / filter  p pause  i internal  ? help"
HELP = """
1 2 3, Tab, left, right   topics, groups, brokers
up, down, PgUp, PgDn      scroll; Home and End go to the first and the last row
s, S                      sort by the next or the previous column
r                         reverse the order
/                         filter by name; Enter keeps the filter, Esc removes it
p, space                  pause and resume
i                         show internal topics
q, Ctrl-C                 quit

IN/S          records written, from end offsets; like all rates, over the last ten seconds
BYTES IN/S    growth of the logs; briefly lower when retention deletes segments
OUT/S         records that groups have committed; readers without a group are not counted
~BYTES OUT/S  the same, multiplied by the mean record size of the topic
LAG           in offsets; ▲ grows, ▼ shrinks per second
UNDER-REPL    partitions with replicas that are not in sync

Press any key to return.
""".strip("\n")


def draw(view: View, picture: Picture | None, width: int, height: int) -> list[Text]:
    if width < 1 or height < 1:
        return []
    if view.help:
        return [_line(line, width) for line in HELP.splitlines()[:height]]
    if picture is None:
        return [_line("tidelog top: polling…", width)]
    top = [_title(view, picture, width), _sums(view, picture, width), _health(picture, width)]
    # A small terminal shows rows before it shows what is around them.
    top = top[: max(0, height - 5)]
    foot = [_foot(view, width)] if height >= 3 or view.editing else []
    rows = view.rows(picture)
    table_head = 2 if height - len(top) - len(foot) >= 3 else 0
    page = max(0, height - len(top) - len(foot) - table_head)
    first = view.scrolled(len(rows), page)
    shown = rows[first : first + page]
    longest = max((cell_len(view.columns[0].text(row)) for row in shown), default=0)
    columns = fitting(view.columns, width, longest)
    lines = list(top)
    if table_head:
        lines += [_tabs(view, len(rows), first, len(shown), width), _headings(view, columns, width)]
    lines += [_row(columns, row, width) for row in shown]
    lines += [Text()] * (height - len(lines) - len(foot))
    return lines + foot


def _title(view: View, picture: Picture, width: int) -> Text:
    frame = picture.frame
    paused = "   PAUSED" if view.paused else ""
    cluster = name_text(frame.cluster_id or "without a name")
    return _line(f"tidelog top   cluster {cluster}   {clock_time(frame.time_ms)} UTC{paused}", width, "bold")


def _sums(view: View, picture: Picture, width: int) -> Text:
    topics = [topic for topic in picture.topics if view.internal or not topic.internal]
    groups = picture.groups
    records_in = total(topic.records_in_per_sec for topic in topics)
    bytes_in = total(topic.bytes_in_per_sec for topic in topics)
    records_out = total(topic.records_out_per_sec for topic in topics)
    lag = total(group.lag for group in groups)
    parts = (
        f"{_count(len(picture.frame.nodes), 'broker')}",
        f"{_count(len(topics), 'topic')}",
        f"{_count(sum(topic.partitions for topic in topics), 'partition')}",
        f"{_count(len(groups), 'group')}",
        f"in {rate(records_in)}/s {size(bytes_in)}/s",
        f"out {rate(records_out)}/s",
        f"lag {short(lag)}",
    )
    return _line("   ".join(parts), width)


def _health(picture: Picture, width: int) -> Text:
    words = problems(picture)
    if words:
        return _line("; ".join(words), width, "bold red")
    return _line("all replicas are in sync", width, "green")


def problems(picture: Picture) -> list[str]:
    """What is wrong, the worst first."""
    offline = sum(topic.offline for topic in picture.topics)
    lacking = sum(topic.under_replicated for topic in picture.topics)
    problem_texts = picture.frame.problems
    lines = [plain(problem_texts[CLUSTER])] if CLUSTER in problem_texts else []
    lines += [f"{_count(offline, 'partition')} without a leader"] if offline else []
    lines += [f"{_count(lacking, 'partition')} under-replicated"] if lacking else []
    lines += [f"broker {broker.id} {plain(broker.problem)}" for broker in picture.brokers if broker.problem]
    return lines


def _tabs(view: View, rows: int, first: int, shown: int, width: int) -> Text:
    text = Text(no_wrap=True)
    for number, place in enumerate(PLACES, 1):
        style = "reverse bold" if place == view.place else ""
        text.append(f" {number} {place.title()} ", style)
        text.append(" ")
    here = view.here
    arrow = "↓" if here.backwards else "↑"
    where = f"{first + 1}-{first + shown} of {rows:,}" if shown else f"none of {rows:,}" if rows else "none"
    text.append(f"  by {COLUMNS[view.place][here.column].heading} {arrow}  {where}")
    if here.filter:
        text.append(f"  with {plain(here.filter)!r}")
    text.truncate(width)
    return text


def _headings(view: View, columns: list[TopColumn], width: int) -> Text:
    text, sorted_by = Text(no_wrap=True), view.columns[view.here.column]
    for column, cells in zip(columns, _widths(columns, width), strict=True):
        if text:
            text.append(" ", "reverse")
        text.append(
            _cell(column.heading, cells, column.left), "reverse bold" if column is sorted_by else "reverse"
        )
    text.truncate(width)
    return text


def _row(columns: list[TopColumn], row: Any, width: int) -> Text:
    text = Text(no_wrap=True)
    for column, cells in zip(columns, _widths(columns, width), strict=True):
        if text:
            text.append(" ")
        text.append(_cell(column.text(row), cells, column.left), column.style(row))
    text.truncate(width)
    return text


def _widths(columns: list[TopColumn], width: int) -> list[int]:
    others = sum(column.cells + 1 for column in columns[1:])
    return [max(1, width - others), *(column.cells for column in columns[1:])]


def _cell(text: str, cells: int, left: bool) -> str:
    length = cell_len(text)
    if length > cells:
        return set_cell_size(text, max(0, cells - 1)) + "…"
    return text + " " * (cells - length) if left else " " * (cells - length) + text


def _foot(view: View, width: int) -> Text:
    if view.editing:
        return _line(f"/{plain(view.here.filter)}█", width)
    return _line(KEYS if view.keys else "Ctrl-C quit", width, "dim")


def _line(text: str, width: int, style: str = "") -> Text:
    line = Text(text, style, no_wrap=True)
    line.truncate(width, overflow="ellipsis")
    return line


def _count(number: int, noun: str) -> str:
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")
