"""The hot requests and answers, decoded and encoded natively: Produce 3-13, Fetch 4-18.

The decoders check every length against what is left before they use it; what they refuse raises ValueError.  Bytes
after the last field are passed over, as Kafka does: some clients send a few.  The messages in `tidelog.wire` are the oracle these are tested against."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from tidelog._speed.log.batch cimport get_int16, get_int32, get_int64, put_int16, put_int32, put_int64


# Decoding

cdef enum:
    ATTRIBUTES_LOW = 22  # where a batch has its codec and whether it is in a transaction
    PARTITIONS_MAX = 1 << 16  # in one request: each takes microseconds, in which nobody else is served


cdef struct Cursor:
    const uint8_t* data
    Py_ssize_t at
    Py_ssize_t end
    Py_ssize_t partitions


cdef int need(Cursor* cursor, Py_ssize_t size) except -1:
    if size < 0 or size > cursor.end - cursor.at:
        raise ValueError("the request ends before its fields do")
    return 0


cdef int8_t take_int8(Cursor* cursor) except? -1:
    need(cursor, 1)
    cursor.at += 1
    return <int8_t>cursor.data[cursor.at - 1]


cdef int16_t take_int16(Cursor* cursor) except? -1:
    need(cursor, 2)
    cursor.at += 2
    return get_int16(cursor.data + cursor.at - 2)


cdef int32_t take_int32(Cursor* cursor) except? -1:
    need(cursor, 4)
    cursor.at += 4
    return get_int32(cursor.data + cursor.at - 4)


cdef int64_t take_int64(Cursor* cursor) except? -1:
    need(cursor, 8)
    cursor.at += 8
    return get_int64(cursor.data + cursor.at - 8)


cdef uint32_t take_varint(Cursor* cursor) except? 0xFFFFFFFF:
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


cdef Py_ssize_t take_count(Cursor* cursor, bint flexible, Py_ssize_t element_bytes_min) except -2:
    """The length of an array that cannot be null; never more than could be there."""
    cdef int64_t count
    count = <int64_t>take_varint(cursor) - 1 if flexible else take_int32(cursor)
    if count < 0 or count * element_bytes_min > cursor.end - cursor.at:
        raise ValueError(f"an array of {count} elements in {cursor.end - cursor.at} bytes")
    return count


cdef Py_ssize_t take_partitions(Cursor* cursor, bint flexible, Py_ssize_t element_bytes_min) except -2:
    """The number of a topic's partitions; all of a request together are bounded."""
    cdef Py_ssize_t count = take_count(cursor, flexible, element_bytes_min)
    cursor.partitions += count
    if cursor.partitions > PARTITIONS_MAX:
        raise ValueError(f"more than {<int>PARTITIONS_MAX} partitions in one request")
    return count


cdef object take_text(Cursor* cursor, bint flexible):
    cdef int64_t size
    size = <int64_t>take_varint(cursor) - 1 if flexible else take_int16(cursor)
    if size < 0:
        if size < -1:
            raise ValueError("a string of negative length")
        return None
    need(cursor, size)
    cursor.at += size
    return PyUnicode_DecodeUTF8(<char*>cursor.data + cursor.at - size, size, NULL)


cdef object take_topic(Cursor* cursor, bint flexible, bint by_id):
    if by_id:
        need(cursor, 16)
        cursor.at += 16
        return PyBytes_FromStringAndSize(<char*>cursor.data + cursor.at - 16, 16)
    name = take_text(cursor, flexible)
    if name is None:
        raise ValueError("a topic without a name")
    return name


cdef int skip_tags(Cursor* cursor) except -1:
    cdef uint32_t count = take_varint(cursor)
    cdef uint32_t size
    while count:
        take_varint(cursor)
        size = take_varint(cursor)
        need(cursor, size)
        cursor.at += size
        count -= 1
    return 0


cdef Cursor open_cursor(const uint8_t[::1] frame, Py_ssize_t at) except *:
    cdef Cursor cursor
    if at < 0 or at >= frame.shape[0]:
        raise ValueError("the request has no body")
    cursor.data = &frame[0]
    cursor.at = at
    cursor.end = frame.shape[0]
    cursor.partitions = 0
    return cursor


