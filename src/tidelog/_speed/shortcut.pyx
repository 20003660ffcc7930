"""A produce request in the common case, from its frame to its answer, without leaving native code.

One small batch for one partition that this node leads alone, from a producer that goes on where it was, into a segment
that has room.  Whatever is different is left to `broker.handlers.produce`, which has all the rules and does the same in
this case: a property test holds the two against each other.  Nothing is changed before the batch is written.

A batch that the broker made itself takes the same way to the log's end (`append_own`).

Where a topic asks for a sync, the batch joins the job that its log has waiting for the next group commit, and all answers
of a job leave together when it is done."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport errno
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from tidelog._speed.acceptance cimport sound_header
from tidelog._speed.batch cimport (
    EPOCH,
    HEADER,
    Header,
    batch_size,
    get_int16,
    get_int32,
    put_int16,
    put_int32,
    put_int64,
    read_header,
)
from tidelog._speed.session cimport SessionState
from tidelog._speed.tail cimport (
    Descriptor,
    Gathering,
    KeptBatch,
    LogTail,
    PartitionTail,
    ProducerTable,
    ProducerTail,
    ReplicaTail,
    SegmentTail,
)

import os
from asyncio import get_running_loop


cdef extern from "<unistd.h>":
    ssize_t pwrite(int fd, const void* data, size_t size, int64_t position)


cdef extern from "Python.h":
    enum:
        PyBUF_READ


cdef enum:
    VERSION_MIN = 3
    VERSION_MAX = 13
    FLEXIBLE_FROM = 9
    TOPIC_ID_FROM = 13
    ZSTD_FROM = 7
    ZSTD = 4
    CODEC_BITS = 0x07
    ACKS_ALL = -1
    OFFSETS_MAX = 0x7FFFFFFF
    SEQUENCE_MAX = 0x7FFFFFFF
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


cdef bint read_ask(uint8_t* data, Py_ssize_t size, int version, Ask* ask) noexcept nogil:
    """Whether the request is of the common shape; `ask` is filled in then."""
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
    while length > 0:
        if data[at] >= 0x80:
            return False
        at += 1
        length -= 1
    # No tags, no transaction, one topic.
    if flexible:
        if size - at < 9 or data[at] or data[at + 1] or data[at + 8] != 2:
            return False
        ask.acks = get_int16(data + at + 2)
        ask.timeout_ms = get_int32(data + at + 4)
        at += 9
    else:
        if size - at < 12 or get_int16(data + at) != -1 or get_int32(data + at + 8) != 1:
            return False
        ask.acks = get_int16(data + at + 2)
        ask.timeout_ms = get_int32(data + at + 4)
        at += 12
    if ask.acks < -1 or ask.acks > 1:
        return False
    # The topic.
    ask.topic = data + at
    if version >= TOPIC_ID_FROM:
        ask.name = data + at
        ask.name_size = 16
    elif flexible:
        ask.name_size = take_length(data + at, size - at, &used)
        ask.name = data + at + used
    else:
        if size - at < 2:
            return False
        ask.name_size = get_int16(data + at)
        ask.name = data + at + 2
    if ask.name_size < 0 or ask.name_size > size - (ask.name - data):
        return False
    ask.topic_size = ask.name - ask.topic + ask.name_size
    if ask.topic_size > TOPIC_BYTES_MAX:
        return False
    at += ask.topic_size
    # One partition.
    if flexible:
        if size - at < 6 or data[at] != 2:
            return False
        ask.index = get_int32(data + at + 1)
        at += 5
        ask.records_size = take_length(data + at, size - at, &used)
        at += used
    else:
        if size - at < 12 or get_int32(data + at) != 1:
            return False
        ask.index = get_int32(data + at + 4)
        ask.records_size = get_int32(data + at + 8)
        at += 12
    if ask.records_size < HEADER or ask.records_size > size - at:
        return False
    ask.records = data + at
    at += ask.records_size
    # No tags: of the partition, the topic, the request.
    if flexible and (size - at < 3 or data[at] or data[at + 1] or data[at + 2]):
        return False
    return True


cdef bytes encode(Ask* ask, int version, int32_t correlation_id, int64_t base, int64_t log_start):
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
    memcpy(out + at, ask.topic, ask.topic_size)
    at += ask.topic_size
    if flexible:
        out[at] = 2
        at += 1
    else:
        put_int32(out + at, 1)
        at += 4
    put_int32(out + at, ask.index)
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


cdef class SyncedAnswer:
    """A future of an answer, as far as a connection needs it.  It is done before its callback returns."""

    def done(self):
        return self.is_cancelled or self.outcome is not None

    def result(self):
        assert self.outcome is not None
        return self.outcome

    def cancel(self):
        self.is_cancelled = True
        self.callback = None

    def add_done_callback(self, callback):
        assert self.callback is None and self.outcome is None
        self.callback = callback

    def acknowledge(self):
        self.finish(self.acknowledgement)

    def finish(self, bytes outcome):
        if self.is_cancelled or self.outcome is not None:
            return
        self.outcome = outcome
        callback, self.callback = self.callback, None
        if callback is not None:
            callback(self)


cdef class SyncedAnswers:
    """All answers that wait for one job of a group commit."""

    def __init__(self, PartitionTail partition, Gathering gathering, late):
        self.partition = partition
        self.gathering = gathering
        self.late = late
        self.loop = get_running_loop()
        self.waiting = []
        gathering.future.add_done_callback(self.on_synced)

    def on_synced(self, future):
        cdef SyncedAnswer answer
        cdef bint failed = future.cancelled() or future.exception() is not None
        if not failed:
            (<object>self.partition).wrote(self.size)
        committed = self.partition.state.committed
        for answer in self.waiting:
            try:
                if failed or (answer.acks == ACKS_ALL and committed < answer.end):
                    self.late(answer, self.partition, future, False)
                else:
                    answer.acknowledge()
            except Exception as problem:
                self.loop.call_exception_handler({"message": "an answer failed", "exception": problem})
        self.drop_settled()

    def on_time(self):
        """The time-out of some answer has passed."""
        cdef SyncedAnswer answer
        cdef double now = self.loop.time() + 0.0005  # a clock that rounds
        self.timer = None
        for answer in self.waiting:
            if not answer.done() and answer.deadline <= now:
                self.late(answer, self.partition, self.gathering.future, True)
        self.drop_settled()

    cdef int add(self, SyncedAnswer answer, Py_ssize_t size, int32_t timeout_ms) except -1:
        answer.deadline = <double>self.loop.time() + max(timeout_ms, 0) / 1000.0
        self.waiting.append(answer)
        self.size += size
        if self.timer is None or self.timer.when() > answer.deadline:
            self.arm(answer.deadline)
        return 0

    cdef int drop_settled(self) except -1:
        cdef SyncedAnswer answer
        self.waiting = [answer for answer in self.waiting if not answer.done()]
        if self.waiting:
            self.arm(min([(<SyncedAnswer>answer).deadline for answer in self.waiting]))
        elif self.timer is not None:
            self.timer.cancel()
            self.timer = None
        return 0

    cdef int arm(self, double deadline) except -1:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.loop.call_at(deadline, self.on_time)
        return 0


cdef class ProduceShortcut:
    def __init__(self, dict held, node, now_ms, late, reserved):
        self.held = held
        self.node = node
        self.now_ms = now_ms
        self.late = late
        self.reserved = reserved

    def produce(self, uint8_t[::1] frame, int version, int32_t correlation_id, SessionState session not None):
        if frame.shape[0] < HEADER_FIELDS:
            return None
        return self.answer(&frame[0], frame.shape[0], version, correlation_id, session)

    cdef object answer(
        self, uint8_t* frame, Py_ssize_t size, int version, int32_t correlation_id, SessionState session
    ):
        """The answer, empty when the client wants none, or a future of it; None when nothing was done."""
        cdef Ask ask
        cdef PartitionTail partition
        cdef Header header
        cdef int64_t now_ms
        if not session.admitted or session.produce_bytes_left < size:
            return None
        if version < VERSION_MIN or version > VERSION_MAX or not read_ask(frame, size, version, &ask):
            return None
        if version >= TOPIC_ID_FROM:
            topic = PyBytes_FromStringAndSize(<char*>ask.name, ask.name_size)
        else:
            topic = (<char*>ask.name)[:ask.name_size].decode("utf-8", "replace")
        if not session.may_write(topic):
            return None
        partition = self.held.get((topic, ask.index))
        if partition is None or not self.takes(partition, ask.acks, ask.records_size):
            return None
        now_ms = self.now_ms()
        header = sound_header(
            ask.records, ask.records_size, partition._batch_bytes_max, now_ms + partition._after_ms_max
        )
        if header is None or (header.attributes & CODEC_BITS == ZSTD and version < ZSTD_FROM):
            return None
        if partition.log._queueing:
            answer = self.queued(partition, header, &ask, topic, version, correlation_id, now_ms)
        else:
            answer = appended(partition, header, &ask, version, correlation_id, now_ms)
        if answer is not None:
            session.produce_bytes_left -= size
        return answer

    cdef bint takes(self, PartitionTail partition, int acks, Py_ssize_t size) except -1:
        """Whether nothing stands against an append now that has to do with the state of the partition alone."""
        cdef LogTail log = partition.log
        cdef SegmentTail segment = log._active
        cdef ReplicaTail state = partition.state
        if segment._file is None or end_of(log) + size > log._segment_bytes or (log._queueing and acks == 0):
            return False
        return (
            state._alone
            and partition._plain
            and segment.first_timestamp >= 0
            and size <= segment._interval_bytes
            and (acks != ACKS_ALL or partition._in_sync_min <= 1)
            and partition.topic not in self.reserved
            and partition.leader == self.node
            and log._volume.problem is None
            and log.epochs.latest == state.epoch
        )

    cdef SyncedAnswer queued(
        self,
        PartitionTail partition,
        Header header,
        Ask* ask,
        topic,
        int version,
        int32_t correlation_id,
        int64_t now_ms,
    ):
        cdef LogTail log = partition.log
        cdef Gathering gathering
        cdef SyncedAnswer answer
        cdef int64_t base = log.next
        if not gather(log, header, ask.records, partition.state.epoch):
            return None
        partition.count_in(base, log.next, header.size, now_ms)
        answer = SyncedAnswer.__new__(SyncedAnswer)
        answer.topic = topic
        answer.index = ask.index
        answer.version = version
        answer.correlation_id = correlation_id
        answer.acks = ask.acks
        answer.base = base
        answer.end = log.next
        answer.acknowledgement = encode(ask, version, correlation_id, base, log.start)
        gathering = log._gathering
        if gathering.answers is None:
            gathering.answers = SyncedAnswers(partition, gathering, self.late)
        (<SyncedAnswers>gathering.answers).add(answer, header.size, ask.timeout_ms)
        return answer


cdef bytes appended(
    PartitionTail partition, Header header, Ask* ask, int version, int32_t correlation_id, int64_t now_ms
):
    cdef LogTail log = partition.log
    cdef int64_t base = log.next
    if not append(log, header, ask.records, partition.state.epoch):
        return None
    partition.count_in(base, log.next, header.size, now_ms)
    partition.state.end = partition.state.committed = log.end
    if partition.fetch_waits or partition.commit_waits.waiting or partition.follower_waits:
        (<object>partition).wrote(header.size)
    if ask.acks == 0:
        return b""
    return encode(ask, version, correlation_id, base, log.start)


def all_plain(list topics not None, dict held not None):
    cdef PartitionTail partition
    for topic, parts in topics:
        for part in <list>parts:
            partition = held.get((topic, (<tuple>part)[0]))
            if partition is None or not partition._plain:
                return False
    return True


def append_own(PartitionTail partition, bytearray data not None):
    cdef LogTail log = partition.log
    cdef SegmentTail segment = log._active
    cdef ReplicaTail state = partition.state
    cdef uint8_t* start = <uint8_t*><char*>data
    cdef Py_ssize_t size = len(data)
    cdef Header header
    if (
        log._queueing
        or not state._alone
        or segment._file is None
        or segment.first_timestamp < 0
        or size > segment._interval_bytes
        or size > partition._batch_bytes_max
        or segment.size + size > log._segment_bytes
        or log._volume.problem is not None
        or log.epochs.latest != state.epoch
        or batch_size(start, size) != size
    ):
        return False
    header = read_header(start, 0, size)
    if header.producer_id >= 0 or not append(log, header, start, state.epoch):
        return False
    state.end = state.committed = log.end
    if partition.fetch_waits or partition.commit_waits.waiting or partition.follower_waits:
        (<object>partition).wrote(size)
    return True


cdef bint fits(LogTail log, Header header) except -1:
    """Whether the segment takes the batch, and its producer goes on where it was."""
    cdef int64_t last = log.next + header.last_offset_delta
    cdef ProducerTail producer
    if header.max_timestamp > log._active.roll_at or last - log._active.base > OFFSETS_MAX:
        return False
    if header.producer_id < 0:
        return True
    producer = (<ProducerTable>log.producers)._producers.get(header.producer_id)
    return (
        producer is not None
        and header.producer_epoch == producer.epoch
        and header.base_sequence == producer.next_sequence
        and producer.transaction_start < 0
    )


cdef bint append(LogTail log, Header header, uint8_t* data, int32_t epoch) except -1:
    """Writes the batch at the log's end if it fits there; whether it did."""
    cdef SegmentTail segment = log._active
    cdef int64_t base = log.next
    cdef bint due = segment._since_index > segment._interval_bytes
    cdef int32_t came_with = get_int32(data + EPOCH)
    cdef bint written = False
    if not fits(log, header) or base + header.last_offset_delta >= <int64_t>log._durability.due_at:
        return False
    put_int64(data, base)
    put_int32(data + EPOCH, epoch)
    try:
        if due:
            (<object>segment)._reserve_index()
        written = write(segment, data, header.size)
        if written and due:
            add_to_index(segment, data, header, base, segment.size)
    except OSError as problem:
        (<object>log)._append_failed(problem)
        written = False
    if not written:
        put_int64(data, 0)
        put_int32(data + EPOCH, came_with)
        return False
    segment.used = True
    note(log, header, segment.size, due)
    segment.size += header.size
    segment.end = log.end = log.next
    return True


