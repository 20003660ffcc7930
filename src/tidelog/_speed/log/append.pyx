"""The one way in which a partition's log grows: room, index, offsets, producers' numbers, high watermark.

Leaders, followers, group commit, the broker's own batches and the produce shortcut share it.  Each class here is the native
part of a class of `storage` or `replication`, which has all other methods; to Python the fields are attributes like any
other.  `tests/reference/append.py` says the same in plain Python."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EINTR, errno

from tidelog._speed.log.batch cimport EPOCH, batch_size, get_int32, put_int32, put_int64, read_header
from tidelog._speed.log.index_interval cimport OFFSETS_MAX

import os

from tidelog.errors import KafkaStorageError, RecordListTooLarge


cdef extern from "<unistd.h>":
    ssize_t pwrite(int fd, const void* data, size_t size, int64_t position)


cdef extern from "Python.h":
    enum:
        PyBUF_READ


cdef enum:
    SEQUENCE_MAX = 0x7FFFFFFF
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    NOT_COUNTED = -1  # in the place of the time: a batch that no producer sent

VERDICT_GAP = <int>GAP
VERDICT_NUMBERS_USED_AGAIN = <int>NUMBERS_USED_AGAIN
VERDICT_OLDER_EPOCH = <int>OLDER_EPOCH
VERDICT_EPOCH_NOT_FROM_ZERO = <int>EPOCH_NOT_FROM_ZERO
VERDICT_OUTSIDE_OF_TRANSACTION = <int>OUTSIDE_OF_TRANSACTION


cdef class Descriptor:
    pass


cdef int write_all(file, const uint8_t* data, Py_ssize_t size, int64_t position) except -1:
    """All of it, or OSError: then any part may have been written."""
    cdef Py_ssize_t written, done = 0
    if not isinstance(file, Descriptor):
        file.write(PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ), position)
        return 0
    while done < size:
        written = pwrite((<Descriptor>file)._fd, data + done, size - done, position + done)
        if written < 0:
            if errno == EINTR:
                continue
            raise OSError(errno, os.strerror(errno))
        done += written
    return 0


cdef class NativeSegment:
    cdef int place(
        self,
        const uint8_t* data,
        Py_ssize_t size,
        int64_t base,
        int64_t max_timestamp,
        int64_t max_timestamp_offset,
        int64_t position,
        bint due,
    ) except -1:
        """Batches have, or will have, this position: what lookups by offset and by time know of them."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = max_timestamp_offset
        if due or self.interval.may_be_due_within(size):
            view = PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ)
            (<object>self)._add_to_index(view, base, position, due)
        else:
            self.interval.since += size
        self._recent[base] = position
        return 0


cdef class NativeGroupAppend:
    pass


cdef class NativeSegments:
    pass


cdef class NativeLogState:
    pass


