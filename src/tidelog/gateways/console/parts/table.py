"""Tables: columns, sorting, pages of rows, and a text for an empty table.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from tidelog.gateways.console.parts.amounts import moment
from tidelog.gateways.console.parts.markup import Child, Markup, h, path

T = TypeVar("T")

ROWS = 50  # of a page
LONG = 13  # characters: a longer figure is set smaller


def time_element(time_ms: int) -> Markup:
    """In UTC; the script shows it in local time where somebody asks for that."""
    return h.time(moment(time_ms), data_ms=time_ms, class_="mono nowrap")


class Column(NamedTuple):
    title: str
    right: bool = False
    """Numbers are aligned right."""
    key: str | None = None
    """The value of `sort` in the query string; None for a column that cannot be sorted."""
    hint: str | None = None


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Child]],
    empty: Child = "No rows.",
    caption: str = "",
    sort: Sort | None = None,
) -> Markup:
    if not rows:
        return h.div(h.p(empty), class_="empty")
    sides = ["right" if column.right else None for column in columns]
    return h.div(
        h.table(
            h.caption(caption, class_="hidden") if caption else None,
            h.thead(h.tr([_head(column, sort) for column in columns])),
            h.tbody([h.tr([h.td(cell, class_=side) for cell, side in _cells(row, sides)]) for row in rows]),
        ),
        class_="table",
        tabindex="0",
        role="region",
        aria_label=caption or "Table",
    )


def _cells(row: Sequence[Child], sides: Sequence[str | None]) -> list[tuple[Child, str | None]]:
    return list(zip(row, sides, strict=True))


def _head(column: Column, sort: Sort | None) -> Markup:
    side = "right" if column.right else None
    if sort is None or column.key is None:
        return h.th(column.title, class_=side, scope="col", title=column.hint)
    order = sort.order(column.key)
    return h.th(
        h.a(
            column.title,
            h.span({"ascending": "▲", "descending": "▼"}.get(order, ""), class_="arrow", aria_hidden="true"),
            href=sort.address(column.key),
        ),
        class_=side,
        scope="col",
        aria_sort=order,
        title=column.hint,
    )


class Sort(NamedTuple):
    """The column that a table is sorted by; `query` is the rest of the query string."""

    place: str
    by: str
    down: bool
    query: dict[str, str]

    def order(self, key: str) -> str:
        if key != self.by:
            return "none"
        return "descending" if self.down else "ascending"

    def address(self, key: str) -> str:
        # The first click sorts names ascending and numbers descending.
        down = not self.down if key == self.by else key != "name"
        return path(self.place, **self.query, sort=key, order="down" if down else "up")


class Pages(NamedTuple):
    place: str
    number: int
    rows: int
    query: dict[str, str]

    @property
    def last(self) -> int:
        return max(1, -(-self.rows // ROWS))

    def cut(self, rows: Sequence[T]) -> Sequence[T]:
        at = (self.shown - 1) * ROWS
        return rows[at : at + ROWS]

    @property
    def shown(self) -> int:
        return min(max(1, self.number), self.last)

    def links(self) -> Markup | None:
        if self.last == 1:
            return None
        at = (self.shown - 1) * ROWS
        return h.nav(
            self._link("Previous", self.shown - 1, "prev"),
            h.span(f"{at + 1:,}–{min(at + ROWS, self.rows):,} of {self.rows:,}"),
            self._link("Next", self.shown + 1, "next"),
            class_="pages",
            aria_label="Pages",
        )

    def _link(self, text: str, number: int, rel: str) -> Markup:
        if not 1 <= number <= self.last:
            return h.span(text, class_="button off", aria_disabled="true")
        return h.a(text, href=path(self.place, **self.query, page=number), rel=rel, class_="button")


def badge(text: str, severity: str = "") -> Markup:
    return h.span(text, class_=f"badge {severity}".strip())


def card(*inside: Child, title: str | None = None, id_: str | None = None, more: Child = None) -> Markup:
    head = h.div(h.h2(title), more, class_="card-head") if title else None
    return h.section(head, inside, class_="card", id=id_)


def figure(
    name: str, value: Child, note: Child = None, severity: str = "", href: str | None = None
) -> Markup:
    """A figure with its name and a note, such as the number of brokers."""
    long = isinstance(value, str) and len(value) > LONG
    inside = [
        h.span(name, class_="label"),
        h.b(value, class_="long" if long else None),
        h.span(note, class_="note") if note else None,
    ]
    if href is not None:
        return h.a(inside, href=href, class_=f"figure {severity}".strip())
    return h.div(inside, class_=f"figure {severity}".strip())


def pairs(items: dict[str, Child]) -> Markup:
    """A list of names and values."""
    return h.dl([h.div(h.dt(name), h.dd(value)) for name, value in items.items()], class_="pairs")
