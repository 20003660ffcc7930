from libc.stdint cimport int64_t


cdef class Rules:
    cdef public int64_t revision


cdef class SessionState:
    cdef Rules rules
    cdef int64_t revision
    cdef public bint admitted
    cdef bint anywhere
    cdef set writable
    cdef set readable
    cdef public int64_t produce_bytes_left
    cdef public int64_t handler_ns
    cdef bint may_write(self, topic) except -1