cdef class NativeAppender:
    def append(
        self,
        const uint8_t[::1] data not None,
        int64_t base,
        int64_t last,
        int64_t max_timestamp,
        int64_t max_timestamp_offset,
        int32_t epoch,
    ):
        if not data.shape[0]:
            raise ValueError("no bytes to append")
        return self.append_batches(
            &data[0], data.shape[0], base, last, max_timestamp, max_timestamp_offset, epoch
        )

    def room_for(self, const uint8_t[::1] data not None, int64_t base, int64_t last, int64_t max_timestamp):
        if not data.shape[0]:
            raise ValueError("no bytes to append")
        return self.find_room(&data[0], data.shape[0], base, last, max_timestamp)

    cdef object append_batches(
        self,
        const uint8_t* data,
        Py_ssize_t size,
        int64_t base,
        int64_t last,
        int64_t max_timestamp,
        int64_t max_timestamp_offset,
        int32_t epoch,
    ):
        cdef NativeLogState log = self.log
        cdef NativeSegment segment
        cdef NativeGroupAppend group
        cdef int64_t position
        cdef bint due
        if log.volume.problem is not None:
            raise log.volume.offline()
        if self.queueing and not log.queued:
            segment = log.segments.active
            segment.reserved = segment.size
        segment = self.find_room(data, size, base, last, max_timestamp)
        if log.epochs.latest != epoch:
            log.epochs.assign(epoch, base)
        position = segment.reserved if self.queueing else segment.size
        due = segment.interval.is_due()
        try:
            file = segment._file
            if file is None:
                file = (<object>segment).file
            segment.used = True
            if due:
                (<object>segment)._reserve_index()
            if not self.queueing:
                write_all(file, data, size, position)
            segment.place(data, size, base, max_timestamp, max_timestamp_offset, position, due)
        except OSError as problem:
            raise (<object>self)._append_failed(problem) from problem
        if self.queueing:
            segment.reserved = position + size
        else:
            segment.size = position + size
            segment.end = last + 1
        if segment.first_timestamp < 0:
            (<object>self)._started(segment, max_timestamp)
        log.next = last + 1
        if self.queueing:
            group = self.group
            if group is None or group.segment is not segment:
                group = (<object>self)._begin_group_append(segment, file, position)
            group.pieces.append(PyBytes_FromStringAndSize(<char*>data, size))
            group.size += size
            group.end = last + 1
            return group.future
        log.end = last + 1
        if last >= <int64_t>log.durability.due_at:
            return log.durability.flush_if_due(last + 1)
        return None

    cdef NativeSegment find_room(
        self, const uint8_t* data, Py_ssize_t size, int64_t base, int64_t last, int64_t max_timestamp
    ):
        """The segment that takes these batches: the active one, or a new one that begins with them."""
        cdef NativeLogState log = self.log
        cdef NativeSegment segment = log.segments.active
        cdef int64_t filled = segment.reserved if log.queued else segment.size
        cdef int64_t first_size
        # All that can be due to a roll, in the three comparisons that nearly every append passes.
        if (
            filled + size <= self.segment_bytes
            and max_timestamp <= segment.roll_at
            and last - segment.base <= OFFSETS_MAX
        ):
            return segment
        if size > self.segment_bytes:
            first_size = batch_size(data, size)
            if first_size > self.segment_bytes:
                raise RecordListTooLarge(
                    f"a batch of {first_size} bytes does not fit into a segment of {log.name}: "
                    f"raise segment.bytes, which is {self.segment_bytes}"
                )
        if self.is_due_to_roll(filled, size, last, max_timestamp):
            return (<object>self).roll(base)
        return segment

    cdef bint is_due_to_roll(
        self, int64_t filled, Py_ssize_t added, int64_t last, int64_t max_timestamp
    ) except -1:
        """By the reach of its offsets, by size, by its indexes, by the age of its first batch."""
        cdef NativeSegment segment = self.log.segments.active
        if last - segment.base > OFFSETS_MAX:
            return True
        if filled == 0:
            return False
        if filled + added > self.segment_bytes or segment.index_full:
            return True
        if segment.first_timestamp >= 0:
            return max_timestamp > segment.roll_at
        # Batches without a time: only the clock knows.
        return <int64_t>self.log.volume.clock.now_ms() - segment.created_ms > segment.age_ms_max


cdef class NativeLog:
    def __init__(self, NativeLogState state not None, NativeAppender appender not None):
        self.state = state
        self.appender = appender

    @property
    def start(self):
        return self.state.start

    @property
    def end(self):
        return self.state.end

    @property
    def next(self):
        return self.state.next

    @property
    def epochs(self):
        return self.state.epochs

    @property
    def producers(self):
        return self.state.producers

    def append(
        self,
        const uint8_t[::1] data not None,
        int64_t base,
        int64_t last,
        int64_t max_timestamp,
        int64_t max_timestamp_offset,
        int32_t epoch,
    ):
        if not data.shape[0]:
            raise ValueError("no bytes to append")
        return self.appender.append_batches(
            &data[0], data.shape[0], base, last, max_timestamp, max_timestamp_offset, epoch
        )


