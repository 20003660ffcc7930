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


cdef class ReplicaTail:
    pass


cdef class PartitionTail:
    pass