def request_header(const uint8_t[::1] frame, bint flexible):
    cdef Cursor cursor = open_cursor(frame, 8)
    client_id = take_text(&cursor, False)
    if flexible:
        skip_tags(&cursor)
    return client_id, cursor.at


cdef class ProduceAsk:
    cdef readonly object transactional_id
    cdef public int acks
    cdef readonly int timeout_ms
    cdef readonly int attributes
    cdef readonly list topics


def decode_produce(const uint8_t[::1] frame, Py_ssize_t at, int version):
    cdef Cursor cursor = open_cursor(frame, at)
    cdef bint flexible = version >= 9
    cdef ProduceAsk ask = ProduceAsk.__new__(ProduceAsk)
    cdef Py_ssize_t topics, partitions
    cdef int64_t size
    cdef int32_t index
    cdef list parts
    ask.transactional_id = take_text(&cursor, flexible)
    ask.acks = take_int16(&cursor)
    ask.timeout_ms = take_int32(&cursor)
    ask.topics = []
    topics = take_count(&cursor, flexible, 2)
    while topics > 0:
        topics -= 1
        topic = take_topic(&cursor, flexible, version >= 13)
        parts = []
        partitions = take_partitions(&cursor, flexible, 5)
        while partitions > 0:
            partitions -= 1
            index = take_int32(&cursor)
            size = <int64_t>take_varint(&cursor) - 1 if flexible else take_int32(&cursor)
            if size < -1:
                raise ValueError("records of negative length")
            if size > 0:
                need(&cursor, size)
            parts.append((index, cursor.at, size))
            if size > ATTRIBUTES_LOW:
                ask.attributes |= cursor.data[cursor.at + ATTRIBUTES_LOW]
            if size > 0:
                cursor.at += size
            if flexible:
                skip_tags(&cursor)
        if flexible:
            skip_tags(&cursor)
        ask.topics.append((topic, parts))
    if flexible:
        skip_tags(&cursor)
    return ask


cdef class FetchAsk:
    cdef readonly int replica_id
    cdef readonly int64_t replica_epoch
    cdef readonly int max_wait_ms
    cdef readonly int min_bytes
    cdef readonly int max_bytes
    cdef readonly bint read_committed
    cdef readonly int session_id
    cdef readonly int session_epoch
    cdef readonly list topics
    cdef readonly list forgotten
    cdef readonly object rack


cdef int take_fetch_tags(Cursor* cursor, int version, FetchAsk ask) except -1:
    """Tag 1 is the replica state (from version 15 on); the cluster id in tag 0 is not looked at."""
    cdef uint32_t count = take_varint(cursor)
    cdef uint32_t tag, size
    cdef Py_ssize_t end
    while count:
        count -= 1
        tag = take_varint(cursor)
        size = take_varint(cursor)
        need(cursor, size)
        end = cursor.at + size
        if tag == 1 and version >= 15:
            ask.replica_id = take_int32(cursor)
            ask.replica_epoch = take_int64(cursor)
            skip_tags(cursor)
            if cursor.at != end:
                raise ValueError("a replica state of the wrong size")
        cursor.at = end
    return 0


def decode_fetch(const uint8_t[::1] frame, Py_ssize_t at, int version):
    cdef Cursor cursor = open_cursor(frame, at)
    cdef bint flexible = version >= 12
    cdef FetchAsk ask = FetchAsk.__new__(FetchAsk)
    cdef Py_ssize_t topics
    ask.replica_id = take_int32(&cursor) if version <= 14 else -1
    ask.replica_epoch = -1
    ask.max_wait_ms = take_int32(&cursor)
    ask.min_bytes = take_int32(&cursor)
    ask.max_bytes = take_int32(&cursor)
    ask.read_committed = take_int8(&cursor) == 1
    ask.session_id = take_int32(&cursor) if version >= 7 else 0
    ask.session_epoch = take_int32(&cursor) if version >= 7 else -1
    ask.topics = []
    ask.forgotten = []
    ask.rack = ""
    topics = take_count(&cursor, flexible, 2)
    while topics > 0:
        topics -= 1
        topic = take_topic(&cursor, flexible, version >= 13)
        ask.topics.append((topic, take_fetch_partitions(&cursor, version)))
    if version >= 7:
        topics = take_count(&cursor, flexible, 2)
        while topics > 0:
            topics -= 1
            topic = take_topic(&cursor, flexible, version >= 13)
            ask.forgotten.append((topic, take_numbers(&cursor, flexible)))
            if flexible:
                skip_tags(&cursor)
    if version >= 11:
        ask.rack = take_text(&cursor, flexible) or ""
    if flexible:
        take_fetch_tags(&cursor, version, ask)
    return ask


