from libc.stdint cimport int64_t


cdef class CommitWait:
    cdef readonly int64_t end
    cdef bint is_settled(self) except -1
    cdef int committed(self) except -1
    cdef int failed(self, problem) except -1


cdef class FutureWait(CommitWait):
    cdef object future


cdef class CommitWaits:
    cdef readonly object waiting
    cdef int add(self, CommitWait wait) except -1
