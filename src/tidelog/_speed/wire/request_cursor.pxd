"""A cursor over the fields of a request: each length is checked against the bytes that are left before its bytes are used."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from tidelog._speed.log.batch cimport get_int16, get_int32, get_int64


cdef enum:
    PARTITIONS_MAX = 1 << 16  # in one request: each takes microseconds, in which nobody else is served


cdef struct Cursor:
    const uint8_t* data
    Py_ssize_t at
    Py_ssize_t end
    Py_ssize_t partitions


cdef inline int need(Cursor* cursor, Py_ssize_t size) except -1:
    if size < 0 or size > cursor.end - cursor.at:
        raise ValueError("the request ends before its fields do")
    return 0


cdef inline int8_t take_int8(Cursor* cursor) except? -1:
    need(cursor, 1)
    cursor.at += 1
    return <int8_t>cursor.data[cursor.at - 1]


cdef inline int16_t take_int16(Cursor* cursor) except? -1:
    need(cursor, 2)
    cursor.at += 2
    return get_int16(cursor.data + cursor.at - 2)


cdef inline int32_t take_int32(Cursor* cursor) except? -1:
    need(cursor, 4)
    cursor.at += 4
    return get_int32(cursor.data + cursor.at - 4)


cdef inline int64_t take_int64(Cursor* cursor) except? -1:
    need(cursor, 8)
    cursor.at += 8
    return get_int64(cursor.data + cursor.at - 8)


cdef inline uint32_t take_varint(Cursor* cursor) except? 0xFFFFFFFF:
    cdef uint32_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift <= 28:
        need(cursor, 1)
        byte = cursor.data[cursor.at]
        cursor.at += 1
        if shift == 28 and byte > 0x0F:
            break
        value |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    raise ValueError("a variable-length integer of more than 32 bits")


cdef inline Py_ssize_t take_count(Cursor* cursor, bint flexible, Py_ssize_t element_bytes_min) except -2:
    """The length of an array that cannot be null; never more than could be there."""
    cdef int64_t count
    count = <int64_t>take_varint(cursor) - 1 if flexible else take_int32(cursor)
    if count < 0 or count * element_bytes_min > cursor.end - cursor.at:
        raise ValueError(f"an array of {count} elements in {cursor.end - cursor.at} bytes")
    return count


cdef inline Py_ssize_t take_partitions(Cursor* cursor, bint flexible, Py_ssize_t element_bytes_min) except -2:
    """The number of a topic's partitions; all of a request together are bounded."""
    cdef Py_ssize_t count = take_count(cursor, flexible, element_bytes_min)
    cursor.partitions += count
    if cursor.partitions > PARTITIONS_MAX:
        raise ValueError(f"more than {<int>PARTITIONS_MAX} partitions in one request")
    return count


cdef inline object take_text(Cursor* cursor, bint flexible):
    cdef int64_t size
    size = <int64_t>take_varint(cursor) - 1 if flexible else take_int16(cursor)
    if size < 0:
        if size < -1:
            raise ValueError("a string of negative length")
        return None
    need(cursor, size)
    cursor.at += size
    return PyUnicode_DecodeUTF8(<char*>cursor.data + cursor.at - size, size, NULL)


cdef inline object take_topic(Cursor* cursor, bint flexible, bint by_id):
    if by_id:
        need(cursor, 16)
        cursor.at += 16
        return PyBytes_FromStringAndSize(<char*>cursor.data + cursor.at - 16, 16)
    name = take_text(cursor, flexible)
    if name is None:
        raise ValueError("a topic without a name")
    return name


cdef inline int skip_tags(Cursor* cursor) except -1:
    cdef uint32_t count = take_varint(cursor)
    cdef uint32_t size
    while count:
        take_varint(cursor)
        size = take_varint(cursor)
        need(cursor, size)
        cursor.at += size
        count -= 1
    return 0


cdef inline Cursor open_cursor(const uint8_t* data, Py_ssize_t size, Py_ssize_t at) except *:
    cdef Cursor cursor
    if at < 0 or at >= size:
        raise ValueError("the request has no body")
    cursor.data = data
    cursor.at = at
    cursor.end = size
    cursor.partitions = 0
    return cursor
