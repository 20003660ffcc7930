"""The rows of a table on their way: what `Producer.send_batch` returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Self

from tidelog._speed.client.delivery import Delivery
from tidelog.client.producer.batch import OutgoingBatch


class BatchDelivery:
    """Done when every row is acknowledged or has failed.

    sent = producer.send_batch("orders", table)
    print(sent.get(timeout=60), "rows written")     # or, in asyncio: await sent
    """

    def __init__(self, rows: int, batches: Sequence[OutgoingBatch]) -> None:
        self.rows = rows
        self._batches = tuple(batches)

    def add_callback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """`callback(*args, rows, **kwargs)` when all are acknowledged: on the client's thread, so keep it short; at
        once when they are already."""
        self._watch(lambda problem: None if problem else callback(*args, self.rows, **kwargs))
        return self

    def add_errback(self, errback: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """`errback(*args, error, **kwargs)` with what the first row that failed has failed with."""
        self._watch(lambda problem: errback(*args, problem, **kwargs) if problem else None)
        return self

    def _watch(self, tell: Callable[[BaseException | None], object]) -> None:
        """One after the other, as `get` does."""
        left = self._deliveries()

        def go_on(_: object = None) -> None:
            for delivery in left:
                if not delivery.done():
                    delivery.add_callback(go_on).add_errback(tell)
                    return
                if (problem := delivery.exception()) is not None:
                    tell(problem)
                    return
            tell(None)

        go_on()

    def done(self) -> bool:
        return all(delivery.done() for delivery in self._deliveries())

    def get(self, timeout: float | None = None) -> int:
        """The number of rows; raises what the first of them that failed has failed with, or
        `DeliveryTimedOut`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for delivery in self._deliveries():
            delivery.get(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return self.rows

    def __await__(self) -> Generator[Any, None, int]:
        for delivery in self._deliveries():
            yield from delivery.__await__()
        return self.rows

    def _deliveries(self) -> Generator[Delivery, None, None]:
        """All records of a batch share its fate, unless it was too large for the broker and was split."""
        for batch in self._batches:
            yield batch.delivery(0)
            if batch.split_up:
                yield from (batch.delivery(index) for index in range(1, batch.count))
