"""What an append in the common case reads and changes, as fields that native code reaches without Python.

Each class here is the lowest part of a class of `storage` or `replication`, which has all the methods and says what the
fields mean; to Python they are attributes like any other.  `shortcut` is why they are here."""


cdef class Descriptor:
    pass


cdef class SegmentTail:
    pass


cdef class Gathering:
    pass


cdef class LogTail:
    pass


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


cdef class ProducerTail:
    pass


cdef class ProducerTable:
    pass


cdef class PartitionTail:
    def produced(self, int64_t first, int64_t end, Py_ssize_t size, int64_t now_ms):
        self.count_in(first, end, size, now_ms)

    def fetched(self, Tally tally not None, int64_t offset, int64_t end, Py_ssize_t size, int64_t now_ms):
        self.messages_out += end - offset
        self.bytes_out += size
        if self.times is not None:
            self.times.tell(tally.end_to_end, offset, end, now_ms)

    cdef int count_in(self, int64_t first, int64_t end, Py_ssize_t size, int64_t now_ms) except -1:
        self.messages_in += end - first
        self.bytes_in += size
        if self.times is None:
            self.times = AppendTimes()
        return self.times.add(first, end, now_ms)


def sum_counts(dict held):
    cdef PartitionTail one
    cdef int64_t messages_in = 0, bytes_in = 0, messages_out = 0, bytes_out = 0, replicated_in = 0
    for key, value in held.items():
        if type((<tuple>key)[0]) is str:
            one = value
            messages_in += one.messages_in
            bytes_in += one.bytes_in
            messages_out += one.messages_out
            bytes_out += one.bytes_out
            replicated_in += one.replicated_in
    return messages_in, bytes_in, messages_out, bytes_out, replicated_in
