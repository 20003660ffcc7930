"""Fetched batches read into columns: buffers in the layout that Arrow has for them."""

from collections.abc import Callable, Iterable

from typing_extensions import Buffer

class Block:
    """A column, or a part of one, as a buffer."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Bytes:
    """A column of bytes or nulls."""

    def buffers(self) -> tuple[Block | None, Block, Block, int]:
        """Validity (None without nulls), offsets of 32 bits, content, the number of nulls."""

class Columns:
    """Rows of any number of partitions, one after the other."""

    @property
    def rows(self) -> int: ...
    @property
    def header_rows(self) -> int: ...
    @property
    def position(self) -> int:
        """The offset to go on with, in the partition that was added last."""
    @property
    def keys(self) -> Bytes: ...
    @property
    def values(self) -> Bytes: ...
    @property
    def header_names(self) -> Bytes: ...
    @property
    def header_values(self) -> Bytes: ...
    @property
    def topics(self) -> Block: ...
    @property
    def partitions(self) -> Block: ...
    @property
    def offsets(self) -> Block: ...
    @property
    def timestamps(self) -> Block: ...
    @property
    def header_offsets(self) -> Block: ...
    def add(
        self,
        data: Buffer,
        topic: int,
        partition: int,
        start: int,
        decompress: Callable[[int, memoryview], Buffer],
        aborted: Iterable[tuple[int, int]] = (),
        check_crc: bool = True,
        in_place: bool = False,
    ) -> None:
        """Every whole batch in `data`, from offset `start` on; a cut one at the end is left out.

        `aborted`: (producer id, first offset) of transactions whose records are left out.  What is damaged raises,
        and stays out with all that follows it.  `in_place`: nobody needs `data` any more; where it is a `PooledBuffer`'s,
        values are moved together in there instead of being copied."""
