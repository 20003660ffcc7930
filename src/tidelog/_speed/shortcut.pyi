"""A produce request in the common case, from its frame to its answer, without leaving native code."""

from collections.abc import Callable, Mapping

from typing_extensions import Buffer

from tidelog._speed.tail import PartitionTail

class ProduceShortcut:
    def __init__(
        self, held: Mapping[tuple[str | bytes, int], PartitionTail], node: int, now_ms: Callable[[], int]
    ) -> None:
        """`held` by topic name, and by topic id."""

    def produce(self, frame: Buffer, version: int, correlation_id: int) -> bytes | None:
        """The answer, empty when the client wants none; None when nothing was done: it is not the common case."""
