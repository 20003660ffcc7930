"""Record batches (format v2) as bytes: headers read, CRCs checked, offsets and epochs stamped in place."""

from typing_extensions import Buffer

HEADER_SIZE: int  # 61
PREFIX_SIZE: int  # 12: base offset and length, not counted in the length field
BASE_OFFSET_AT: int
LENGTH_AT: int
EPOCH_AT: int
MAGIC_AT: int
CRC_AT: int
ATTRIBUTES_AT: int

class Header:
    """The 61 bytes in front of a batch's records; `position` is where it starts in the buffer, `size` its whole length."""

    position: int
    size: int
    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    max_timestamp_at: (
        int  # offset delta of the record with the largest timestamp; the last one if nobody looked
    )
    @property
    def last_offset(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...  # wraps at 2**31, as producers do; -1 when there is none
    @property
    def compression(self) -> int: ...  # 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
    @property
    def log_append_time(self) -> bool: ...
    @property
    def transactional(self) -> bool: ...
    @property
    def control(self) -> bool: ...
    @property
    def delete_horizon(self) -> bool: ...  # bit 6: base_timestamp is then the delete horizon

def header_at(data: Buffer, at: int = 0) -> Header | None:
    """None when fewer than 61 bytes are left or the length field is impossible (< 49); the batch itself may be cut."""

def walk(data: Buffer, at: int = 0) -> list[Header]:
    """Headers of the whole batches from `at` on; stops before a cut or impossible one. CRCs are not checked."""

def crc_ok(data: Buffer, at: int = 0) -> bool:
    """The CRC-32C of the whole batch at `at`; false when it is cut."""

class BatchCheck:
    """Walks the batches of a segment that starts at offset `base`, without the GIL: each must be plausible, in ascending
    offsets up to `last_max`, and have the right CRC.  `index` are the bytes of the segment's offset index, which must
    name starts of batches."""

    base: int
    position: int  # behind the batches seen so far
    expected: int  # the offset after the last of them
    last_max: int
    index_fits: bool
    def __init__(self, base: int, last_max: int, index: bytes) -> None: ...
    def feed(self, data: Buffer) -> int:
        """`data` starts at `position`; the bytes of the whole batches at its start.  It stops at one that is bad, or cut."""
    def passed(self, header: Header) -> None:
        """The batch at `position` is whole: somebody else has checked it."""

def stamp(data: Buffer, at: int, base_offset: int, epoch: int) -> None:
    """Writes base offset and leader epoch of one batch in place; the CRC does not cover them."""

def stamp_append_time(data: Buffer, at: int, timestamp: int) -> None:
    """Log-append time: sets the attribute bit and the max timestamp, and renews the CRC."""

def find(data: Buffer, offset: int) -> tuple[int, Header | None]:
    """Where the first batch whose last offset is >= `offset` starts. The header is None when no whole header says so:
    then the position is where the search must go on (a read from there)."""
