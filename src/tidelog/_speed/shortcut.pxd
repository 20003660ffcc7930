from libc.stdint cimport int32_t, uint8_t

from tidelog._speed.tail cimport PartitionTail


cdef class ProduceShortcut:
    cdef dict held
    cdef object node
    cdef object now_ms
    cdef bytes answer(self, uint8_t* frame, Py_ssize_t size, int version, int32_t correlation_id)
    cdef bint takes(self, PartitionTail partition, int acks, Py_ssize_t size) except -1
