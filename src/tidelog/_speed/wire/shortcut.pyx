"""A small produce request of one batch for one partition that this node leads: decoded, appended and answered in native code.

It decodes, asks whether the request may pass, calls the append that all appends share (`append.pyx`), and encodes; what has to
wait for a sync or for replicas waits in `delayed_produce.pyx`.  Requests of another shape, batches that need a closer look
and everything that is refused are left, unchanged, to `broker.handlers.produce.produce`, which has all the rules and the words for
each error.  A property test plays the same requests both ways."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from tidelog._speed.log.acceptance cimport sound_header
from tidelog._speed.log.append cimport NEW, NativeGroupAppend, NativeLog, NativePartition
from tidelog._speed.log.batch cimport HEADER, Header, get_int16, get_int32, put_int16, put_int32, put_int64
from tidelog._speed.wire.delayed_produce cimport DelayedProduce, DelayedProduces
from tidelog._speed.wire.session cimport SessionState

from tidelog.errors import TidelogError


cdef enum:
    VERSION_MIN = 3
    VERSION_MAX = 13
    FLEXIBLE_FROM = 9
    TOPIC_ID_FROM = 13
    ZSTD_FROM = 7
    ZSTD = 4
    CODEC_BITS = 0x07
    ACKS_ALL = -1
    HEADER_FIELDS = 8  # API key, version, correlation id
    TOPIC_BYTES_MAX = 256
    ANSWER_BYTES_MAX = TOPIC_BYTES_MAX + 80


cdef Py_ssize_t take_length(const uint8_t* data, Py_ssize_t left, Py_ssize_t* used) noexcept nogil:
    """A varint of at most three bytes, less one; -2 for anything else."""
    cdef Py_ssize_t value = 0
    cdef Py_ssize_t at
    used[0] = 0
    for at in range(min(left, 3)):
        value |= <Py_ssize_t>(data[at] & 0x7F) << (7 * at)
        if data[at] < 0x80:
            used[0] = at + 1
            return value - 1
    return -2


cdef bint read_request(uint8_t* data, Py_ssize_t size, int version, SmallProduce* request) noexcept nogil:
    """Whether the request is of the common shape; `request` is filled in then."""
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef Py_ssize_t at = HEADER_FIELDS
    cdef Py_ssize_t length, used
    # The client's id: whatever is plain ASCII.
    if size - at < 2:
        return False
    length = get_int16(data + at)
    at += 2
    if length < -1 or length > size - at:
        return False
    request.client = data + at
    request.client_size = length
    while length > 0:
        if data[at] >= 0x80:
            return False
        at += 1
        length -= 1
    # No tags, no transaction, one topic.
    if flexible:
        if size - at < 9 or data[at] or data[at + 1] or data[at + 8] != 2:
            return False
        request.acks = get_int16(data + at + 2)
        request.timeout_ms = get_int32(data + at + 4)
        at += 9
    else:
        if size - at < 12 or get_int16(data + at) != -1 or get_int32(data + at + 8) != 1:
            return False
        request.acks = get_int16(data + at + 2)
        request.timeout_ms = get_int32(data + at + 4)
        at += 12
    if request.acks < -1 or request.acks > 1:
        return False
    # The topic.
    request.topic = data + at
    if version >= TOPIC_ID_FROM:
        request.name = data + at
        request.name_size = 16
    elif flexible:
        request.name_size = take_length(data + at, size - at, &used)
        request.name = data + at + used
    else:
        if size - at < 2:
            return False
        request.name_size = get_int16(data + at)
        request.name = data + at + 2
    if request.name_size < 0 or request.name_size > size - (request.name - data):
        return False
    request.topic_size = request.name - request.topic + request.name_size
    if request.topic_size > TOPIC_BYTES_MAX:
        return False
    at += request.topic_size
    # One partition.
    if flexible:
        if size - at < 6 or data[at] != 2:
            return False
        request.index = get_int32(data + at + 1)
        at += 5
        request.records_size = take_length(data + at, size - at, &used)
        at += used
    else:
        if size - at < 12 or get_int32(data + at) != 1:
            return False
        request.index = get_int32(data + at + 4)
        request.records_size = get_int32(data + at + 8)
        at += 12
    if request.records_size < HEADER or request.records_size > size - at:
        return False
    request.records = data + at
    at += request.records_size
    # No tags: of the partition, the topic, the request.
    if flexible and (size - at < 3 or data[at] or data[at + 1] or data[at + 2]):
        return False
    return True


cdef bytes encode(SmallProduce* request, int version, int32_t correlation_id, int64_t base, int64_t log_start):
    cdef uint8_t out[ANSWER_BYTES_MAX]
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef Py_ssize_t at = 8
    put_int32(out + 4, correlation_id)
    if flexible:
        out[8] = 0
        out[9] = 2
        at = 10
    else:
        put_int32(out + 8, 1)
        at = 12
    memcpy(out + at, request.topic, request.topic_size)
    at += request.topic_size
    if flexible:
        out[at] = 2
        at += 1
    else:
        put_int32(out + at, 1)
        at += 4
    put_int32(out + at, request.index)
    put_int16(out + at + 4, 0)
    put_int64(out + at + 6, base)
    put_int64(out + at + 14, -1)  # no append time
    at += 22
    if version >= 5:
        put_int64(out + at, log_start)
        at += 8
    if flexible:
        out[at] = 1  # no records at fault
        out[at + 1] = 0  # no message
        out[at + 2] = 0  # no tags: of the partition, the topic
        out[at + 3] = 0
        at += 4
    elif version >= 8:
        put_int32(out + at, 0)
        put_int16(out + at + 4, -1)
        at += 6
    put_int32(out + at, 0)  # no throttling
    at += 4
    if flexible:
        out[at] = 0
        at += 1
    put_int32(out, <int32_t>(at - 4))
    return PyBytes_FromStringAndSize(<char*>out, at)


cdef class ProduceShortcut:
    def __init__(self, dict held, now_ms, lease_proven, refuse, reserved):
        self.held = held
        self.now_ms = now_ms
        self.lease_proven = lease_proven
        self.delayed = DelayedProduces(refuse, lease_proven)
        self.reserved = reserved

    def produce(self, uint8_t[::1] frame, int version, int32_t correlation_id, SessionState session not None):
        if frame.shape[0] < HEADER_FIELDS:
            return None
        return self.answer(&frame[0], frame.shape[0], version, correlation_id, session)

    cdef object answer(
        self, uint8_t* frame, Py_ssize_t size, int version, int32_t correlation_id, SessionState session
    ):
        """The answer, empty when the client wants none, or a future of it; None when nothing was done."""
        cdef SmallProduce request
        cdef NativePartition partition
        cdef Header header
        cdef int64_t now_ms, base
        if not session.admitted or session.produce_bytes_left < size:
            return None
        if version < VERSION_MIN or version > VERSION_MAX or not read_request(frame, size, version, &request):
            return None
        if version >= TOPIC_ID_FROM:
            topic = PyBytes_FromStringAndSize(<char*>request.name, request.name_size)
        else:
            topic = (<char*>request.name)[:request.name_size].decode("utf-8", "replace")
        if not session.may_write(topic):
            return None
        partition = self.held.get((topic, request.index))
        if partition is None or not self.takes(partition, &request):
            return None
        now_ms = self.now_ms()
        header = sound_header(
            request.records, request.records_size, partition._batch_bytes_max, now_ms + partition._after_ms_max
        )
        if header is None or (header.attributes & CODEC_BITS == ZSTD and version < ZSTD_FROM):
            return None
        if header.producer_id >= 0 and partition.log.state.producers.judge(header) != NEW:
            return None
        base = partition.log.state.next
        if (
            not partition.log.appender.queueing
            and base + header.last_offset_delta >= <int64_t>partition.log.state.durability.due_at
        ):
            return None
        try:
            durable = partition.append_as_leader(request.records, header, header.max_timestamp_at, now_ms)
        except TidelogError:
            return None
        session.produce_bytes_left -= size
        if request.acks == 0:
            return b""
        acknowledgement = encode(&request, version, correlation_id, base, partition.log.state.start)
        if durable is None and (request.acks != ACKS_ALL or partition.state.committed >= partition.log.state.end):
            return acknowledgement
        answer = delayed_answer(partition, &request, topic, version, correlation_id, base, header)
        answer.acknowledgement = acknowledgement
        answer.session = session
        answer.durable = durable
        if durable is None:
            self.delayed.wait_for_replicas(answer)
        else:
            self.delayed.wait_for_sync(answer, partition.log.appender.group, header.size)
        return answer

    cdef bint takes(self, NativePartition partition, SmallProduce* request) except -1:
        """Whether nothing stands against an append now that has to do with the partition alone."""
        cdef NativeLog log = partition.log
        if not partition._plain or partition.topic in self.reserved or log.state.volume.problem is not None:
            return False
        if log.appender.queueing and request.acks == 0:
            return False
        if request.acks == 1 and not partition.state.is_alone and not self.lease_proven():
            # Another broker may lead by now, and what this one alone has would be cut: the in-sync set has to confirm it.
            request.acks = ACKS_ALL
        return partition.accepts(request.acks == ACKS_ALL)


cdef DelayedProduce delayed_answer(
    NativePartition partition,
    SmallProduce* request,
    topic,
    int version,
    int32_t correlation_id,
    int64_t base,
    Header header,
):
    cdef DelayedProduce answer = DelayedProduce.__new__(DelayedProduce)
    answer.partition = partition
    answer.topic = topic
    if request.client_size >= 0:
        answer.client = PyBytes_FromStringAndSize(<char*>request.client, request.client_size)
    answer.index = request.index
    answer.version = version
    answer.correlation_id = correlation_id
    answer.acks = request.acks
    answer.timeout_ms = request.timeout_ms
    answer.base = base
    answer.end = base + header.last_offset_delta + 1
    answer.epoch = partition.state.epoch
    return answer


def all_plain(list topics not None, dict held not None):
    cdef NativePartition partition
    for topic, parts in topics:
        for part in <list>parts:
            partition = held.get((topic, (<tuple>part)[0]))
            if partition is None or not partition._plain:
                return False
    return True
