from libc.stdint cimport int32_t, int64_t, uint8_t

cdef bytes NO_HEADERS

cdef bytes as_bytes(object data)
cdef bytes encode_headers(object headers)
cdef void seal_batch(uint8_t* at, Py_ssize_t size) noexcept nogil

cdef class Writer:
    cdef uint8_t* _data
    cdef Py_ssize_t _room
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t size_max
    cdef readonly int32_t count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef Py_ssize_t _views
    cdef int _reserve(self, Py_ssize_t size) except -1
    cdef int put(self, bytes key, bytes value, int64_t timestamp, bytes headers) except -1
