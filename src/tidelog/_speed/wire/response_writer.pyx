"""A response as it is encoded: bytes that grow at the end, and the tagged fields that Produce and Fetch have in common."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from tidelog._speed.log.batch cimport put_int16, put_int32, put_int64


cdef class ResponseWriter:
    """Bytes that grow at the end."""

    def __cinit__(self):
        self.capacity = 512
        self.data = <uint8_t*>malloc(self.capacity)
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.data)

    cdef uint8_t* extend(self, Py_ssize_t size) except NULL:
        cdef uint8_t* grown
        if self.size + size > self.capacity:
            grown = <uint8_t*>realloc(self.data, 2 * (self.size + size))
            if grown == NULL:
                raise MemoryError
            self.data = grown
            self.capacity = 2 * (self.size + size)
        self.size += size
        return self.data + self.size - size

    cdef int put8(self, int value) except -1:
        self.extend(1)[0] = <uint8_t>value
        return 0

    cdef int put16(self, int16_t value) except -1:
        put_int16(self.extend(2), value)
        return 0

    cdef int put32(self, int32_t value) except -1:
        put_int32(self.extend(4), value)
        return 0

    cdef int put64(self, int64_t value) except -1:
        put_int64(self.extend(8), value)
        return 0

    cdef int put_varint(self, uint32_t value) except -1:
        while value >= 0x80:
            self.put8(<int>(value & 0x7F) | 0x80)
            value >>= 7
        return self.put8(<int>value)

    cdef int put_count(self, Py_ssize_t count, bint flexible) except -1:
        if flexible:
            return self.put_varint(<uint32_t>(count + 1))
        return self.put32(<int32_t>count)

    cdef int put_text(self, text, bint flexible) except -1:
        cdef Py_ssize_t size
        cdef const char* start
        if text is None:
            return self.put_varint(0) if flexible else self.put16(-1)
        start = PyUnicode_AsUTF8AndSize(text, &size)
        if flexible:
            self.put_varint(<uint32_t>(size + 1))
        else:
            self.put16(<int16_t>size)
        memcpy(self.extend(size), start, size)
        return 0

    cdef int put_topic(self, topic, bint flexible) except -1:
        if type(topic) is bytes:
            memcpy(self.extend(16), <char*>(<bytes>topic), 16)
            return 0
        return self.put_text(topic, flexible)

    cdef bytes cut(self, Py_ssize_t start):
        return PyBytes_FromStringAndSize(<char*>self.data + start, self.size - start)


cdef int put_endpoints(ResponseWriter out, endpoints) except -1:
    """(node, host, port, rack) of leaders, as the only tagged field of an answer; none without any."""
    cdef ResponseWriter field
    if not endpoints:
        return out.put8(0)
    field = ResponseWriter.__new__(ResponseWriter)
    field.put_count(len(endpoints), True)
    for node, host, port, rack in endpoints:
        field.put32(node)
        field.put_text(host, True)
        field.put32(port)
        field.put_text(rack, True)
        field.put8(0)
    out.put8(1)
    out.put8(0)
    out.put_varint(<uint32_t>field.size)
    memcpy(out.extend(field.size), field.data, field.size)
    return 0


cdef int put_leader(ResponseWriter out, int tags, int tag, leader) except -1:
    """A tagged (leader id, leader epoch), as the first of `tags` fields."""
    out.put8(tags)
    out.put8(tag)
    out.put8(9)
    out.put32(leader[0])
    out.put32(leader[1])
    return out.put8(0)