cdef class KeptBatch:
    def __init__(self, first_sequence, last_sequence, base_offset, last_offset, timestamp):
        self.first_sequence = first_sequence
        self.last_sequence = last_sequence
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.timestamp = timestamp

    def __iter__(self):
        yield self.first_sequence
        yield self.last_sequence
        yield self.base_offset
        yield self.last_offset
        yield self.timestamp

    def __eq__(self, other):
        return isinstance(other, KeptBatch) and tuple(self) == tuple(other)

    def __hash__(self):
        return hash(tuple(self))

    def __repr__(self):
        return f"KeptBatch{tuple(self)}"


cdef int32_t last_sequence_of(Header header) noexcept:
    if header.base_sequence < 0:
        return -1
    return <int32_t>((<int64_t>header.base_sequence + header.last_offset_delta) & SEQUENCE_MAX)


cdef class NativeProducer:
    def keep(self, KeptBatch batch not None):
        self.keep_batch(batch)

    cdef int keep_batch(self, KeptBatch batch) except -1:
        self.batches.append(batch)
        self.next_sequence = 0 if batch.last_sequence == SEQUENCE_MAX else <int64_t>batch.last_sequence + 1
        self.timestamp = batch.timestamp
        return 0

    cdef KeptBatch find_copy(self, Header header):
        cdef KeptBatch batch
        cdef int32_t last = last_sequence_of(header)
        for batch in self.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == last:
                return batch
        return None


