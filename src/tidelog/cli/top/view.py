"""What the person at the terminal wants to see: which view, sorted and filtered how, scrolled where.  Pure.

Keys change it; the screen is drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.cli.top.columns import BROKERS, GROUPS, TOPICS, TopColumn, ordered
from tidelog.cli.top.window import Picture

FILTER_MAX = 100
COLUMNS = {"topics": TOPICS, "groups": GROUPS, "brokers": BROKERS}
PLACES = tuple(COLUMNS)


@dataclass
class ViewState:
    """One view, as it was left.  `column` is what it is sorted by."""

    column: int
    backwards: bool
    filter: str = ""
    scroll: int = 0


class View:
    def __init__(self, place: str = "topics", internal: bool = False) -> None:
        self.place = place
        self.internal = internal
        self.paused = False
        self.help = False
        self.editing = False
        self.quit = False
        self.keys = True
        """Are there any to press?"""
        # What moves most comes first; brokers stay in their order.
        self.places = {
            "topics": ViewState(1, True),
            "groups": ViewState(1, True),
            "brokers": ViewState(0, False),
        }
        self.page = 10
        """Rows on a page, as last drawn."""

    @property
    def here(self) -> ViewState:
        return self.places[self.place]

    @property
    def columns(self) -> tuple[TopColumn, ...]:
        return COLUMNS[self.place]

    def rows(self, picture: Picture) -> list[Any]:
        """All that pass the filter, in order."""
        rows: Sequence[Any] = getattr(picture, self.place)
        if self.place == "topics" and not self.internal:
            rows = [row for row in rows if not row.internal]
        name, wanted = self.columns[0], self.here.filter.lower()
        matching = [row for row in rows if wanted in name.text(row).lower()] if wanted else list(rows)
        return ordered(matching, self.columns[self.here.column], self.here.backwards)

    def scrolled(self, count: int, page: int) -> int:
        """The first row to show of `count`, when `page` fit; never past the end."""
        self.page = max(1, page)
        self.here.scroll = max(0, min(self.here.scroll, count - self.page))
        return self.here.scroll

    def pressed(self, key: str) -> None:
        if key == "quit":
            self.quit = True
        elif self.editing:
            self._edit(key)
        elif self.help:
            # Any key leaves the help, and does nothing else.
            self.help = False
        elif key in _MOVES:
            self._move(key)
        else:
            self._command(key)

    def _command(self, key: str) -> None:
        here = self.here
        if key == "q":
            self.quit = True
        elif key in ("?", "h"):
            self.help = True
        elif key in ("1", "2", "3"):
            self.place = PLACES[int(key) - 1]
        elif key in ("tab", "right", "back-tab", "left"):
            step = 1 if key in ("tab", "right") else -1
            self.place = PLACES[(PLACES.index(self.place) + step) % len(PLACES)]
        elif key in ("s", "S"):
            here.column = (here.column + (1 if key == "s" else -1)) % len(self.columns)
            # Numbers are wanted from the largest down, words from A.
            here.backwards, here.scroll = not self.columns[here.column].left, 0
        elif key == "r":
            here.backwards = not here.backwards
        elif key == "/":
            self.editing = True
        elif key == "escape":
            here.filter = ""
        elif key in ("p", " "):
            self.paused = not self.paused
        elif key == "i":
            self.internal = not self.internal

    def _edit(self, key: str) -> None:
        here = self.here
        if key == "enter":
            self.editing = False
        elif key == "escape":
            self.editing, here.filter = False, ""
        elif key == "backspace":
            here.filter = here.filter[:-1]
        elif key == "clear":
            here.filter = ""
        elif len(key) == 1 and len(here.filter) < FILTER_MAX:
            here.filter, here.scroll = here.filter + key, 0

    def _move(self, key: str) -> None:
        here, step = self.here, _MOVES[key]
        if key in ("home", "g"):
            here.scroll = 0
        elif key in ("end", "G"):
            here.scroll = _FAR
        else:
            here.scroll = max(0, here.scroll + step * (self.page if key.startswith("page") else 1))


_FAR = 1 << 40  # the drawing takes it back to the last page
_MOVES = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "page-up": -1,
    "page-down": 1,
    "home": 0,
    "g": 0,
    "end": 0,
    "G": 0,
}
