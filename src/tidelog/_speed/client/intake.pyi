"""Where records enter the producer: on the caller's thread, straight into the open batch of their partition."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from typing_extensions import Buffer

from tidelog._speed.client.delivery import Delivery
from tidelog.client.cluster.topology import Topic
from tidelog.client.producer.batch import Headers, OutgoingBatch
from tidelog.types import TopicPartition

BY_KEY: Final = 0
STICKY: Final = 1
ROUND_ROBIN: Final = 2
BY_CALL: Final = 3

def murmur2(data: Buffer) -> int:
    """The 32-bit hash, unsigned; Java shows the same bits as a signed number."""

class Memory:
    """A bounded number of bytes, taken on any thread."""

    contended: bool
    """Somebody waits for room: nobody may pass him."""
    def __init__(self, bytes_max: int) -> None: ...
    @property
    def bytes_max(self) -> int: ...
    @property
    def used(self) -> int: ...
    def try_take(self, size: int) -> bool: ...
    def force_take(self, size: int) -> None:
        """For whoever has waited for it."""
    def give_back(self, size: int) -> None: ...

class Lane:
    """What waits to be sent to one partition: the batch that grows, and the full ones in front of it."""

    open: OutgoingBatch | None
    full: deque[OutgoingBatch]
    def __init__(self, partition: TopicPartition, full: deque[OutgoingBatch]) -> None: ...
    @property
    def partition(self) -> TopicPartition: ...
    def close_open(self) -> OutgoingBatch | None:
        """The growing batch, which takes no more and is the caller's now; None when there is none."""
    def drop(self, batch: OutgoingBatch) -> None:
        """Takes it out, wherever it waits."""

class TopicLanes:
    """The lanes of one topic, as its metadata was when this was made; `led`: partitions that have a leader."""

    def __init__(self, topic: Topic, lanes: list[Lane], led: list[int], turn: int = 0) -> None: ...
    @property
    def topic(self) -> Topic: ...

class Intake:
    """`make(partition)` gives a new batch, `move(led, current)` the next partition for records without a key,
    `wake()` tells the sender that a batch was begun; `now_ms` None stands for the machine's clock.  A batch behind
    several full ones, which could not leave soon anyway, grows up to `grown_bytes_max`."""

    admitting: bool
    """Records are taken; false before the start, between transactions and after the end."""
    crowded: bool
    """So many batches were begun since the last `drain` that the sender should have its turn."""
    def __init__(
        self,
        memory: Memory,
        record_bytes_max: int,
        stick_bytes: int,
        *,
        make: Callable[[TopicPartition], OutgoingBatch],
        wake: Callable[[], None],
        move: Callable[[list[int], int], int],
        now_ms: Callable[[], int] | None = None,
        kind: int = 0,
        partitioner: Callable[[str, bytes | None, int], int | None] | None = None,
        grown_bytes_max: int = 0,
    ) -> None: ...
    @property
    def routes(self) -> dict[str, TopicLanes]: ...
    @property
    def fresh(self) -> list[OutgoingBatch]: ...
    @property
    def stick_bytes(self) -> int: ...
    @property
    def record_bytes_max(self) -> int: ...
    @property
    def grown_bytes_max(self) -> int: ...
    def drain(self) -> list[OutgoingBatch]:
        """The batches that were begun since the last time."""
    def size_of(self, key: Any, value: Any, headers: Headers) -> int:
        """What the record takes of the memory."""
    def take(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers,
        timestamp: int | None,
        partition: int | None,
        paid: bool = False,
    ) -> Delivery | None:
        """None when it takes more than this: a topic not known yet, no room, a partition that is not there.
        `paid`: the memory is taken already."""