cdef bint write(SegmentTail segment, uint8_t* data, Py_ssize_t size) except -1:
    """At the segment's end; OSError, or false when only a part was written, which the handler does again."""
    cdef Py_ssize_t written
    if not isinstance(segment._file, Descriptor):
        segment._file.write(PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ), segment.size)
        return True
    written = pwrite((<Descriptor>segment._file)._fd, data, size, segment.size)
    if written < 0:
        raise OSError(errno, os.strerror(errno))
    return written == size


cdef int64_t end_of(LogTail log):
    """Where the active segment ends, with what is on its way to it."""
    return log._active.reserved if log._queued else log._active.size


cdef bint gather(LogTail log, Header header, uint8_t* data, int32_t epoch) except -1:
    """Hands the batch to the job that waits for the next group commit, if it fits at the log's end; whether it did."""
    cdef SegmentTail segment = log._active
    cdef Gathering gathering = log._gathering
    cdef bint due = segment._since_index > segment._interval_bytes
    if not fits(log, header):
        return False
    if due:
        try:
            (<object>segment)._reserve_index()
        except OSError as problem:
            log._volume.failed(problem, f"append to {(<object>log).name}")
            return False
    if gathering is None or gathering.segment is not segment:
        segment.reserved = end_of(log)
        gathering = (<object>log)._gather(segment, segment._file, segment.reserved)
    if due:
        try:
            add_to_index(segment, data, header, log.next, segment.reserved)
        except OSError:
            due = False  # an entry less does no harm: it is made with the next batch
    put_int64(data, log.next)
    put_int32(data + EPOCH, epoch)
    gathering.pieces.append(PyBytes_FromStringAndSize(<char*>data, header.size))
    note(log, header, segment.reserved, due)
    segment.reserved += header.size
    gathering.size += header.size
    gathering.end = log.next
    return True


