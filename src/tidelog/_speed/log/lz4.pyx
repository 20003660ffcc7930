"""LZ4 frames as Kafka's clients write and read them.

Checksums of blocks and of the content are passed over: a batch has one over all of it, which was looked at before.
Frames that have more to them (dictionaries, several in a row), and damaged ones, are left to the library: `read_frame`
answers None."""

from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from tidelog._speed.log.pooled_buffer cimport PooledBuffer

cdef extern from "lz4.h":
    enum:
        LZ4_TABLE_BITS
        LZ4_SLACK
    uint32_t lz4_get32(const uint8_t* at) nogil
    void lz4_put32(uint8_t* at, uint32_t value) nogil
    size_t lz4_write_block(const uint8_t* data, size_t size, uint8_t* out, uint32_t* table) nogil
    Py_ssize_t lz4_read_block(
        const uint8_t* at, size_t size, const uint8_t* first, uint8_t* out, const uint8_t* limit
    ) nogil
    uint32_t lz4_xxh32_short(const uint8_t* data, size_t size) nogil

cdef extern from *:
    """
    #define LZ4_MAGIC 0x184D2204u
    #define LZ4_STORED 0x80000000u
    """
    uint32_t LZ4_MAGIC
    uint32_t LZ4_STORED  # a block that is not compressed

cdef enum:
    # In a frame's flags.
    VERSION = 0xC0
    VERSION_1 = 0x40
    ALONE = 0x20
    BLOCK_CHECKSUMS = 0x10
    HAS_SIZE = 0x08
    CONTENT_CHECKSUM = 0x04
    OTHERS = 0x03  # a dictionary, the reserved bit
    CHECKSUM_BYTES = 4
    # 256 KiB: larger ones hardly save more, and readers keep memory for one.
    BLOCK_CODE = 5
    BLOCK_BYTES = 256 << 10


cdef inline Py_ssize_t bytes_of(int code) noexcept nogil:
    """Of a block, at most; 0 when there is no such code."""
    return <Py_ssize_t>1 << (8 + 2 * code) if 4 <= code <= 7 else 0


def write_frame(const uint8_t[::1] data):
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t blocks = (size + BLOCK_BYTES - 1) // BLOCK_BYTES
    cdef PooledBuffer target = PooledBuffer(size + size // 255 + 32 * (blocks + 1))
    cdef uint32_t* table = <uint32_t*>malloc(sizeof(uint32_t) << LZ4_TABLE_BITS)
    cdef uint8_t* out = target.data
    cdef const uint8_t* at = &data[0] if size else NULL
    cdef Py_ssize_t piece
    cdef uint32_t made
    if table == NULL:
        raise MemoryError()
    lz4_put32(out, LZ4_MAGIC)
    out[4] = VERSION_1 | ALONE
    out[5] = BLOCK_CODE << 4
    out[6] = <uint8_t>(lz4_xxh32_short(out + 4, 2) >> 8)
    out += 7
    with nogil:
        while size > 0:
            piece = min(size, <Py_ssize_t>BLOCK_BYTES)
            made = <uint32_t>lz4_write_block(at, piece, out + 4, table)
            if made >= piece:
                memcpy(out + 4, at, piece)
                made = <uint32_t>piece | LZ4_STORED
            lz4_put32(out, made)
            out += 4 + (made & ~LZ4_STORED)
            at += piece
            size -= piece
        lz4_put32(out, 0)
        out += 4
        free(table)
    return memoryview(target).toreadonly()[:out - target.data]


def read_frame(const uint8_t[::1] data, Py_ssize_t size_max):
    cdef const uint8_t* start = &data[0] if data.shape[0] else NULL
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t head, most, content_size_max, written
    cdef Py_ssize_t behind, last
    cdef PooledBuffer target
    cdef uint8_t flags
    if size < 7 or lz4_get32(start) != LZ4_MAGIC:
        return None
    flags = start[4]
    if flags & VERSION != VERSION_1 or flags & OTHERS or start[5] & 0x8F:
        return None
    most = bytes_of(start[5] >> 4)
    head = 14 if flags & HAS_SIZE else 6
    if not most or size < head + 5 or start[head] != <uint8_t>(lz4_xxh32_short(start + 4, head - 4) >> 8):
        return None
    behind = CHECKSUM_BYTES if flags & BLOCK_CHECKSUMS else 0
    last = CHECKSUM_BYTES if flags & CONTENT_CHECKSUM else 0
    content_size_max = most_bytes(start + head + 1, size - head - 1 - last, most, behind)
    if content_size_max < 0:
        return None
    # A claim of more than is allowed gets no more memory for it: reading stops at the end of what there is.
    content_size_max = min(content_size_max, size_max)
    target = PooledBuffer(content_size_max + LZ4_SLACK)
    with nogil:
        written = read_blocks(start + head + 1, target.data, content_size_max, most, behind, flags & ALONE)
    if written < 0:
        return None
    if flags & HAS_SIZE and read_size(start + 6) != written:
        return None
    return memoryview(target).toreadonly()[:written]


cdef Py_ssize_t read_size(const uint8_t* at) noexcept nogil:
    return <Py_ssize_t>lz4_get32(at) | <Py_ssize_t>lz4_get32(at + 4) << 32


cdef Py_ssize_t most_bytes(const uint8_t* at, Py_ssize_t left, Py_ssize_t most, Py_ssize_t behind) noexcept nogil:
    """What the blocks can hold at most; -1 unless they end with the data.  A byte of a block makes 255 at most.

    `behind`: how much follows each block."""
    cdef Py_ssize_t total = 0
    cdef uint32_t head
    cdef Py_ssize_t size
    while left >= 4:
        head = lz4_get32(at)
        size = head & ~LZ4_STORED
        at += 4
        left -= 4
        if head == 0:
            return total if left == 0 else -1
        if size + behind > left or (head & LZ4_STORED and size > most):
            return -1
        total += size if head & LZ4_STORED else min(most, 255 * size)
        at += size + behind
        left -= size + behind
    return -1


cdef Py_ssize_t read_blocks(
    const uint8_t* at, uint8_t* out, Py_ssize_t capacity, Py_ssize_t most, Py_ssize_t behind, bint alone
) noexcept nogil:
    """What the blocks hold, which `most_bytes` has been through; -1 when it is more than `room`, or damaged."""
    cdef Py_ssize_t done = 0
    cdef Py_ssize_t size, made
    cdef uint32_t head = lz4_get32(at)
    while head:
        size = head & ~LZ4_STORED
        at += 4
        if head & LZ4_STORED:
            if size > capacity - done:
                return -1
            memcpy(out + done, at, size)
            made = size
        else:
            made = lz4_read_block(at, size, out + done if alone else out, out + done, out + min(capacity, done + most))
            if made < 0:
                return -1
        done += made
        at += size + behind
        head = lz4_get32(at)
    return done
