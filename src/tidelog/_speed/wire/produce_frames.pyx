"""Produce 3-13: requests decoded and responses encoded natively.

What the decoder refuses raises ValueError.  Bytes after the last field are passed over, as Kafka does: some clients send
a few.  The messages in `tidelog.wire` are the oracle for these functions."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from tidelog._speed.log.batch cimport put_int32
from tidelog._speed.wire.request_cursor cimport (
    Cursor,
    need,
    open_cursor,
    skip_tags,
    take_count,
    take_int16,
    take_int32,
    take_partitions,
    take_text,
    take_topic,
    take_varint,
)
from tidelog._speed.wire.response_writer cimport ResponseWriter, put_endpoints, put_leader


cdef enum:
    ATTRIBUTES_LOW = 22  # where a batch has its codec and whether it is in a transaction


cdef class ProduceAsk:
    cdef readonly object transactional_id
    cdef public int acks
    cdef readonly int timeout_ms
    cdef readonly int attributes
    cdef readonly list topics


def decode_produce(const uint8_t[::1] frame, Py_ssize_t at, int version):
    cdef Cursor cursor = open_cursor(&frame[0], frame.shape[0], at)
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


def encode_produce(int version, int32_t correlation_id, list topics, int32_t throttle_ms, endpoints=()):
    cdef ResponseWriter out = ResponseWriter.__new__(ResponseWriter)
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


# Only for annotations: see produce_frames.pyi.
Endpoint = tuple
