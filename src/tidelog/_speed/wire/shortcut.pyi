"""A small produce request of one batch for one partition that this node leads, in native code."""

from collections.abc import Callable, Collection, Mapping

from typing_extensions import Buffer

from tidelog._speed.log.append import NativePartition
from tidelog._speed.wire.delayed_produce import DelayedProduce, DelayedProduces, Refuse
from tidelog._speed.wire.session import SessionState

class ProduceShortcut:
    delayed: DelayedProduces
    def __init__(
        self,
        held: Mapping[tuple[str | bytes, int], NativePartition],
        now_ms: Callable[[], int],
        lease_proven: Callable[[], bool],
        refuse: Refuse,
        reserved: Collection[str],
    ) -> None:
        """`held` by topic name, and by topic id; topics that are `reserved` are left alone."""

    def produce(
        self, frame: Buffer, version: int, correlation_id: int, session: SessionState
    ) -> bytes | DelayedProduce | None:
        """The answer, empty when the client wants none; None when nothing was done: it is not the common case, or the gate
        has not decided yet that `session` may write there, or its quota has to be asked again."""

def all_plain(
    topics: list[tuple[str | bytes, list[tuple[int, int, int]]]],
    held: Mapping[tuple[str | bytes, int], NativePartition],
) -> bool:
    """Whether all partitions of a produce request are open here, and their topics take batches as they are, unopened."""
