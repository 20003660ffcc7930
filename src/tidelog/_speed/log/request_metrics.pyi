"""Plain integers that are counted on the way of every request, and read when somebody asks for metrics."""

from collections.abc import Sequence

TIME_BOUNDS_MS: tuple[int, ...]
END_TO_END_BOUNDS_MS: tuple[int, ...]

class Histogram:
    bounds: tuple[float, ...]
    sum: float
    def __init__(self, bounds: Sequence[float]) -> None: ...
    def observe(self, value: float, times: int = 1) -> None: ...
    def read(self) -> list[int]:
        """How many were at most each of the bounds, and how many there were."""

class AppendTimes:
    """When the batches at a log's end were appended: exactly for the latest, and ever more roughly the older they are."""

    def appended(self, first: int, end: int, now_ms: int) -> None:
        """A batch with the offsets from `first` to before `end`."""

    def fetched(self, ages: Histogram, offset: int, end: int, now_ms: int) -> None:
        """Tells the ages of the batches from `offset` to before `end`."""

    def read(self) -> list[tuple[int, int, int]]:
        """(end, milliseconds, batches) of every mark, the oldest first."""

class RequestMetrics:
    """Of one broker."""

    end_to_end: Histogram
    errors: dict[tuple[int, int], int]
    """(API key, error code) -> how often it was in an answer."""

    def failed(self, api_key: int, code: int, times: int = 1) -> None:
        """An answer has this error code in it."""

    def read(self) -> list[tuple[int, int, int, int, float, float, float, list[int]]]:
        """Of every API that was asked for: (key, requests, bytes in, bytes out, ms in the queue, ms in the handler, ms in
        all, answers that took at most each of TIME_BOUNDS_MS and all answers)."""
