"""Committed offsets between the wire and the log: OffsetCommit requests read with their good answer beside them, and the
batch of records that keeps them.

`wire.messages.offset_commit` and `groups.kinds` say what the bytes are; property tests hold the two against each other.
Whatever is not plain (tags, lengths that cannot be) is left to those."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from tidelog._speed.log.batch cimport HEADER, get_int32, get_int64, put_int16, put_int32, put_int64
from tidelog._speed.log.writer cimport NO_HEADERS, Writer, seal_batch


cdef enum:
    VERSION_MIN = 8
    VERSION_MAX = 10
    TOPIC_ID_FROM = 10
    ID_BYTES = 16
    KEY_KIND = 1
    VALUE_VERSION = 4
    # What a partition takes at least in a request, and takes always in an answer.
    ASKED_BYTES_MIN = 18
    ANSWERED_BYTES = 7
    # What comes before and after the strings of a record's key and value.
    KEY_BYTES = 2 + 2 + 2 + 4
    VALUE_BYTES = 2 + 8 + 4 + 3 + 8 + 1 + 2 + ID_BYTES
    TEXT_BYTES_MAX = 0x7FFF


cdef class CommitRequest:
    cdef readonly str group
    cdef readonly int32_t epoch
    cdef readonly str member
    cdef readonly str instance
    cdef readonly list topics
    cdef readonly bytes answer


cdef Py_ssize_t take_size(const uint8_t* data, Py_ssize_t size, Py_ssize_t* at) noexcept nogil:
    """A compact length or count, which is one less than it says (so -1 stands for null); -2 when it is none."""
    cdef Py_ssize_t value = 0
    cdef int shift = 0
    cdef uint8_t part
    while shift < 21 and at[0] < size:
        part = data[at[0]]
        at[0] += 1
        value |= <Py_ssize_t>(part & 0x7F) << shift
        if part < 0x80:
            return value - 1
        shift += 7
    return -2


cdef object take_text(const uint8_t* data, Py_ssize_t size, Py_ssize_t* at):
    """None for null and for what is no text: `at` is -1 then."""
    cdef Py_ssize_t length = take_size(data, size, at)
    if length == -1:
        return None
    if length < 0 or length > TEXT_BYTES_MAX or length > size - at[0]:
        at[0] = -1
        return None
    try:
        text = PyUnicode_DecodeUTF8(<char*>data + at[0], length, NULL)
    except UnicodeDecodeError:
        at[0] = -1
        return None
    at[0] += length
    return text


def read_commit(const uint8_t[::1] frame, Py_ssize_t at, int version, int32_t correlation_id):
    if version < VERSION_MIN or version > VERSION_MAX or at >= frame.shape[0]:
        return None
    return read(&frame[0], frame.shape[0], at, version, correlation_id)


cdef CommitRequest read(const uint8_t* data, Py_ssize_t size, Py_ssize_t at, int version, int32_t correlation_id):
    cdef CommitRequest request = CommitRequest.__new__(CommitRequest)
    cdef Py_ssize_t count, from_at, end
    cdef bytearray out
    cdef uint8_t* answer
    cdef int _
    group = take_text(data, size, &at)
    if group is None or size - at < 4:
        return None
    request.group = group
    request.epoch = get_int32(data + at)
    at += 4
    member = take_text(data, size, &at)
    if member is None:
        return None
    request.member = member
    request.instance = take_text(data, size, &at)
    if at < 0:
        return None
    from_at = at
    count = take_size(data, size, &at)
    if count < 1 or count > size - at:
        return None
    # An answer says less of each topic than its request does.
    out = PyByteArray_FromStringAndSize(NULL, 14 + size - from_at)
    answer = <uint8_t*>PyByteArray_AS_STRING(out)
    put_int32(answer + 4, correlation_id)
    answer[8] = 0  # no tags
    put_int32(answer + 9, 0)  # no throttling
    memcpy(answer + 13, data + from_at, at - from_at)
    end = 13 + at - from_at
    request.topics = []
    for _ in range(count):
        if not read_topic(data, size, &at, version, answer, &end, request.topics):
            return None
    if size - at < 1 or data[at]:
        return None
    answer[end] = 0
    end += 1
    put_int32(answer, <int32_t>(end - 4))
    request.answer = PyBytes_FromStringAndSize(<char*>answer, end)
    return request


cdef bint read_topic(
    const uint8_t* data, Py_ssize_t size, Py_ssize_t* place, int version, uint8_t* answer, Py_ssize_t* end, list topics
) except -1:
    cdef Py_ssize_t at = place[0]
    cdef Py_ssize_t count
    cdef Py_ssize_t head = at
    cdef list partitions = []
    cdef int32_t index, epoch
    cdef int64_t offset
    cdef Py_ssize_t _
    if version >= TOPIC_ID_FROM:
        if size - at < ID_BYTES:
            return False
        topic = PyBytes_FromStringAndSize(<char*>data + at, ID_BYTES)
        at += ID_BYTES
    else:
        topic = take_text(data, size, &at)
        if topic is None:
            return False
    count = take_size(data, size, &at)
    if count < 1 or count > (size - at) // ASKED_BYTES_MIN:
        return False
    memcpy(answer + end[0], data + head, at - head)
    end[0] += at - head
    for _ in range(count):
        if size - at < ASKED_BYTES_MIN:
            return False
        index = get_int32(data + at)
        offset = get_int64(data + at + 4)
        epoch = get_int32(data + at + 12)
        at += 16
        metadata = take_text(data, size, &at)
        if at < 0 or at >= size or data[at]:
            return False
        at += 1
        partitions.append((index, offset, epoch, metadata))
        put_int32(answer + end[0], index)
        put_int16(answer + end[0] + 4, 0)
        answer[end[0] + 6] = 0
        end[0] += ANSWERED_BYTES
    if at >= size or data[at]:
        return False
    at += 1
    answer[end[0]] = 0
    end[0] += 1
    topics.append((topic, partitions))
    place[0] = at
    return True


def offsets_batch(str group, list topics, int64_t now_ms):
    cdef Writer writer = Writer.__new__(Writer)
    cdef bytearray made
    cdef uint8_t* at
    writer.size_max = 0x7FFFFFFF
    for name, topic_id, partitions in topics:
        for index, offset, epoch, metadata in partitions:
            put_offset(writer, group, name, topic_id, index, offset, epoch, metadata or "", now_ms)
    made = PyByteArray_FromStringAndSize(NULL, writer.size)
    at = <uint8_t*>PyByteArray_AS_STRING(made)
    memcpy(at + HEADER, writer._data + HEADER, writer.size - HEADER)
    writer._put_header(at, 0, 0, -1, -1, -1, -1)
    seal_batch(at, writer.size)
    return made


cdef int put_offset(
    Writer writer, str group, str topic, bytes topic_id, int32_t index, int64_t offset, int32_t epoch, str metadata,
    int64_t now_ms,
) except -1:
    cdef uint8_t key[KEY_BYTES + 2 * TEXT_BYTES_MAX]
    cdef uint8_t value[VALUE_BYTES + TEXT_BYTES_MAX]
    cdef Py_ssize_t group_size, topic_size, metadata_size, rest
    cdef const char* group_text = PyUnicode_AsUTF8AndSize(group, &group_size)
    cdef const char* topic_text = PyUnicode_AsUTF8AndSize(topic, &topic_size)
    cdef const char* metadata_text = PyUnicode_AsUTF8AndSize(metadata, &metadata_size)
    cdef uint8_t* at = key
    cdef uint8_t* end = value
    if max(group_size, topic_size, metadata_size) > TEXT_BYTES_MAX or PyBytes_GET_SIZE(topic_id) != ID_BYTES:
        raise ValueError("a group, topic or metadata that is too long for a record")
    put_int16(at, KEY_KIND)
    put_int16(at + 2, <int>group_size)
    memcpy(at + 4, group_text, group_size)
    at += 4 + group_size
    put_int16(at, <int>topic_size)
    memcpy(at + 2, topic_text, topic_size)
    at += 2 + topic_size
    put_int32(at, index)
    at += 4
    put_int16(end, VALUE_VERSION)
    put_int64(end + 2, offset)
    put_int32(end + 10, epoch)
    end += 14
    rest = metadata_size + 1
    while rest >= 0x80:
        end[0] = <uint8_t>(rest & 0x7F | 0x80)
        rest >>= 7
        end += 1
    end[0] = <uint8_t>rest
    memcpy(end + 1, metadata_text, metadata_size)
    end += 1 + metadata_size
    put_int64(end, now_ms)
    end[8] = 1  # one tag: number 0, its size, the topic's id
    end[9] = 0
    end[10] = ID_BYTES
    memcpy(end + 11, PyBytes_AS_STRING(topic_id), ID_BYTES)
    end += 11 + ID_BYTES
    writer.put_parts(
        key, at - key, value, end - value, now_ms,
        <const uint8_t*>PyBytes_AS_STRING(NO_HEADERS), PyBytes_GET_SIZE(NO_HEADERS),
    )
    return 0
