"""The progress of a query: Spark's reports on its micro-batches, summed up for people and for metrics.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Ends = Mapping[tuple[str, int], int]
Offsets = dict[str, dict[str, int]]  # by topic and partition, as checkpoints have them


@dataclass
class QueryProgress:
    """The progress of one output of a pipeline, since this run began."""

    name: str
    state: str = "running"  # starting, running, ended, failed
    batch: int = -1
    batches: int = 0
    records: int = 0
    records_per_s: float = 0.0
    processed_per_s: float = 0.0
    batch_ms: int = 0
    lag: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    watermark: str | None = None
    updated_ms: int = 0
    error: str | None = None
    positions: Offsets = field(default_factory=dict)

    def reported(self, progress: Mapping[str, Any], now_ms: int) -> None:
        """Spark's listener has reported a micro-batch, or that the query is idle."""
        rows = int(progress.get("numInputRows") or 0)
        if int(progress.get("batchId", -1)) != self.batch or rows:
            self.batches += 1
        self.batch = int(progress.get("batchId", self.batch))
        self.records += rows
        self.records_per_s = _rate(progress.get("inputRowsPerSecond"))
        self.processed_per_s = _rate(progress.get("processedRowsPerSecond"))
        self.batch_ms = int((progress.get("durationMs") or {}).get("triggerExecution", 0))
        operators = progress.get("stateOperators") or []
        self.state_rows = sum(int(operator.get("numRowsTotal", 0)) for operator in operators)
        self.state_bytes = sum(int(operator.get("memoryUsedBytes", 0)) for operator in operators)
        self.late_rows += sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in operators)
        self.watermark = (progress.get("eventTime") or {}).get("watermark")
        self.updated_ms = now_ms
        sources = progress.get("sources") or []
        self.positions = the_furthest_behind(offsets_of(source.get("endOffset")) for source in sources)

    def ends(self, ends: Ends) -> None:
        """Computes the lag from the ends of the logs: the records between the positions and the ends."""
        lags = [
            ends[topic, int(index)] - offset
            for topic, partitions in self.positions.items()
            for index, offset in partitions.items()
            if (topic, int(index)) in ends
        ]
        self.lag = sum(max(0, lag) for lag in lags) if lags else None

    def json(self) -> dict[str, Any]:
        return asdict(self)


def _rate(value: Any) -> float:
    """A rate as a number; Spark reports NaN or Infinity for a batch that took no time."""
    try:
        rate = float(value)
    except (TypeError, ValueError):
        return 0.0
    return rate if 0 <= rate < float("inf") else 0.0


def the_furthest_behind(sources: Iterable[Offsets]) -> Offsets:
    """The positions of all sources together; if several sources read a topic, the one that is furthest behind counts."""
    offsets: Offsets = {}
    for source in sources:
        for topic, partitions in source.items():
            mine = offsets.setdefault(topic, {})
            for index, offset in partitions.items():
                mine[index] = min(mine.get(index, offset), offset)
    return offsets


def offsets_of(stored: Any) -> Offsets:
    """The positions of a tidelog source; empty for other sources, which store theirs in other forms."""
    if isinstance(stored, str):
        try:
            stored = json.loads(stored)
        except ValueError:
            return {}
    if not isinstance(stored, dict):
        return {}
    return {
        topic: {index: int(offset) for index, offset in partitions.items()}
        for topic, partitions in stored.items()
        if isinstance(partitions, dict) and not topic.startswith("@")
    }


METRICS = (
    ("records_total", "counter", "Records read since the run began.", "records"),
    ("batches_total", "counter", "Micro-batches since the run began.", "batches"),
    ("late_rows_total", "counter", "Rows left out because the watermark had passed them.", "late_rows"),
    (
        "records_per_second",
        "gauge",
        "Records that arrived a second, in the last micro-batch.",
        "records_per_s",
    ),
    (
        "processed_per_second",
        "gauge",
        "Records processed a second, in the last micro-batch.",
        "processed_per_s",
    ),
    ("batch_milliseconds", "gauge", "What the last micro-batch took.", "batch_ms"),
    ("lag_records", "gauge", "Records between the query and the ends of the logs.", "lag"),
    ("state_rows", "gauge", "Rows in the state of the query.", "state_rows"),
    ("state_bytes", "gauge", "Memory of the state of the query.", "state_bytes"),
)


def prometheus(app: str, queries: Mapping[str, QueryProgress]) -> str:
    """Text for a scraper."""
    lines = []
    for name, kind, about, attribute in METRICS:
        full = f"tidelog_pipeline_{name}"
        lines += [f"# HELP {full} {about}", f"# TYPE {full} {kind}"]
        for query in queries.values():
            value = getattr(query, attribute)
            if value is not None:
                lines.append(f"{full}{_labels(app, query.name)} {value}")
    full = "tidelog_pipeline_up"
    lines += [f"# HELP {full} 1 while the query runs.", f"# TYPE {full} gauge"]
    lines += [
        f"{full}{_labels(app, query.name)} {int(query.state == 'running')}" for query in queries.values()
    ]
    return "\n".join(lines) + "\n"


def _labels(app: str, query: str) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return f'{{pipeline="{quoted(app)}",output="{quoted(query)}"}}'
