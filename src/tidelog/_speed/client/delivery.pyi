"""A batch that grows on its callers' threads, and what each caller holds of its record."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Generator
from typing import Any, Self

from tidelog._speed.log.writer import Writer
from tidelog.client.producer.batch import RecordMetadata

class Growing(Writer):
    """Takes records from any thread until it is closed; then somebody settles it, once, well or not.

    A subclass says what became of the records: `outcome(index)`, `problem_of(index)`, `overdue(timeout)` and
    `describe(index)`."""

    bytes_taken: int
    """What its records have taken of `buffer_memory`."""
    loop: AbstractEventLoop | None
    """Where it is settled: whoever runs there must not block for it."""
    @property
    def closed(self) -> bool: ...
    @property
    def done(self) -> bool: ...
    @property
    def split_up(self) -> bool:
        """Its records are in two others now."""
    def close(self) -> None:
        """No more records."""
    def release(self) -> None:
        """The encoded records are not needed any more."""
    def delivery(self, index: int) -> Delivery: ...
    def timestamp_of(self, index: int) -> int: ...
    def watch(self, index: int, watcher: Callable[[], object]) -> bool:
        """False when it is settled already, or has moved."""
    def unwatch(self, watcher: Callable[[], object]) -> None: ...
    def settled(self) -> list[Callable[[], object]]:
        """From now on it is done; who watched is to be told."""
    def moved(self, first: Growing, second: Growing) -> None:
        """Its records are in these two now, and those who wait for them wait there."""

class Delivery:
    """A record on its way: what `Producer.send` returns.

        sent = producer.send("orders", b"value")
        where = sent.get(timeout=10)        # or, in asyncio: where = await sent
        sent.add_callback(print).add_errback(log.error)

    It works from any thread, and with `await` in any loop.  Giving up the wait does not give up the record."""

    def done(self) -> bool:
        """Acknowledged, or failed for good."""
    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Waits up to `timeout` seconds; raises what the delivery has failed with, or `DeliveryTimedOut`."""
    def result(self) -> RecordMetadata:
        """Without waiting: `asyncio.InvalidStateError` when it is not done."""
    def exception(self) -> BaseException | None:
        """What it has failed with; None when it was acknowledged."""
    def add_callback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """`callback(*args, metadata, **kwargs)` when it is acknowledged: on the client's thread, so keep it short;
        at once when it is done already."""
    def add_errback(self, errback: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """`errback(*args, problem, **kwargs)` when it has failed."""
    def __await__(self) -> Generator[Any, None, RecordMetadata]: ...
