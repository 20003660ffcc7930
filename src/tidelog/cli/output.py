"""How commands print: tables for people, JSON for programs.  Tables are drawn with rich on a terminal and are
plainly aligned text everywhere else, so that `cut` and `awk` can read them."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any


def print_json(value: Any) -> None:
    """One line, UTF-8."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False).translate(_CONTROLS) + "\n")


# JSON escapes control characters of ASCII; terminals act on these as well.
_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


def plain(text: str) -> str:
    """Text for a terminal: characters that would move the cursor, change colours or the direction of
    writing are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def json_text(value: Any) -> str:
    """Compact JSON; half of a surrogate pair, which UTF-8 cannot say, stays an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, separators=(",", ":"))
    return text


def coloured() -> bool:
    """True if standard output is a terminal that may be written to in colours (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def counted(number: int, what: str, many: str | None = None) -> str:
    """`1 broker`, `2 brokers`; `many`: a plural that does not only add an s."""
    return f"{number} {what}" if number == 1 else f"{number} {many or what + 's'}"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()) -> None:
    """`right`: columns of numbers."""
    texts = [["-" if cell is None else plain(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, texts, right)
        return
    widths = [max(len(line[at]) for line in [list(columns), *texts]) for at in range(len(columns))]
    for line in [list(columns), *texts]:
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(line, widths, columns, strict=True)
        ]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _print_rich(columns: Sequence[str], rows: list[list[str]], right: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)


def data_fields(name: str, data: bytes | None) -> dict[str, str | None]:
    """Bytes in JSON: as text when they are UTF-8, as `<name>_base64` when not."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def bytes_text(size: int | None) -> str | None:
    if size is None or size < 0:
        return None
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def time_text(time_ms: int) -> str:
    """UTC, to the millisecond."""
    from datetime import UTC, datetime, timedelta

    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def hush_stdout() -> None:
    """After the reader of stdout has gone: prevents an error at exit when buffered output is written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class ProgressLine:
    """A progress line on stderr; nothing unless stderr is a terminal."""

    EVERY_SECONDS = 0.2

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._next = 0.0
        self._width = 0

    def update(self, now: float, text: str) -> None:
        """`now` in seconds; shows at most a few texts a second."""
        if self._shown and now >= self._next:
            self._next = now + self.EVERY_SECONDS
            sys.stderr.write("\r" + text.ljust(self._width))
            sys.stderr.flush()
            self._width = len(text)

    def clear(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0


class ProgressMeter:
    """How far work is: the count, the rate and, where the total is known, the remaining time.  Shown once the work has
    taken two seconds."""

    AFTER_SECONDS = 2.0

    def __init__(self, noun: str, total: int | None = None, of_bytes: bool = False) -> None:
        """`total`: of `update`'s `position`; `of_bytes`: the position counts bytes of the input and not `noun`s."""
        self._noun = noun
        self._total = total
        self._of_bytes = of_bytes
        self._line = ProgressLine()
        self._began = time.monotonic()

    def update(self, count: int, position: int | None = None, more: str = "") -> None:
        now = time.monotonic()
        seconds = now - self._began
        if seconds < self.AFTER_SECONDS:
            return
        done = count if position is None else position
        total = None if self._of_bytes else self._total
        text = progress_text(self._noun, count, total, seconds) + more
        self._line.update(now, text + remaining_text(done, self._total, seconds))

    def clear(self) -> None:
        self._line.clear()


def progress_text(noun: str, count: int, total: int | None, seconds: float) -> str:
    """`1,200 of 5,000 records, 600/s`"""
    of = f" of {total:,}" if total is not None and total >= count else ""
    plural = noun if (total if of else count) == 1 else noun + "s"
    return f"{count:,}{of} {plural}, {count / seconds:,.0f}/s"


def remaining_text(done: int, total: int | None, seconds: float) -> str:
    """`, about 6 s left`; empty when nobody can know."""
    if total is None or not 0 < done <= total:
        return ""
    left = int(seconds * (total - done) / done + 0.5)
    if left < 120:
        return f", about {left} s left"
    return f", about {left // 60} min left" if left < 7_200 else f", about {left // 3_600} h left"