cdef list take_fetch_partitions(Cursor* cursor, int version):
    cdef bint flexible = version >= 12
    cdef Py_ssize_t partitions = take_partitions(cursor, flexible, 16)
    cdef int32_t index, epoch, fetched_epoch, bytes_max
    cdef int64_t offset, log_start
    cdef list parts = []
    while partitions > 0:
        partitions -= 1
        index = take_int32(cursor)
        epoch = take_int32(cursor) if version >= 9 else -1
        offset = take_int64(cursor)
        fetched_epoch = take_int32(cursor) if version >= 12 else -1
        log_start = take_int64(cursor) if version >= 5 else -1
        bytes_max = take_int32(cursor)
        if flexible:
            skip_tags(cursor)
        parts.append((index, epoch, offset, fetched_epoch, log_start, bytes_max))
    if flexible:
        skip_tags(cursor)
    return parts


cdef list take_numbers(Cursor* cursor, bint flexible):
    cdef Py_ssize_t count = take_partitions(cursor, flexible, 4)
    cdef list numbers = []
    while count > 0:
        count -= 1
        numbers.append(take_int32(cursor))
    return numbers


# Encoding

cdef class Writer:
    """Bytes that grow at the end."""

    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

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


cdef class ProduceAnswer:
    cdef readonly int32_t index
    cdef readonly int16_t error
    cdef readonly int64_t base_offset
    cdef readonly int64_t append_time_ms
    cdef readonly int64_t log_start
    cdef readonly object message
    cdef readonly object leader
    cdef readonly object bad_records

    def __init__(
        self,
        int32_t index,
        int16_t error,
        int64_t base_offset=-1,
        int64_t append_time_ms=-1,
        int64_t log_start=-1,
        message=None,
        leader=None,
        bad_records=(),
    ):
        self.index = index
        self.error = error
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.log_start = log_start
        self.message = message
        self.leader = leader
        self.bad_records = bad_records


@cython.freelist(64)
cdef class FetchAnswer:
    cdef public int32_t index
    cdef public int16_t error
    cdef public int64_t high_watermark
    cdef public int64_t last_stable_offset
    cdef public int64_t log_start
    cdef public int32_t preferred_replica
    cdef public object diverging
    cdef public object leader
    cdef public object aborted
    cdef public object records

    def __init__(
        self,
        int32_t index,
        int16_t error=0,
        int64_t high_watermark=-1,
        int64_t last_stable_offset=-1,
        int64_t log_start=-1,
    ):
        self.index = index
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start = log_start
        self.preferred_replica = -1


def fetch_answer(
    int32_t index, int64_t high_watermark, int64_t last_stable_offset, int64_t log_start, records
):
    cdef FetchAnswer answer = FetchAnswer.__new__(FetchAnswer)
    answer.index = index
    answer.high_watermark = high_watermark
    answer.last_stable_offset = last_stable_offset
    answer.log_start = log_start
    answer.preferred_replica = -1
    answer.records = records
    return answer


