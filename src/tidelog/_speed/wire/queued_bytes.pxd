cdef class RequestReader:
    cdef readonly Py_ssize_t bytes_in
    cdef int memory_is_free(self) except -1
    cdef bint is_full(self) except -1


cdef class QueuedBytes:
    cdef readonly Py_ssize_t used
    cdef readonly Py_ssize_t unsent  # bytes of answers that no client has taken yet
    cdef public Py_ssize_t most
    cdef readonly Py_ssize_t waits  # how often a connection had to wait
    cdef dict waiting  # connections, in the order they came
    cdef RequestReader first
    cdef Py_ssize_t first_bytes
    cdef object timer
    cdef bint waking
    cdef bint may_go_on(self, RequestReader reader) except -1
    cdef int lead(self, RequestReader reader) except -1
    cdef int wait(self, RequestReader reader) except -1
    cdef int left(self, RequestReader reader) except -1
    cdef int wake_soon(self) except -1
