"""Fetch 4-18: requests decoded and responses encoded natively, around slices of files.

What the decoder refuses raises ValueError.  Bytes after the last field are passed over, as Kafka does: some clients send
a few.  The messages in `tidelog.wire` are the oracle for these functions."""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from tidelog._speed.log.batch cimport put_int32
from tidelog._speed.wire.request_cursor cimport (
    Cursor,
    need,
    open_cursor,
    skip_tags,
    take_count,
    take_int8,
    take_int32,
    take_int64,
    take_partitions,
    take_text,
    take_topic,
    take_varint,
)
from tidelog._speed.wire.response_writer cimport ResponseWriter, put_endpoints, put_leader


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
    cdef Cursor cursor = open_cursor(&frame[0], frame.shape[0], at)
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


def encode_fetch(
    int version,
    int32_t correlation_id,
    int32_t throttle_ms,
    int16_t error,
    int32_t session_id,
    list topics,
    endpoints=(),
):
    cdef ResponseWriter out = ResponseWriter.__new__(ResponseWriter)
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


cdef int put_fetch_fields(ResponseWriter out, int version, FetchAnswer answer) except -1:
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


cdef int put_fetch_tags(ResponseWriter out, FetchAnswer answer) except -1:
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