def encode_produce(int version, int32_t correlation_id, list topics, int32_t throttle_ms, endpoints=()):
    cdef Writer out = Writer.__new__(Writer)
    cdef bint flexible = version >= 9
    cdef ProduceAnswer answer
    out.put32(0)
    out.put32(correlation_id)
    if flexible:
        out.put8(0)
    out.put_count(len(topics), flexible)
    for topic, answers in topics:
        out.put_topic(topic, flexible)
        out.put_count(len(answers), flexible)
        for answer in answers:
            out.put32(answer.index)
            out.put16(answer.error)
            out.put64(answer.base_offset)
            out.put64(answer.append_time_ms)
            if version >= 5:
                out.put64(answer.log_start)
            if version >= 8:
                out.put_count(len(answer.bad_records), flexible)
                for record, why in answer.bad_records:
                    out.put32(record)
                    out.put_text(why, flexible)
                    if flexible:
                        out.put8(0)
                out.put_text(answer.message, flexible)
            if flexible:
                if version >= 10 and answer.leader is not None:
                    put_leader(out, 1, 0, answer.leader)
                else:
                    out.put8(0)
        if flexible:
            out.put8(0)
    out.put32(throttle_ms)
    if flexible:
        put_endpoints(out, endpoints if version >= 10 else ())
    put_int32(out.data, <int32_t>(out.size - 4))
    return out.cut(0)


cdef int put_endpoints(Writer out, endpoints) except -1:
    """(node, host, port, rack) of leaders, as the only tagged field of an answer; none without any."""
    cdef Writer field
    if not endpoints:
        return out.put8(0)
    field = Writer.__new__(Writer)
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


cdef int put_leader(Writer out, int tags, int tag, leader) except -1:
    """A tagged (leader id, leader epoch), as the first of `tags` fields."""
    out.put8(tags)
    out.put8(tag)
    out.put8(9)
    out.put32(leader[0])
    out.put32(leader[1])
    return out.put8(0)


def encode_fetch(
    int version,
    int32_t correlation_id,
    int32_t throttle_ms,
    int16_t error,
    int32_t session_id,
    list topics,
    endpoints=(),
):
    cdef Writer out = Writer.__new__(Writer)
    cdef bint flexible = version >= 12
    cdef list pieces = []
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t size
    cdef FetchAnswer answer
    out.put32(0)
    out.put32(correlation_id)
    if flexible:
        out.put8(0)
    out.put32(throttle_ms)
    if version >= 7:
        out.put16(error)
        out.put32(session_id)
    out.put_count(len(topics), flexible)
    for topic, answers in topics:
        out.put_topic(topic, flexible)
        out.put_count(len(answers), flexible)
        for answer in answers:
            put_fetch_fields(out, version, answer)
            records = answer.records
            size = 0 if records is None else (len(records) if type(records) is bytes else records.size)
            out.put_count(size, flexible)
            if size > 0:
                pieces.append(out.cut(start))
                pieces.append(records)
                start = out.size
                total += size
            if flexible:
                put_fetch_tags(out, answer)
        if flexible:
            out.put8(0)
    if flexible:
        put_endpoints(out, endpoints if version >= 16 else ())
    if start < out.size:
        pieces.append(out.cut(start))
    total += out.size - 4
    put_int32(<uint8_t*><char*>(<bytes>pieces[0]), <int32_t>total)
    return pieces


cdef int put_fetch_fields(Writer out, int version, FetchAnswer answer) except -1:
    cdef bint flexible = version >= 12
    out.put32(answer.index)
    out.put16(answer.error)
    out.put64(answer.high_watermark)
    out.put64(answer.last_stable_offset)
    if version >= 5:
        out.put64(answer.log_start)
    aborted = answer.aborted
    out.put_count(-1 if aborted is None else len(aborted), flexible)
    if aborted is not None:
        for producer_id, first_offset in aborted:
            out.put64(producer_id)
            out.put64(first_offset)
            if flexible:
                out.put8(0)
    if version >= 11:
        out.put32(answer.preferred_replica)
    return 0


cdef int put_fetch_tags(Writer out, FetchAnswer answer) except -1:
    diverging = answer.diverging
    leader = answer.leader
    if diverging is not None:
        out.put8(2 if leader is not None else 1)
        out.put8(0)
        out.put8(13)
        out.put32(diverging[0])
        out.put64(diverging[1])
        out.put8(0)
        if leader is not None:
            out.put8(1)
            out.put8(9)
            out.put32(leader[0])
            out.put32(leader[1])
            out.put8(0)
        return 0
    if leader is not None:
        return put_leader(out, 1, 1, leader)
    return out.put8(0)


# Only for annotations: see frames.pyi.
Endpoint = tuple
