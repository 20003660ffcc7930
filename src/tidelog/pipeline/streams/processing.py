"""`process`: runs a function over the rows of one key, with state and timers, on Spark's transformWithState.

def rule(key, rows, context):
    total = context.stores.total
    for row in rows:
        total.set(total.get(0.0) + row.amount)
    context.timers.at(context.now_ms + 60_000)
    yield {"card": key, "total": total.get()}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.streams.rows import Row
from tidelog.pipeline.streams.stores import Declared, StoreOpener

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Time = Literal["none", "event", "processing"]
MODES = {"none": "None", "event": "EventTime", "processing": "ProcessingTime"}
Function = Callable[[Any, Iterator[Row], "ProcessContext"], Iterable[Any] | None]
OnTimer = Callable[[Any, int, "ProcessContext"], Iterable[Any] | None]


class Stores:
    """The declared stores as attributes."""

    def __init__(self, handle: Any, openings: Mapping[str, StoreOpener]) -> None:
        for name, opener in openings.items():
            setattr(self, name, opener.opened(handle, name))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class KeyTimers:
    """The times, in milliseconds since 1970, at which `on_timer` is called for this key."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def at(self, time_ms: int) -> None:
        self._handle.registerTimer(int(time_ms))

    def delete(self, time_ms: int) -> None:
        self._handle.deleteTimer(int(time_ms))

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._handle.listTimers()))


class ProcessContext:
    """`now_ms`: the machine's time; `watermark_ms`: the watermark of the events, -1 without one."""

    def __init__(self, stores: Stores, timers: KeyTimers, now_ms: int, watermark_ms: int) -> None:
        self.stores, self.timers = stores, timers
        self.now_ms, self.watermark_ms = now_ms, watermark_ms


class KeyedProcessor(StatefulProcessor):
    """Called by Spark on the executors, once for each key with new rows or expired timers."""

    def __init__(
        self,
        function: Function,
        on_timer: OnTimer | None,
        declared: Mapping[str, Declared],
        schema: StructType,
        single_key: bool,
    ) -> None:
        self._function, self._on_timer = function, on_timer
        self._openings = {name: StoreOpener(store) for name, store in declared.items()}
        self._schema = schema
        self._single_key = single_key

    def init(self, handle: Any) -> None:
        self._stores = Stores(handle, self._openings)
        self._timers = KeyTimers(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[SparkRow]:  # noqa: N802, N803
        given = (Row(row.asDict()) for row in rows)
        yield from self._rows(self._function(self._key(key), given, self._context(timerValues)))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[SparkRow]:  # noqa: N802, N803
        if self._on_timer is not None:
            due_ms = expiredTimerInfo.getExpiryTimeInMs()
            yield from self._rows(self._on_timer(self._key(key), due_ms, self._context(timerValues)))

    def close(self) -> None:
        pass

    def _key(self, key: Any) -> Any:
        return key[0] if self._single_key else tuple(key)

    def _context(self, times: Any) -> ProcessContext:
        return ProcessContext(
            self._stores, self._timers, times.getCurrentProcessingTimeInMs(), times.getCurrentWatermarkInMs()
        )

    def _rows(self, results: Iterable[Any] | None) -> Iterator[SparkRow]:
        names = self._schema.names
        for result in results or ():
            if isinstance(result, dict):
                unknown = result.keys() - set(names)
                if unknown:
                    raise PipelineError(
                        f"process returned fields that are not in its schema: {', '.join(sorted(unknown))}"
                    )
                values = [result.get(name) for name in names]
            else:
                values = list(result) if isinstance(result, tuple | list) else [result]
                if len(values) != len(names):
                    raise PipelineError(f"process returned {len(values)} values, its schema has {len(names)}")
            yield SparkRow(**dict(zip(names, values, strict=True)))


def time_mode(
    declared: Mapping[str, Declared], on_timer: bool, watermarked: bool, wanted: Time | None
) -> Time:
    """The time mode of `process`: a store's ttl uses the machine's clock; timers use event time if there is a watermark."""
    lives = any(store.ttl is not None for store in declared.values())
    if wanted is None:
        wanted = "processing" if lives else "event" if on_timer and watermarked else "none"
        if on_timer and wanted == "none":
            wanted = "processing"
    if lives and wanted != "processing":
        raise PipelineError(f"a store's ttl uses the machine's clock: it does not go with time={wanted!r}")
    if wanted == "event" and not watermarked:
        raise PipelineError("timers on event time need .watermark(column, delay) first")
    if on_timer and wanted == "none":
        raise PipelineError("on_timer needs time='event' or time='processing'")
    return wanted


def processed(
    frame: DataFrame, keys: list[Any], process: KeyedProcessor, schema: StructType, time: Time
) -> DataFrame:
    return frame.groupBy(*keys).transformWithState(process, schema, "Append", MODES[time])
