"""The records inside a batch: checked, read into columns or `Record` objects, and written.

The loops work on the decompressed records section (what follows the 61-byte header); compression is
`tidelog.record.codecs`.  Input is hostile until `cut_record` has cut it: no loop reads past the section."""

cimport cython
from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

import array

from tidelog._speed cimport batch
from tidelog.errors import InvalidRecord, MessageTooLarge


cdef extern from "crc32c.h":
    void crc_prepare()
    uint32_t crc32c_update(uint32_t value, const uint8_t* data, size_t size) nogil


crc_prepare()

cdef array.array INT64_COLUMN = array.array("q")

cdef dict PROBLEMS = {
    CUT_SHORT: "runs past the end of its batch",
    LONG_VARINT: "has a number that does not end",
    BAD_SIZE: "is not as long as it says",
    BAD_HEADERS: "has headers that cannot be",
    BAD_DELTA: "is out of order: offset deltas must be 0, 1, 2, ...",
    NO_KEY: "has no key, which a compacted topic requires: send a key with every record",
}


class BadRecord(InvalidRecord):
    """`index` is the record's place in its batch, for the answer to the producer; -1 when no single one is at fault."""

    def __init__(self, message, index=-1):
        super().__init__(message)
        self.index = index


cdef object problem(int code, int64_t index, int64_t count):
    if code == LEFT_OVER:
        return BadRecord(f"bytes are left after the {count} records that the batch announces")
    if code == BAD_COUNT:
        return BadRecord(f"the batch announces {count} records, which its size cannot hold")
    return BadRecord(f"record {index} of {count} {PROBLEMS[code]}", index)


@cython.freelist(64)
cdef class Record:
    """A record as read: `headers` are (name, value) pairs.  `key`, `value` and a header's value may be None."""

    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly object key
    cdef readonly object value
    cdef readonly tuple headers

    __match_args__ = ("offset", "timestamp", "key", "value", "headers")

    def __init__(self, int64_t offset, int64_t timestamp, key, value, headers=()):
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = tuple(headers)

    cdef tuple fields(self):
        return (self.offset, self.timestamp, self.key, self.value, self.headers)

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        return self.fields() == (<Record>other).fields()

    def __hash__(self):
        return hash(self.fields())

    def __reduce__(self):
        return Record, self.fields()

    def __repr__(self):
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )


cdef struct Found:
    int64_t max_delta
    int64_t max_offset_delta
    int64_t min_delta
    int64_t index  # of the record at fault


cdef int check_loop(const uint8_t* data, Py_ssize_t size, int32_t count, bint keys_required, Found* found) noexcept nogil:
    cdef Cut cut
    cdef Py_ssize_t at = 0
    cdef int32_t i
    found.index = -1
    for i in range(count):
        at = cut_record(data, at, size, &cut, True)
        if at >= 0 and cut.offset_delta != i:
            at = BAD_DELTA
        if at >= 0 and keys_required and cut.key_size < 0:
            at = NO_KEY
        if at < 0:
            found.index = i
            return <int>at
        if i == 0 or cut.timestamp_delta > found.max_delta:
            found.max_delta = cut.timestamp_delta
            found.max_offset_delta = i
        if i == 0 or cut.timestamp_delta < found.min_delta:
            found.min_delta = cut.timestamp_delta
    return 0 if at == size else LEFT_OVER


cdef inline const uint8_t* start_of(const uint8_t[::1] data) noexcept:
    return &data[0] if data.shape[0] else <const uint8_t*>b""


def check(const uint8_t[::1] data, int32_t count, bint keys_required):
    cdef Found found
    cdef const uint8_t* start = start_of(data)
    cdef Py_ssize_t size = data.shape[0]
    cdef int code
    if count < 1 or count > size // RECORD_SIZE_MIN:
        raise problem(BAD_COUNT, -1, count)
    with nogil:
        code = check_loop(start, size, count, keys_required, &found)
    if code:
        raise problem(code, found.index, count)
    return found.max_delta, found.max_offset_delta, found.min_delta


