from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

cdef bytes NO_HEADERS

cdef bytes as_bytes(object data)
cdef bytes encode_headers(object headers)
cdef void seal_batch(uint8_t* at, Py_ssize_t size) noexcept nogil

cdef class Writer:
    cdef uint8_t* _data
    cdef Py_ssize_t _capacity
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t size_max
    cdef readonly int32_t count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef Py_ssize_t _views
    cdef int _reserve(self, Py_ssize_t size) except -1
    cdef int put(self, bytes key, bytes value, int64_t timestamp, bytes headers) except -1
    cdef int put_parts(
        self, const uint8_t* key, int64_t key_size, const uint8_t* value, int64_t value_size, int64_t timestamp,
        const uint8_t* headers, int64_t headers_size,
    ) except -1
    cdef void _put_header(
        self, uint8_t* at, int16_t attributes, int64_t base_offset, int32_t leader_epoch,
        int64_t producer_id, int16_t producer_epoch, int32_t base_sequence,
    ) noexcept
