from libc.stdint cimport int32_t, int64_t

from tidelog._speed.log.writer cimport Writer

cdef class Growing(Writer):
    cdef readonly bint closed
    cdef readonly bint done
    cdef public Py_ssize_t bytes_taken
    cdef public object loop
    cdef int64_t* _timestamps
    cdef int32_t _timestamps_capacity
    cdef list _watchers
    cdef Growing _first
    cdef Growing _second
    cdef int32_t _middle

cdef class Delivery:
    cdef Growing _batch
    cdef int32_t _index
    cdef Growing _home(self)
