from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t


cdef class ResponseWriter:
    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef uint8_t* extend(self, Py_ssize_t size) except NULL
    cdef int put8(self, int value) except -1
    cdef int put16(self, int16_t value) except -1
    cdef int put32(self, int32_t value) except -1
    cdef int put64(self, int64_t value) except -1
    cdef int put_varint(self, uint32_t value) except -1
    cdef int put_count(self, Py_ssize_t count, bint flexible) except -1
    cdef int put_text(self, text, bint flexible) except -1
    cdef int put_topic(self, topic, bint flexible) except -1
    cdef bytes cut(self, Py_ssize_t start)


cdef int put_endpoints(ResponseWriter out, endpoints) except -1
cdef int put_leader(ResponseWriter out, int tags, int tag, leader) except -1
