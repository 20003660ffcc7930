"""One record inside a batch's (decompressed) records section: cut into positions, and written.

Every native loop over records (reading, checking, compaction) goes through `cut_record`, so bounds are checked in
one place.  Errors are negative codes; `records.pyx` turns them into exceptions."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    # The least a record takes: length, attributes, timestamp, offset, two lengths and the number of headers.
    RECORD_SIZE_MIN = 7

cdef enum:
    CUT_SHORT = -1
    LONG_VARINT = -2
    BAD_SIZE = -3
    BAD_HEADERS = -4
    BAD_DELTA = -5
    NO_KEY = -6
    LEFT_OVER = -7
    BAD_COUNT = -8

cdef struct Cut:
    Py_ssize_t start  # of the length in front of it
    Py_ssize_t body
    Py_ssize_t end
    int64_t timestamp_delta
    Py_ssize_t rest  # what follows the timestamp delta
    int32_t offset_delta
    Py_ssize_t key
    Py_ssize_t key_size  # -1: null
    Py_ssize_t value
    Py_ssize_t value_size  # -1: null
    Py_ssize_t headers
    int32_t header_count

cdef struct RecordsSummary:
    int64_t max_delta
    int64_t max_offset_delta
    int64_t min_delta
    int64_t index  # of the record at fault

cdef int check_loop(
    const uint8_t* data, Py_ssize_t size, int32_t count, bint keys_required, RecordsSummary* summary
) noexcept nogil

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>

    /* Zigzag varints of 5 and 10 bytes at most.  Bits past the type's width are dropped, as Kafka drops them.
       Both return the position after the number, -1 when the data ends first, -2 when the number does not end. */
    static inline ptrdiff_t get_varint(const uint8_t* data, ptrdiff_t at, ptrdiff_t end, int32_t* out) {
        uint32_t raw = 0;
        /* One and two bytes are most of what there is. */
        if (at < end && data[at] < 0x80) {
            *out = (int32_t)(data[at] >> 1) ^ -(int32_t)(data[at] & 1);
            return at + 1;
        }
        if (end - at > 1 && data[at + 1] < 0x80) {
            raw = (data[at] & 0x7Fu) | (uint32_t)data[at + 1] << 7;
            *out = (int32_t)(raw >> 1) ^ -(int32_t)(raw & 1);
            return at + 2;
        }
        for (int shift = 0; shift < 35; shift += 7) {
            if (at >= end) return -1;
            uint32_t byte = data[at++];
            raw |= (byte & 0x7F) << shift;
            if (byte < 0x80) {
                *out = (int32_t)(raw >> 1) ^ -(int32_t)(raw & 1);
                return at;
            }
        }
        return -2;
    }
    static inline ptrdiff_t get_varlong(const uint8_t* data, ptrdiff_t at, ptrdiff_t end, int64_t* out) {
        uint64_t raw = 0;
        if (at < end && data[at] < 0x80) {
            *out = (int64_t)(data[at] >> 1) ^ -(int64_t)(data[at] & 1);
            return at + 1;
        }
        for (int shift = 0; shift < 70; shift += 7) {
            if (at >= end) return -1;
            uint64_t byte = data[at++];
            raw |= (byte & 0x7F) << shift;
            if (byte < 0x80) {
                *out = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
                return at;
            }
        }
        return -2;
    }
    static inline int varlong_size(int64_t value) {
        uint64_t raw = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
        return (70 - __builtin_clzll(raw | 1)) / 7;
    }
    static inline uint8_t* put_varlong(uint8_t* at, int64_t value) {
        uint64_t raw = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
        while (raw >= 0x80) {
            *at++ = (uint8_t)(raw | 0x80);
            raw >>= 7;
        }
        *at++ = (uint8_t)raw;
        return at;
    }
    /* Timestamps come from outside and may wrap, which is defined only for unsigned numbers. */
    static inline int64_t wrapping_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
    static inline int64_t wrapping_subtract(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
    """
    Py_ssize_t get_varint(const uint8_t* data, Py_ssize_t at, Py_ssize_t end, int32_t* out) nogil
    Py_ssize_t get_varlong(const uint8_t* data, Py_ssize_t at, Py_ssize_t end, int64_t* out) nogil
    int varlong_size(int64_t value) nogil
    uint8_t* put_varlong(uint8_t* at, int64_t value) nogil
    int64_t wrapping_add(int64_t a, int64_t b) nogil
    int64_t wrapping_subtract(int64_t a, int64_t b) nogil


