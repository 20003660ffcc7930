"""Batches written: records encoded one after the other, headers put in front, CRCs computed."""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from tidelog._speed.log.crc32c cimport crc32c_update, crc_prepare
from tidelog._speed.log cimport batch
from tidelog._speed.log.records cimport put_varlong, varlong_size, wrapping_subtract
from tidelog._speed.log.pooled_buffer cimport LARGE, give_spare, take_spare
from tidelog.errors import InvalidRecord, MessageTooLarge


crc_prepare()

cdef bytes NO_HEADERS = b"\0"


cdef bytes as_bytes(object data):
    # bytes(5) would be five zeros, and bytes("text") needs an encoding: only buffers are data.
    return <bytes>data if PyBytes_CheckExact(data) else memoryview(data).tobytes()


cdef enum:
    GROWN_MAX = 1 << 20


cdef class Sealed:
    """A finished batch, as a buffer."""

    cdef uint8_t* _data
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity

    def __dealloc__(self):
        give_spare(self._data, self._capacity)

    def __len__(self):
        return self._size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self._data, self._size, 1, flags)

    cdef int hold(self, const uint8_t[::1] records) except -1:
        """These, behind room for a header."""
        cdef Py_ssize_t size = records.shape[0]
        if size > INT32_MAX - batch.HEADER:
            raise MessageTooLarge(f"{size} bytes of records are more than a batch can hold ({INT32_MAX})")
        self._size = batch.HEADER + size
        self._capacity = take_spare(self._size, &self._data) if self._size >= LARGE else 0
        if not self._capacity:
            self._data = <uint8_t*>malloc(self._size)
            if self._data == NULL:
                raise MemoryError()
            self._capacity = self._size
        memcpy(self._data + batch.HEADER, &records[0], size)
        return 0


