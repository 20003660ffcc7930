cimport cython
from libc.stdint cimport int64_t


cdef enum:
    OFFSETS_MAX = 0x7FFFFFFF


@cython.final
cdef class IndexInterval:
    cdef readonly int64_t interval_bytes
    cdef public int64_t since

    cdef inline bint is_due(self) noexcept:
        return self.since > self.interval_bytes

    cdef inline bint may_be_due_within(self, Py_ssize_t size) noexcept:
        return size > self.interval_bytes
