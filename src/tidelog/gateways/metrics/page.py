"""One page of metrics in Prometheus's text format.  Series are added in any order and written family by family."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidelog.gateways.metrics.families import FAMILIES

Shows = Callable[[str], bool]
"""Asked with the labels of a series."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def labels_of(names: Sequence[str], values: Sequence[object]) -> str:
    """`{name="value",...}`; escaped, so that a name with quotes stays a name."""
    inside = ",".join([f'{name}="{_escaped(str(value))}"' for name, value in zip(names, values, strict=True)])
    return "{" + inside + "}" if inside else ""


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        text = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    # A name that is not UTF-8 would make the whole page unreadable.
    return text.encode("utf-8", "replace").decode()


def labels_in(line: str) -> str:
    """The labels in the first row of a series."""
    row, _, _ = line.partition("\n")
    return row[row.index("{") : row.rindex("}") + 1] if "{" in row else ""


def head_of(name: str) -> str:
    family = FAMILIES[name]
    return f"# HELP {name} {family.doc}\n# TYPE {name} {family.kind}\n"


class Page:
    """`series_max`: of each family; further series are left out and counted."""

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._lines: dict[str, list[str]] = {name: [] for name in FAMILIES}
        self.left_out = 0

    def put(self, name: str, value: float, *labels: object) -> None:
        self.put_at(name, value, labels_of(FAMILIES[name].labels, labels))

    def put_at(self, name: str, value: float, labels: str) -> None:
        """`labels` from `labels_of`, for several families with the same labels."""
        lines = self._lines[name]
        if len(lines) < self._series_max:
            lines.append(f"{name}{labels} {value}\n")
        else:
            self.left_out += 1

    def put_histogram(
        self, name: str, bounds: Sequence[float], counts: Sequence[int], total: float, *labels: object
    ) -> None:
        """`counts`: cumulative, for each of the bounds, then in all."""
        lines, family = self._lines[name], FAMILIES[name]
        if len(lines) >= self._series_max:
            self.left_out += 1
            return
        inside = labels_of(family.labels, labels)[1:-1]
        comma = f"{inside}," if inside else ""
        rows = [
            f'{name}_bucket{{{comma}le="{bound:g}"}} {count}\n'
            for bound, count in zip(bounds, counts, strict=False)
        ]
        rows.append(f'{name}_bucket{{{comma}le="+Inf"}} {counts[-1]}\n')
        shown = f"{{{inside}}}" if inside else ""
        rows.append(f"{name}_sum{shown} {total}\n")
        rows.append(f"{name}_count{shown} {counts[-1]}\n")
        lines.append("".join(rows))

    def families(self, shows: Shows | None = None) -> Iterator[bytes]:
        """The page, a family at a time: joining tens of thousands of lines at once takes long.  `shows` is asked with the
        labels of each series that may be left out."""
        for name, every_line in self._lines.items():
            lines = every_line if shows is None else [line for line in every_line if shows(labels_in(line))]
            if lines:
                yield (head_of(name) + "".join(lines)).encode()