cdef inline Py_ssize_t skip_bytes(
    const uint8_t* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t* where, Py_ssize_t* size
) noexcept nogil:
    """A length and its bytes; any negative length is null, as Kafka reads it."""
    cdef int32_t length = 0
    at = get_varint(data, at, end, &length)
    if at < 0:
        return at
    where[0] = at
    if length < 0:
        size[0] = -1
        return at
    if length > end - at:
        return CUT_SHORT
    size[0] = length
    return at + length


cdef inline Py_ssize_t skip_headers(const uint8_t* data, Py_ssize_t at, Py_ssize_t end, int32_t count) noexcept nogil:
    cdef Py_ssize_t where = 0
    cdef Py_ssize_t size = 0
    cdef int32_t i
    for i in range(count):
        at = skip_bytes(data, at, end, &where, &size)
        if at < 0:
            return at
        if size < 0:
            return BAD_HEADERS
        at = skip_bytes(data, at, end, &where, &size)
        if at < 0:
            return at
    return at


cdef inline Py_ssize_t cut_record(
    const uint8_t* data, Py_ssize_t at, Py_ssize_t end, Cut* cut, bint headers_too
) noexcept nogil:
    """The position after the record at `at`, or a negative code.  `headers_too`: look inside the headers as well."""
    cdef int32_t size = 0
    cdef Py_ssize_t last
    cut.start = at
    at = get_varint(data, at, end, &size)
    if at < 0:
        return at
    if size < RECORD_SIZE_MIN - 1:
        return BAD_SIZE
    if size > end - at:
        return CUT_SHORT
    cut.body = at
    last = at + size
    cut.end = last
    at = get_varlong(data, at + 1, last, &cut.timestamp_delta)  # one byte of attributes, all unused
    if at < 0:
        return at
    cut.rest = at
    at = get_varint(data, at, last, &cut.offset_delta)
    if at < 0:
        return at
    at = skip_bytes(data, at, last, &cut.key, &cut.key_size)
    if at < 0:
        return at
    at = skip_bytes(data, at, last, &cut.value, &cut.value_size)
    if at < 0:
        return at
    at = get_varint(data, at, last, &cut.header_count)
    if at < 0:
        return at
    cut.headers = at
    if cut.header_count < 0 or cut.header_count > last - at:
        return BAD_HEADERS
    if headers_too:
        at = skip_headers(data, at, last, cut.header_count)
        if at < 0:
            return at
        if at != last:
            return BAD_SIZE
    return last


cdef inline object slice_of(const uint8_t* data, Py_ssize_t at, Py_ssize_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>data + at, size)


cdef inline tuple headers_of(const uint8_t* data, Py_ssize_t at, Py_ssize_t end, int32_t count):
    """The headers of a record that `cut_record` has cut with `headers_too`."""
    cdef list pairs = []
    cdef Py_ssize_t name = 0
    cdef Py_ssize_t name_size = 0
    cdef Py_ssize_t value = 0
    cdef Py_ssize_t value_size = 0
    cdef int32_t i
    for i in range(count):
        at = skip_bytes(data, at, end, &name, &name_size)
        at = skip_bytes(data, at, end, &value, &value_size)
        pairs.append((
            PyUnicode_DecodeUTF8(<const char*>data + name, name_size, b"replace"),
            slice_of(data, value, value_size),
        ))
    return tuple(pairs)