cdef class NativeProducers:
    def check(self, Header header not None):
        cdef int verdict = self.judge(header)
        if verdict == NEW:
            return None
        if verdict == REPEATED:
            return (<NativeProducer>self._producers[header.producer_id]).find_copy(header)
        raise (<object>self).refusal(header, verdict)

    def appended(self, Header header not None, int64_t base):
        self.note(header, base)

    cdef int judge(self, Header header) except -1:
        """Whether a producer's batch may be appended."""
        cdef NativeProducer producer = self._producers.get(header.producer_id)
        cdef KeptBatch copy
        if producer is None:
            return NEW  # nothing is known, maybe because it was deleted or expired: any sequence may start
        if header.producer_epoch == producer.epoch:
            if header.base_sequence != producer.next_sequence:
                copy = producer.find_copy(header)
                if copy is None:
                    return GAP
                if header.attributes & TRANSACTIONAL and not 0 <= producer.transaction_start <= copy.base_offset:
                    return NUMBERS_USED_AGAIN
                return REPEATED
        elif header.producer_epoch < producer.epoch:
            return OLDER_EPOCH
        elif header.base_sequence != 0:
            return EPOCH_NOT_FROM_ZERO
        if producer.transaction_start >= 0 and not header.attributes & TRANSACTIONAL:
            return OUTSIDE_OF_TRANSACTION
        return NEW

    cdef int note(self, Header header, int64_t base) except -1:
        cdef NativeProducer producer = self._producers.get(header.producer_id)
        cdef KeptBatch batch
        if producer is None:
            producer = (<object>self).met(header.producer_id, header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            (<object>producer).begin_epoch(header.producer_epoch)
        batch = KeptBatch.__new__(KeptBatch)
        batch.first_sequence = header.base_sequence
        batch.last_sequence = last_sequence_of(header)
        batch.base_offset = base
        batch.last_offset = base + header.last_offset_delta
        batch.timestamp = header.max_timestamp
        producer.keep_batch(batch)
        if producer.transaction_start < 0 and header.attributes & TRANSACTIONAL:
            producer.transaction_start = base
            self._open[base] = header.producer_id
        return 0


cdef class NativePartition:
    def accepts_appends(self, bint by_all):
        return self.accepts(by_all)

    def append_led(
        self, uint8_t[::1] data not None, Header header not None, int64_t max_timestamp_at, int64_t now_ms
    ):
        if header.size != data.shape[0]:
            raise ValueError("the header is not that of the batch")
        return self.append_as_leader(&data[0], header, max_timestamp_at, now_ms)

    def append_made(self, bytearray data not None):
        cdef uint8_t* start = <uint8_t*><char*>data
        cdef Py_ssize_t size = len(data)
        cdef Header header
        if batch_size(start, size) != size:
            raise ValueError("not one whole batch")
        header = read_header(start, 0, size)
        return self.append_as_leader(start, header, header.last_offset_delta, NOT_COUNTED)

    def append_unannounced(self, bytearray data not None):
        cdef uint8_t* start = <uint8_t*><char*>data
        cdef Py_ssize_t size = len(data)
        cdef Header header
        if batch_size(start, size) != size:
            raise ValueError("not one whole batch")
        header = read_header(start, 0, size)
        return self.append_stamped(start, header, header.last_offset_delta, NOT_COUNTED)

    def fetched(self, RequestMetrics tally not None, int64_t offset, int64_t end, Py_ssize_t size, int64_t now_ms):
        self.messages_out += end - offset
        self.bytes_out += size
        if self.times is not None:
            self.times.tell(tally.end_to_end, offset, end, now_ms)

    cdef bint accepts(self, bint by_all) except -1:
        """Whether this node leads and, for what is acknowledged by all replicas, has enough of them in sync."""
        return self.leader == self.state.node and (not by_all or self.state.enough_members)

    cdef object append_as_leader(
        self, uint8_t* data, Header header, int64_t max_timestamp_at, int64_t now_ms
    ):
        """One sound batch that its producer may send now.  It is as it was if it could not be written."""
        pending = self.append_stamped(data, header, max_timestamp_at, now_ms)
        if pending is None:
            self.note_growth(header.size)
        return pending

    cdef object append_stamped(
        self, uint8_t* data, Header header, int64_t max_timestamp_at, int64_t now_ms
    ):
        """As `append_as_leader`; nobody is told that the log grew."""
        cdef NativeLogState log = self.log.state
        cdef int32_t epoch = self.state.epoch
        cdef int32_t epoch_before = get_int32(data + EPOCH)
        cdef int64_t base = log.next
        cdef bint is_producers = header.producer_id >= 0 and not header.attributes & CONTROL
        put_int64(data, base)
        put_int32(data + EPOCH, epoch)
        try:
            pending = self.log.appender.append_batches(
                data,
                header.size,
                base,
                base + header.last_offset_delta,
                header.max_timestamp,
                base + max_timestamp_at,
                epoch,
            )
        except Exception as problem:
            put_int64(data, 0)
            put_int32(data + EPOCH, epoch_before)
            if is_producers and now_ms >= 0 and isinstance(problem, KafkaStorageError):
                (<object>log.producers).append_failed(header)
            raise
        if is_producers:
            log.producers.note(header, base)
        if now_ms >= 0:
            self.count_in(base, log.next, header.size, now_ms)
        return pending

    cdef int note_growth(self, Py_ssize_t size) except -1:
        if self.fetch_waits or self.follower_waits or self.commit_waits.waiting:
            (<object>self).wrote(size)
        else:
            self.state.grew(self.log.state.end)
        return 0

    cdef int count_in(self, int64_t first, int64_t end, Py_ssize_t size, int64_t now_ms) except -1:
        self.messages_in += end - first
        self.bytes_in += size
        if self.times is None:
            self.times = AppendTimes()
        return self.times.add(first, end, now_ms)


def sum_counts(dict held):
    cdef NativePartition partition
    cdef int64_t messages_in = 0, bytes_in = 0, messages_out = 0, bytes_out = 0, replicated_in = 0
    for key, value in held.items():
        if type((<tuple>key)[0]) is str:
            partition = value
            messages_in += partition.messages_in
            bytes_in += partition.bytes_in
            messages_out += partition.messages_out
            bytes_out += partition.bytes_out
            replicated_in += partition.replicated_in
    return messages_in, bytes_in, messages_out, bytes_out, replicated_in
