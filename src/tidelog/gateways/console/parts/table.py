"""Tables: columns with their side, pages of rows, columns to sort by, what to say when there is nothing.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from tidelog.gateways.console.parts.markup import Child, Markup, h, path

T = TypeVar("T")

ROWS = 50
LONG = 13  # letters of a figure that is set smaller


class Column(NamedTuple):
    title: str
    right: bool = False
    """Numbers stand on the right."""
    key: str | None = None
    """What to ask for in order to sort by it."""
    hint: str | None = None


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Child]],
    empty: Child = "Nothing here.",
    caption: str = "",
    sort: Sort | None = None,
) -> Markup:
    if not rows:
        return h.div(h.p(empty), class_="empty")
    sides = ["right" if one.right else None for one in columns]
    return h.div(
        h.table(
            h.caption(caption, class_="hidden") if caption else None,
            h.thead(h.tr([_head(one, sort) for one in columns])),
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
    """By which column, and what else is asked for on this page."""

    place: str
    by: str
    down: bool
    query: dict[str, str]

    def order(self, key: str) -> str:
        if key != self.by:
            return "none"
        return "descending" if self.down else "ascending"

    def address(self, key: str) -> str:
        # Names are read from a, numbers from the largest.
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
            self._link("Before", self.shown - 1, "prev"),
            h.span(f"{at + 1:,}–{min(at + ROWS, self.rows):,} of {self.rows:,}"),
            self._link("Next", self.shown + 1, "next"),
            class_="pages",
            aria_label="Pages",
        )

    def _link(self, text: str, number: int, rel: str) -> Markup:
        if not 1 <= number <= self.last:
            return h.span(text, class_="button off", aria_disabled="true")
        return h.a(text, href=path(self.place, **self.query, page=number), rel=rel, class_="button")


def badge(text: str, level: str = "") -> Markup:
    return h.span(text, class_=f"badge {level}".strip())


def card(*inside: Child, title: str | None = None, id_: str | None = None, more: Child = None) -> Markup:
    head = h.div(h.h2(title), more, class_="card-head") if title else None
    return h.section(head, inside, class_="card", id=id_)


def figure(name: str, value: Child, note: Child = None, level: str = "", href: str | None = None) -> Markup:
    """One number that matters."""
    long = isinstance(value, str) and len(value) > LONG
    inside = [
        h.span(name, class_="label"),
        h.b(value, class_="long" if long else None),
        h.span(note, class_="note") if note else None,
    ]
    if href is not None:
        return h.a(inside, href=href, class_=f"figure {level}".strip())
    return h.div(inside, class_=f"figure {level}".strip())


def pairs(items: dict[str, Child]) -> Markup:
    """Names and what they are."""
    return h.dl([h.div(h.dt(name), h.dd(value)) for name, value in items.items()], class_="pairs")
