"""Batches written: records encoded one after the other, headers put in front, CRCs computed."""

from collections.abc import Iterable, Mapping

from typing_extensions import Buffer

class Sealed:
    """A finished batch, as a buffer."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Writer:
    """Records of one batch, encoded as they are added.  As a buffer it is the records section so far."""

    def __init__(self, size_max: int = 2**31 - 1) -> None: ...
    @property
    def size(self) -> int:
        """Bytes of the batch if it were sealed now and not compressed."""
    @property
    def size_max(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def add(
        self,
        key: Buffer | None,
        value: Buffer | None,
        timestamp: int,
        headers: Iterable[tuple[str, Buffer | None]] | Mapping[str, Buffer | None] = (),
    ) -> bool:
        """False, and nothing added, when the batch would outgrow `size_max`; a first record always fits."""
    def seal(
        self,
        attributes: int,
        base_offset: int,
        leader_epoch: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        records: Buffer | None = None,
    ) -> bytes:
        """The whole batch; `records` stands in for the section when it is compressed."""
    def finish(
        self,
        attributes: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        records: Buffer | None = None,
    ) -> Sealed:
        """The whole batch, in the memory that it has grown in; the writer has none afterwards.  `records` is what
        stands in for the section, compressed: then the memory is another one."""
    def clear(self) -> None:
        """Empty again, its memory kept for the next batch."""

def replace_records(header: Buffer, records: Buffer, attributes: int) -> bytes:
    """A batch from the first 61 bytes of `header` and another records section; length and CRC are renewed."""