cdef int add_to_index(SegmentTail segment, uint8_t* data, Header header, int64_t base, int64_t position) except -1:
    raise_timestamp(segment, header, base)
    view = PyMemoryView_FromMemory(<char*>data, header.size, PyBUF_READ)
    (<object>segment)._add_to_index(view, base, position, True)
    return 0


cdef void raise_timestamp(SegmentTail segment, Header header, int64_t base) noexcept:
    if header.max_timestamp > segment.max_timestamp:
        segment.max_timestamp = header.max_timestamp
        segment.max_timestamp_offset = base + header.max_timestamp_at


cdef int note(LogTail log, Header header, int64_t position, bint indexed) except -1:
    """What is to be known of a batch that has `position` in the active segment."""
    cdef SegmentTail segment = log._active
    cdef int64_t base = log.next
    raise_timestamp(segment, header, base)
    if not indexed:
        segment._since_index += header.size
    segment._recent[base] = position
    log.next = base + header.last_offset_delta + 1
    if header.producer_id >= 0:
        keep((<ProducerTable>log.producers)._producers[header.producer_id], header, base)
    return 0


cdef int keep(ProducerTail producer, Header header, int64_t base) except -1:
    cdef KeptBatch batch = KeptBatch.__new__(KeptBatch)
    batch.first_sequence = header.base_sequence
    batch.last_sequence = <int32_t>((<int64_t>header.base_sequence + header.last_offset_delta) & SEQUENCE_MAX)
    batch.base_offset = base
    batch.last_offset = base + header.last_offset_delta
    batch.timestamp = header.max_timestamp
    producer.batches.append(batch)
    producer.next_sequence = <int64_t>batch.last_sequence + 1 if batch.last_sequence != SEQUENCE_MAX else 0
    producer.timestamp = header.max_timestamp
    return 0
