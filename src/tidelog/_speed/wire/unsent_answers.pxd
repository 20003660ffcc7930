from libc.stdint cimport int64_t

from tidelog._speed.wire.byte_stream cimport ByteStream
from tidelog._speed.wire.queued_bytes cimport QueuedBytes


cdef class UnsentAnswers:
    cdef object pieces
    cdef Py_ssize_t memory  # that the pieces take: a slice of a file takes none
    cdef Py_ssize_t sent_of_first
    cdef QueuedBytes queued
    cdef bint is_full(self) except -1
    cdef int64_t put(self, answer) except -1
    cdef void take(self, Py_ssize_t more) noexcept
    cdef int count_in(self, QueuedBytes queued) except -1
    cdef int clear(self) except -1
    cdef Py_ssize_t write(self, ByteStream stream) except -1
