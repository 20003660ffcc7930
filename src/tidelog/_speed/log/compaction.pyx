"""The two passes of compaction over batches: keys noted with their last offset, then superseded records left out.

Both work on a run of whole, uncompressed batches and stop in front of one that the caller has to decide about.
CRCs are checked first: a damaged batch must never get a fresh CRC."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from tidelog._speed.log.crc32c cimport crc32c_update, crc_prepare
from tidelog._speed.log cimport batch
from tidelog._speed.log.keymap cimport KeyMap
from tidelog._speed.log.records cimport (
    RECORD_SIZE_MIN, Cut, cut_record, put_varlong, varlong_size, wrapping_add, wrapping_subtract
)
from tidelog._speed.log.writer cimport seal_batch


crc_prepare()

cdef enum:
    STOP_END = 0
    STOP_DAMAGED = 1
    STOP_FULL = 2
    STOP_OTHER = 3
    STOP_EMPTY = 4

END = <int>STOP_END
DAMAGED = <int>STOP_DAMAGED
FULL = <int>STOP_FULL
OTHER = <int>STOP_OTHER
EMPTY = <int>STOP_EMPTY

cdef enum:
    CODEC_BITS = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40
    # A record grows by so much at most when its timestamp delta and with it its length are written anew.
    GROWTH_MAX = 14


cdef struct Source:
    const uint8_t* at
    Py_ssize_t size
    int16_t attributes
    int32_t count
    int64_t base_offset
    int64_t base_timestamp
    int64_t next_offset


cdef struct Sifted:
    Py_ssize_t size
    int32_t kept
    bint tombstones
    int64_t max_timestamp
    int64_t dropped_without_key


cdef int open_batch(const uint8_t* data, Py_ssize_t left, bint transactional_too, Source* source) noexcept nogil:
    """STOP_END when `source` is a whole batch to go through, otherwise why not."""
    cdef int64_t size = batch.batch_size(data, left)
    if size < 0 or size > left or data[batch.MAGIC] != 2:
        return STOP_DAMAGED
    source.at = data
    source.size = size
    source.attributes = batch.get_int16(data + batch.ATTRIBUTES)
    source.count = batch.get_int32(data + batch.COUNT)
    source.base_offset = batch.get_int64(data + batch.BASE_OFFSET)
    source.base_timestamp = batch.get_int64(data + batch.BASE_TIMESTAMP)
    source.next_offset = source.base_offset + batch.get_int32(data + batch.LAST_DELTA) + 1
    if <uint32_t>batch.get_int32(data + batch.CRC) != crc32c_update(0, data + batch.ATTRIBUTES, size - batch.ATTRIBUTES):
        return STOP_DAMAGED
    if source.attributes & (CODEC_BITS | CONTROL) or (source.attributes & TRANSACTIONAL and not transactional_too):
        return STOP_OTHER
    if source.count < 0 or source.count > (size - batch.HEADER) // RECORD_SIZE_MIN:
        return STOP_DAMAGED
    return STOP_END


cdef int note_batch(KeyMap keys, Source* source, int64_t start, int64_t* reached) noexcept nogil:
    cdef Cut cut
    cdef Py_ssize_t at = batch.HEADER
    cdef int64_t offset
    cdef int32_t i
    for i in range(source.count):
        at = cut_record(source.at, at, source.size, &cut, True)
        if at < 0:
            return STOP_DAMAGED
        offset = source.base_offset + cut.offset_delta
        if cut.key_size >= 0 and offset >= start:
            if not keys.note(source.at + cut.key, cut.key_size, offset):
                reached[0] = offset
                return STOP_FULL
    return STOP_END if at == source.size else STOP_DAMAGED


def whole_batches(const uint8_t[::1] data):
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t at = 0
    cdef int64_t step
    while at < size:
        step = batch.batch_size(&data[at], size - at)
        if step < 0 or step > size - at:
            break
        at += step
    return at


def note_batches(KeyMap keys not None, const uint8_t[::1] data, int64_t start, bint transactional_too):
    cdef Py_ssize_t size = data.shape[0]
    cdef const uint8_t* first = &data[0] if size else <const uint8_t*>b""
    cdef Py_ssize_t at = 0
    cdef int code = STOP_END
    cdef int64_t reached = -1
    cdef Source source
    with nogil:
        while at < size:
            code = open_batch(first + at, size - at, transactional_too, &source)
            if code == STOP_END:
                code = note_batch(keys, &source, start, &reached)
            if code != STOP_END:
                break
            at += source.size
            reached = source.next_offset
    return at, code, reached


cdef bint superseded(
    KeyMap keys, const uint8_t* data, Cut* cut, int64_t offset, bint tombstones_kept
) noexcept nogil:
    if keys.last_offset(data + cut.key, cut.key_size) > offset:
        return True
    return cut.value_size < 0 and not tombstones_kept


cdef int sift_records(
    KeyMap keys, Source* source, int64_t end, bint tombstones_kept, int64_t base_timestamp, uint8_t* out, Sifted* sifted
) noexcept nogil:
    """Kept records written to `out`, with their timestamps relative to `base_timestamp`."""
    cdef Cut cut
    cdef Py_ssize_t at = batch.HEADER
    cdef uint8_t* to = out
    cdef int64_t offset
    cdef int64_t timestamp
    cdef int64_t delta
    cdef int64_t rest
    cdef int32_t i
    sifted.kept = 0
    sifted.tombstones = False
    sifted.max_timestamp = -1
    sifted.dropped_without_key = 0
    for i in range(source.count):
        at = cut_record(source.at, at, source.size, &cut, True)
        if at < 0:
            return STOP_DAMAGED
        offset = source.base_offset + cut.offset_delta
        if offset < end:
            if cut.key_size < 0:
                sifted.dropped_without_key += 1
                continue
            if superseded(keys, source.at, &cut, offset, tombstones_kept):
                continue
        timestamp = wrapping_add(source.base_timestamp, cut.timestamp_delta)
        if sifted.kept == 0 or timestamp > sifted.max_timestamp:
            sifted.max_timestamp = timestamp
        sifted.kept += 1
        if cut.value_size < 0:
            sifted.tombstones = True
        if base_timestamp == source.base_timestamp:
            memcpy(to, source.at + cut.start, cut.end - cut.start)
            to += cut.end - cut.start
        else:
            delta = wrapping_subtract(timestamp, base_timestamp)
            rest = cut.end - cut.rest
            to = put_varlong(to, 1 + varlong_size(delta) + rest)
            to[0] = source.at[cut.body]
            to = put_varlong(to + 1, delta)
            memcpy(to, source.at + cut.rest, rest)
            to += rest
    sifted.size = to - out
    return STOP_END if at == source.size else STOP_DAMAGED


cdef int sift_batch(
    KeyMap keys, Source* source, int64_t end, int64_t now_ms, int64_t retention_ms, uint8_t* out, Sifted* sifted
) noexcept nogil:
    """A whole batch written to `out`, or STOP_EMPTY with nothing written."""
    cdef bint has_horizon = source.attributes & DELETE_HORIZON != 0
    cdef bint tombstones_kept = not has_horizon or now_ms < source.base_timestamp
    cdef int64_t base_timestamp = source.base_timestamp
    cdef int16_t attributes = source.attributes
    cdef int code = sift_records(keys, source, end, tombstones_kept, base_timestamp, out + batch.HEADER, sifted)
    if code != STOP_END:
        return code
    if sifted.kept == 0:
        return STOP_EMPTY
    if sifted.tombstones and not has_horizon:
        # Tombstones meet compaction for the first time: from now on they have `retention_ms` left.
        base_timestamp = now_ms + retention_ms
        attributes |= DELETE_HORIZON
        sift_records(keys, source, end, tombstones_kept, base_timestamp, out + batch.HEADER, sifted)
    elif sifted.kept == source.count:
        sifted.size = source.size
        memcpy(out, source.at, source.size)
        return STOP_END
    memcpy(out, source.at, batch.HEADER)
    batch.put_int16(out + batch.ATTRIBUTES, attributes)
    batch.put_int64(out + batch.BASE_TIMESTAMP, base_timestamp)
    if not attributes & LOG_APPEND_TIME:
        batch.put_int64(out + batch.MAX_TIMESTAMP, sifted.max_timestamp)
    batch.put_int32(out + batch.COUNT, sifted.kept)
    sifted.size += batch.HEADER
    seal_batch(out, sifted.size)
    return STOP_END


def sift_batches(
    KeyMap keys not None, const uint8_t[::1] data, uint8_t[::1] out not None, int64_t end, int64_t bound,
    int64_t now_ms, int64_t retention_ms, bint transactional_too,
):
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t capacity = out.shape[0]
    cdef const uint8_t* first = &data[0] if size else <const uint8_t*>b""
    cdef uint8_t* to = &out[0] if capacity else NULL
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t written = 0
    cdef int64_t records = 0
    cdef int64_t kept = 0
    cdef int64_t without_key = 0
    cdef int code = STOP_END
    cdef Source source
    cdef Sifted sifted
    with nogil:
        while at < size:
            code = open_batch(first + at, size - at, transactional_too, &source)
            if code != STOP_END:
                break
            if source.size + <int64_t>source.count * GROWTH_MAX > capacity - written:
                code = STOP_FULL
                break
            code = sift_batch(keys, &source, end, now_ms, retention_ms, to + written, &sifted)
            if code == STOP_DAMAGED:
                break
            records += source.count
            kept += sifted.kept
            without_key += sifted.dropped_without_key
            if code == STOP_END:
                written += sifted.size
            elif batch.get_int64(source.at + batch.PRODUCER_ID) >= 0 or source.next_offset == bound:
                break  # the caller knows whether the empty batch still means something
            code = STOP_END
            at += source.size
    return at, written, code, records, kept, without_key


def empty_batch(const uint8_t[::1] data):
    cdef bytearray made
    cdef uint8_t* at
    if data.shape[0] < batch.HEADER:
        raise ValueError("no batch header here")
    made = bytearray(batch.HEADER)
    at = <uint8_t*>made
    memcpy(at, &data[0], batch.HEADER)
    batch.put_int16(
        at + batch.ATTRIBUTES,
        batch.get_int16(at + batch.ATTRIBUTES) & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL),
    )
    batch.put_int64(at + batch.BASE_TIMESTAMP, -1)
    batch.put_int32(at + batch.COUNT, 0)
    seal_batch(at, batch.HEADER)
    return bytes(made)