cdef class Writer:
    """Records encoded one after the other behind room for a batch header."""

    def __cinit__(self):
        self.size = batch.HEADER

    def __init__(self, Py_ssize_t size_max=INT32_MAX):
        if size_max < batch.HEADER or size_max > INT32_MAX:
            raise ValueError(f"a batch takes from {<int>batch.HEADER} to {INT32_MAX} bytes, not {size_max}")
        self.size_max = size_max

    def __dealloc__(self):
        give_spare(self._data, self._capacity)

    def __len__(self):
        return self.count

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self._data == NULL:
            self._reserve(batch.HEADER)
        PyBuffer_FillInfo(buffer, self, self._data + batch.HEADER, self.size - batch.HEADER, 1, flags)
        self._views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self._views -= 1

    cdef int _reserve(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t capacity
        cdef Py_ssize_t taken = 0
        cdef uint8_t* data = NULL
        if size <= self._capacity:
            return 0
        if self._views:
            raise BufferError("a view of the encoded records is still in use")
        capacity = max(size, 2 * self._capacity, 1024)
        if LARGE <= capacity <= GROWN_MAX and self.size_max <= GROWN_MAX:
            # A batch this large is likely to fill up.
            capacity = max(capacity, self.size_max)
        if capacity >= LARGE:
            taken = take_spare(capacity, &data)
        if taken:
            memcpy(data, self._data, self.size if self._data != NULL else 0)
            free(self._data)
            capacity = taken
        else:
            data = <uint8_t*>realloc(self._data, capacity)
            if data == NULL:
                raise MemoryError()
        self._data = data
        self._capacity = capacity
        return 0

    def add(self, key, value, int64_t timestamp, headers=()):
        return self.put(
            None if key is None else as_bytes(key),
            None if value is None else as_bytes(value),
            timestamp,
            encode_headers(headers) if headers else NO_HEADERS,
        ) == 1

    cdef int put(self, bytes key, bytes value, int64_t timestamp, bytes headers) except -1:
        """1 when it is in, 0 when the batch is full without it; `headers` are encoded already."""
        return self.put_parts(
            NULL if key is None else <const uint8_t*>PyBytes_AS_STRING(key), -1 if key is None else PyBytes_GET_SIZE(key),
            NULL if value is None else <const uint8_t*>PyBytes_AS_STRING(value),
            -1 if value is None else PyBytes_GET_SIZE(value),
            timestamp, <const uint8_t*>PyBytes_AS_STRING(headers), PyBytes_GET_SIZE(headers),
        )

    cdef int put_parts(
        self, const uint8_t* key, int64_t key_size, const uint8_t* value, int64_t value_size, int64_t timestamp,
        const uint8_t* headers, int64_t headers_size,
    ) except -1:
        """A size of -1 stands for null."""
        cdef int64_t delta = wrapping_subtract(timestamp, self.base_timestamp) if self.count else 0
        cdef int64_t body = (
            1 + varlong_size(delta) + varlong_size(self.count)
            + varlong_size(key_size) + varlong_size(value_size)
            + (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0)
            + headers_size
        )
        cdef int64_t size = self.size + varlong_size(body) + body
        cdef uint8_t* at
        if size > self.size_max and self.count:
            return 0
        if size > INT32_MAX:
            raise MessageTooLarge(f"a record of {body} bytes is more than a batch can hold ({INT32_MAX})")
        self._reserve(size)
        at = put_varlong(self._data + self.size, body)
        at[0] = 0
        at = put_varlong(at + 1, delta)
        at = put_varlong(at, self.count)
        at = put_bytes(at, key, key_size)
        at = put_bytes(at, value, value_size)
        memcpy(at, headers, headers_size)
        if self.count == 0:
            self.base_timestamp = timestamp
            self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.size = size
        self.count += 1
        return 1

    def seal(
        self, int16_t attributes, int64_t base_offset, int32_t leader_epoch,
        int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, const uint8_t[::1] records=None,
    ):
        """The whole batch; `records` is what stands in for the section, compressed."""
        cdef const uint8_t* section
        cdef Py_ssize_t size
        cdef bytes sealed
        cdef uint8_t* at
        if self.count == 0 or (records is not None and records.shape[0] == 0):
            raise InvalidRecord("a batch needs at least one record")
        section = <const uint8_t*>self._data + batch.HEADER if records is None else &records[0]
        size = self.size - batch.HEADER if records is None else records.shape[0]
        if size > INT32_MAX - batch.HEADER:
            raise MessageTooLarge(f"{size} bytes of records are more than a batch can hold ({INT32_MAX})")
        sealed = PyBytes_FromStringAndSize(NULL, batch.HEADER + size)
        at = <uint8_t*>PyBytes_AS_STRING(sealed)
        memcpy(at + batch.HEADER, section, size)
        self._put_header(at, attributes, base_offset, leader_epoch, producer_id, producer_epoch, base_sequence)
        seal_batch(at, batch.HEADER + size)
        return sealed

    def finish(
        self, int16_t attributes, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence,
        const uint8_t[::1] records=None,
    ):
        """The whole batch, in the memory that it has grown in; the writer has none afterwards.  `records` is what
        stands in for the section, compressed: then the memory is another one."""
        cdef Sealed sealed = Sealed.__new__(Sealed)
        if self.count == 0 or (records is not None and records.shape[0] == 0):
            raise InvalidRecord("a batch needs at least one record")
        if self._views:
            raise BufferError("a view of the encoded records is still in use")
        if records is not None:
            sealed.hold(records)
            give_spare(self._data, self._capacity)
        else:
            sealed._data, sealed._size, sealed._capacity = self._data, self.size, self._capacity
        self._data = NULL
        self._capacity = 0
        self._put_header(sealed._data, attributes, 0, -1, producer_id, producer_epoch, base_sequence)
        seal_batch(sealed._data, sealed._size)
        return sealed

    cdef void _put_header(
        self, uint8_t* at, int16_t attributes, int64_t base_offset, int32_t leader_epoch,
        int64_t producer_id, int16_t producer_epoch, int32_t base_sequence,
    ) noexcept:
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

    def clear(self):
        """Empty again, its memory kept for the next batch."""
        if self._views:
            raise BufferError("a view of the encoded records is still in use")
        self.size = batch.HEADER
        self.count = 0


cdef inline uint8_t* put_bytes(uint8_t* at, const uint8_t* data, int64_t size) noexcept nogil:
    at = put_varlong(at, size)
    if size > 0:
        memcpy(at, data, size)
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
        at = put_bytes(at, <const uint8_t*>PyBytes_AS_STRING(name_bytes), len(name_bytes))
        if value_bytes is None:
            at = put_bytes(at, NULL, -1)
        else:
            at = put_bytes(at, <const uint8_t*>PyBytes_AS_STRING(value_bytes), len(value_bytes))
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
        raise InvalidRecord("no batch header here: it takes 61 bytes")
    if size > INT32_MAX - batch.HEADER:
        raise MessageTooLarge(f"{size} bytes of records are more than a batch can hold ({INT32_MAX})")
    made = PyBytes_FromStringAndSize(NULL, batch.HEADER + size)
    at = <uint8_t*>PyBytes_AS_STRING(made)
    memcpy(at, &header[0], batch.HEADER)
    if size:
        memcpy(at + batch.HEADER, &records[0], size)
    batch.put_int16(at + batch.ATTRIBUTES, attributes)
    seal_batch(at, batch.HEADER + size)
    return made