cdef int64_t[::1] column(int32_t count, list columns):
    cdef array.array made = array.clone(INT64_COLUMN, count, zero=False)
    columns.append(made)
    return made


def columns(const uint8_t[::1] data, int32_t count, int64_t base_offset, int64_t base_timestamp):
    cdef Cut cut
    cdef const uint8_t* start = start_of(data)
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t at = 0
    cdef int32_t i = 0
    if count < 0 or count > size // RECORD_SIZE_MIN:
        raise problem(BAD_COUNT, -1, count)
    cdef list made = []
    cdef int64_t[::1] offsets = column(count, made)
    cdef int64_t[::1] timestamps = column(count, made)
    cdef int64_t[::1] keys = column(count, made)
    cdef int64_t[::1] key_sizes = column(count, made)
    cdef int64_t[::1] values = column(count, made)
    cdef int64_t[::1] value_sizes = column(count, made)
    cdef int64_t[::1] headers = column(count, made)
    cdef int64_t[::1] header_counts = column(count, made)
    with nogil:
        while i < count:
            at = cut_record(start, at, size, &cut, True)
            if at < 0:
                break
            offsets[i] = base_offset + cut.offset_delta
            timestamps[i] = wrapping_add(base_timestamp, cut.timestamp_delta)
            keys[i] = cut.key
            key_sizes[i] = cut.key_size
            values[i] = cut.value
            value_sizes[i] = cut.value_size
            headers[i] = cut.headers
            header_counts[i] = cut.header_count
            i += 1
    if at < 0:
        raise problem(<int>at, i, count)
    if at != size:
        raise problem(LEFT_OVER, -1, count)
    return tuple(made)


cdef inline object slice_of(const uint8_t* data, Py_ssize_t at, Py_ssize_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>data + at, size)


cdef tuple headers_of(const uint8_t* data, Py_ssize_t at, Py_ssize_t end, int32_t count):
    """Only for headers that `cut_record` has been through."""
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


def read(
    const uint8_t[::1] data, int32_t count, int64_t base_offset, int64_t base_timestamp, append_timestamp=None
):
    cdef Cut cut
    cdef const uint8_t* start = start_of(data)
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t at = 0
    cdef bint appended = append_timestamp is not None
    cdef int64_t append_time = append_timestamp if appended else 0
    cdef Record record
    cdef list found = []
    cdef int32_t i
    if count < 0 or count > size // RECORD_SIZE_MIN:
        raise problem(BAD_COUNT, -1, count)
    for i in range(count):
        at = cut_record(start, at, size, &cut, True)
        if at < 0:
            raise problem(<int>at, i, count)
        record = Record.__new__(Record)
        record.offset = base_offset + cut.offset_delta
        record.timestamp = append_time if appended else wrapping_add(base_timestamp, cut.timestamp_delta)
        record.key = slice_of(start, cut.key, cut.key_size)
        record.value = slice_of(start, cut.value, cut.value_size)
        record.headers = headers_of(start, cut.headers, cut.end, cut.header_count) if cut.header_count else ()
        found.append(record)
    if at != size:
        raise problem(LEFT_OVER, -1, count)
    return found


def headers_at(const uint8_t[::1] data, Py_ssize_t at, int32_t count):
    cdef Py_ssize_t end
    cdef const uint8_t* start = start_of(data)
    if at < 0 or count < 0 or count > data.shape[0] - at:
        raise problem(BAD_HEADERS, -1, count)
    end = skip_headers(start, at, data.shape[0], count)
    if end < 0:
        raise problem(<int>end, -1, count)
    return headers_of(start, at, end, count)


cdef bytes as_bytes(object data):
    # bytes(5) would be five zeros, and bytes("text") needs an encoding: only buffers are data.
    return <bytes>data if PyBytes_CheckExact(data) else memoryview(data).tobytes()


