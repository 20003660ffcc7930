"""What stands in the columns of each view, how it is sorted, and which columns go first where there is no room.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidelog.cli.output import plain
from tidelog.gateways.console.parts.amounts import NOTHING, count, duration, short, size

BARS = "▁▂▃▄▅▆▇█"
NAME_CELLS_MIN, NAME_CELLS_WISHED = 10, 40
RANK_EXTRA = 6  # columns from here on are worth less than a longer name
NAME_LENGTH_MAX = 300


Style = Callable[[Any], str]


def _usual(row: Any) -> str:
    return ""


@dataclass(frozen=True)
class TopColumn:
    """`value` is what is sorted by; the first column is the name, and as wide as the rest allows (`cells` 0).  `rank`:
    columns with high ones are left out first."""

    heading: str
    cells: int
    rank: int
    value: Callable[[Any], Any]
    text: Callable[[Any], str]
    left: bool = False
    style: Style = _usual


def _number(
    heading: str,
    cells: int,
    rank: int,
    field: str,
    shown: Callable[[Any], str],
    style: Style = _usual,
) -> TopColumn:
    def value(row: Any) -> Any:
        return getattr(row, field)

    return TopColumn(heading, cells, rank, value, lambda row: shown(value(row)), style=style)


def _word(heading: str, cells: int, rank: int, field: str, style: Style = _usual) -> TopColumn:
    def text(row: Any) -> str:
        return name_text(str(getattr(row, field)))

    return TopColumn(heading, cells, rank, text, text, left=True, style=style)


def name_text(name: str) -> str:
    """Names are data: what could move the cursor or change colours is shown as an escape."""
    return plain(name[:NAME_LENGTH_MAX]) or '""'


def rate(number: float | None) -> str:
    return short(number) if number is None or number >= 0.005 or number == 0 else "<0.01"


def trend(number: float | None) -> str:
    if number is None or abs(number) < 0.005:
        return NOTHING if number is None else "="
    return f"{'▲' if number > 0 else '▼'}{short(abs(number))}"


def bars(line: tuple[int, ...]) -> str:
    top = max(line, default=0)
    return "".join(
        BARS[min(len(BARS) - 1, amount * len(BARS) // (top + 1))] if amount else BARS[0] for amount in line
    )


def _troubled(row: Any) -> str:
    return "bold red" if row.offline else "yellow" if row.under_replicated else ""


def _state_style(row: Any) -> str:
    return {"Stable": "green", "Empty": "dim", "Dead": "dim"}.get(row.state, "yellow")


def _lag_style(row: Any) -> str:
    return "" if not row.lag or not row.lag_per_sec else "red" if row.lag_per_sec > 0 else "green"


def _broker_style(row: Any) -> str:
    return "bold red" if row.problem else ""


def _disk_style(row: Any) -> str:
    is_known = row.disk_bytes and row.disk_free_bytes is not None
    return "" if not is_known else "red" if row.disk_free_bytes < row.disk_bytes * 0.2 else ""


def _broker_state(row: Any) -> str:
    return name_text(row.problem) if row.problem else "controller" if row.controller else "up"


TOPICS = (
    _word("TOPIC", 0, 0, "name", _troubled),
    _number("IN/S", 7, 1, "records_in_per_sec", rate),
    _number("BYTES IN/S", 10, 2, "bytes_in_per_sec", size),
    _number("OUT/S", 7, 3, "records_out_per_sec", rate),
    _number("~BYTES OUT/S", 12, 6, "bytes_out_per_sec", size),
    _number("LAG", 8, 4, "lag", short),
    _number("SIZE", 9, 5, "size_bytes", size),
    _number("RECORDS", 9, 8, "records", short),
    _number("GROUPS", 6, 10, "groups", count),
    _number("PARTS", 6, 7, "partitions", count),
    _number("REPL", 4, 11, "replication_factor", count),
    _number("UNDER-REPL", 10, 9, "under_replicated", count, _troubled),
    _number("OFFLINE", 7, 12, "offline", count, _troubled),
)
GROUPS = (
    _word("GROUP", 0, 0, "name"),
    _number("LAG", 8, 1, "lag", short, _lag_style),
    _number("TREND/S", 8, 2, "lag_per_sec", trend, _lag_style),
    _number("OUT/S", 7, 4, "records_out_per_sec", rate),
    _number("CAUGHT UP IN", 12, 7, "caught_up_sec", lambda s: duration(None if s is None else s * 1000)),
    _number("MEMBERS", 7, 5, "members", count),
    _word("STATE", 20, 3, "state", _state_style),
    _word("TYPE", 8, 6, "type"),
    _number("TOPICS", 6, 10, "topics", count),
    _number("PARTS", 6, 9, "partitions", count),
    _number("BROKER", 6, 11, "coordinator", str),
    TopColumn(
        "LAG, LATELY", 30, 8, lambda row: row.lag, lambda row: bars(row.lags), left=True, style=_lag_style
    ),
)
BROKERS = (
    TopColumn(
        "BROKER",
        0,
        0,
        lambda row: row.id,
        lambda row: f"{row.id} {plain(row.address)}".rstrip(),
        True,
        _broker_style,
    ),
    TopColumn("STATE", 16, 1, _broker_state, _broker_state, True, _broker_style),
    _number("LEADS", 6, 2, "leaders", count),
    _number("REPLICAS", 8, 5, "replicas", count),
    _number("UNDER-REPL", 10, 3, "under_replicated", count),
    _number("OUT OF SYNC", 11, 9, "out_of_sync", count),
    _number("IN/S", 7, 4, "records_in_per_sec", rate),
    _number("BYTES IN/S", 10, 6, "bytes_in_per_sec", size),
    _number("BYTES", 9, 7, "size_bytes", size),
    _number("DISK FREE", 9, 8, "disk_free_bytes", size, _disk_style),
    _number("GROUPS", 6, 10, "groups", count),
    TopColumn("RACK", 8, 11, lambda row: row.rack, lambda row: name_text(row.rack or NOTHING), True),
)


def fitting(columns: tuple[TopColumn, ...], width: int, longest: int) -> list[TopColumn]:
    """The columns that fit beside the names, in their order.  For names as long as `longest` the less important columns go;
    the others only where there is hardly any room."""
    kept = list(columns)

    def name_cells() -> int:
        return width - sum(column.cells + 1 for column in kept[1:])

    for rank_min, cells in ((RANK_EXTRA, min(longest, NAME_CELLS_WISHED)), (0, NAME_CELLS_MIN)):
        while name_cells() < cells and (spare := [column for column in kept[1:] if column.rank >= rank_min]):
            kept.remove(max(spare, key=lambda column: column.rank))
    return kept


def ordered(rows: list[Any], column: TopColumn, backwards: bool) -> list[Any]:
    """What is not known comes last, whatever the order; equals stay in the order of names."""
    with_value = [row for row in rows if column.value(row) is not None]
    unknown = [row for row in rows if column.value(row) is None]
    return sorted(with_value, key=column.value, reverse=backwards) + unknown