cdef class Writer:
    """Records encoded one after the other behind room for a batch header."""

    cdef uint8_t* _data
    cdef Py_ssize_t _room
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t size_max
    cdef readonly int32_t count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef Py_ssize_t _views

    def __cinit__(self):
        self.size = batch.HEADER

    def __init__(self, Py_ssize_t size_max=INT32_MAX):
        if size_max < batch.HEADER or size_max > INT32_MAX:
            raise ValueError(f"a batch takes from {<int>batch.HEADER} to {INT32_MAX} bytes, not {size_max}")
        self.size_max = size_max

    def __dealloc__(self):
        free(self._data)

    def __len__(self):
        return self.count

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if buffer == NULL or flags & 0x0001:  # PyBUF_WRITABLE
            raise BufferError("the encoded records are for reading only")
        if self._data == NULL:
            self._reserve(batch.HEADER)
        buffer.buf = self._data + batch.HEADER
        buffer.len = self.size - batch.HEADER
        buffer.obj = self
        buffer.readonly = 1
        buffer.itemsize = 1
        buffer.format = b"B" if flags & 0x0004 else NULL
        buffer.ndim = 1
        buffer.shape = &buffer.len
        buffer.strides = &buffer.itemsize
        buffer.suboffsets = NULL
        buffer.internal = NULL
        self._views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self._views -= 1

    cdef int _reserve(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t room
        cdef uint8_t* data
        if size <= self._room:
            return 0
        if self._views:
            raise BufferError("a view of the encoded records is still in use")
        room = max(size, 2 * self._room, 1024)
        data = <uint8_t*>realloc(self._data, room)
        if data == NULL:
            raise MemoryError()
        self._data = data
        self._room = room
        return 0

    def add(self, key, value, int64_t timestamp, headers=()):
        cdef bytes key_bytes = None if key is None else as_bytes(key)
        cdef bytes value_bytes = None if value is None else as_bytes(value)
        cdef bytes header_bytes = encode_headers(headers) if headers else b"\0"
        cdef int64_t delta = wrapping_subtract(timestamp, self.base_timestamp) if self.count else 0
        cdef int64_t key_size = -1 if key is None else PyBytes_GET_SIZE(key_bytes)
        cdef int64_t value_size = -1 if value is None else PyBytes_GET_SIZE(value_bytes)
        cdef int64_t body = (
            1 + varlong_size(delta) + varlong_size(self.count)
            + varlong_size(key_size) + varlong_size(value_size)
            + (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0)
            + PyBytes_GET_SIZE(header_bytes)
        )
        cdef int64_t size = self.size + varlong_size(body) + body
        cdef uint8_t* at
        if size > self.size_max and self.count:
            return False
        if size > INT32_MAX:
            raise MessageTooLarge(f"a record of {body} bytes is more than a batch can hold ({INT32_MAX})")
        self._reserve(size)
        at = put_varlong(self._data + self.size, body)
        at[0] = 0
        at = put_varlong(at + 1, delta)
        at = put_varlong(at, self.count)
        at = put_bytes(at, key_bytes, key_size)
        at = put_bytes(at, value_bytes, value_size)
        memcpy(at, PyBytes_AS_STRING(header_bytes), PyBytes_GET_SIZE(header_bytes))
        if self.count == 0:
            self.base_timestamp = timestamp
            self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.size = size
        self.count += 1
        return True

    def seal(
        self, int16_t attributes, int64_t base_offset, int32_t leader_epoch,
        int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, const uint8_t[::1] records=None,
    ):
        """The whole batch; `records` is what stands in for the section, compressed."""
        cdef const uint8_t* section
        cdef Py_ssize_t size
        cdef bytes sealed
        cdef uint8_t* at
        if self.count == 0:
            raise BadRecord("a batch needs at least one record")
        section = self._data + batch.HEADER if records is None else start_of(records)
        size = self.size - batch.HEADER if records is None else records.shape[0]
        if size > INT32_MAX - batch.HEADER:
            raise MessageTooLarge(f"{size} bytes of records are more than a batch can hold ({INT32_MAX})")
        sealed = PyBytes_FromStringAndSize(NULL, batch.HEADER + size)
        at = <uint8_t*>PyBytes_AS_STRING(sealed)
        memcpy(at + batch.HEADER, section, size)
        batch.put_int64(at + batch.BASE_OFFSET, base_offset)
        batch.put_int32(at + batch.EPOCH, leader_epoch)
        batch.put_int16(at + batch.ATTRIBUTES, attributes)
        batch.put_int32(at + batch.LAST_DELTA, self.count - 1)
        batch.put_int64(at + batch.BASE_TIMESTAMP, self.base_timestamp)
        batch.put_int64(at + batch.MAX_TIMESTAMP, self.max_timestamp)
        batch.put_int64(at + batch.PRODUCER_ID, producer_id)
        batch.put_int16(at + batch.PRODUCER_EPOCH, producer_epoch)
        batch.put_int32(at + batch.BASE_SEQUENCE, base_sequence)
        batch.put_int32(at + batch.COUNT, self.count)
        seal_batch(at, batch.HEADER + size)
        return sealed

    def clear(self):
        """Empty again, its memory kept for the next batch."""
        if self._views:
            raise BufferError("a view of the encoded records is still in use")
        self.size = batch.HEADER
        self.count = 0


cdef inline uint8_t* put_bytes(uint8_t* at, bytes data, int64_t size) noexcept:
    at = put_varlong(at, size)
    if size > 0:
        memcpy(at, PyBytes_AS_STRING(data), size)
        at += size
    return at


cdef bytes encode_headers(object headers):
    """Their number, then names and values."""
    cdef bytes name_bytes
    cdef bytes value_bytes
    cdef bytes encoded
    cdef uint8_t* at
    cdef int64_t size
    cdef list parts = []
    pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
    size = varlong_size(len(pairs))
    for name, value in pairs:
        name_bytes = name.encode() if isinstance(name, str) else as_bytes(name)
        value_bytes = None if value is None else as_bytes(value)
        parts.append((name_bytes, value_bytes))
        size += varlong_size(len(name_bytes)) + len(name_bytes)
        size += 1 if value is None else varlong_size(len(value_bytes)) + len(value_bytes)
    if size > INT32_MAX:
        raise MessageTooLarge(f"headers of {size} bytes are more than a batch can hold ({INT32_MAX})")
    encoded = PyBytes_FromStringAndSize(NULL, size)
    at = put_varlong(<uint8_t*>PyBytes_AS_STRING(encoded), len(parts))
    for name_bytes, value_bytes in parts:
        at = put_bytes(at, name_bytes, len(name_bytes))
        at = put_bytes(at, value_bytes, -1 if value_bytes is None else len(value_bytes))
    return encoded


cdef void seal_batch(uint8_t* at, Py_ssize_t size) noexcept nogil:
    """Length, magic and CRC of the batch at `at`; everything else is in place."""
    batch.put_int32(at + batch.LENGTH, <int32_t>(size - batch.PREFIX))
    at[batch.MAGIC] = 2
    batch.put_int32(at + batch.CRC, <int32_t>crc32c_update(0, at + batch.ATTRIBUTES, size - batch.ATTRIBUTES))


def replace_records(const uint8_t[::1] header, const uint8_t[::1] records, int16_t attributes):
    cdef Py_ssize_t size = records.shape[0]
    cdef bytes made
    cdef uint8_t* at
    if header.shape[0] < batch.HEADER:
        raise BadRecord("no batch header here: it takes 61 bytes")
    if size > INT32_MAX - batch.HEADER:
        raise MessageTooLarge(f"{size} bytes of records are more than a batch can hold ({INT32_MAX})")
    made = PyBytes_FromStringAndSize(NULL, batch.HEADER + size)
    at = <uint8_t*>PyBytes_AS_STRING(made)
    memcpy(at, &header[0], batch.HEADER)
    memcpy(at + batch.HEADER, start_of(records), size)
    batch.put_int16(at + batch.ATTRIBUTES, attributes)
    seal_batch(at, batch.HEADER + size)
    return made
