from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog._speed.log.append cimport NativePartition
from tidelog._speed.wire.delayed_produce cimport DelayedProduces
from tidelog._speed.wire.session cimport SessionState


cdef struct SmallProduce:
    const uint8_t* client
    Py_ssize_t client_size
    int acks
    int32_t timeout_ms
    const uint8_t* topic  # as in the request, its length included
    Py_ssize_t topic_size
    const uint8_t* name
    Py_ssize_t name_size
    int32_t index
    uint8_t* records
    Py_ssize_t records_size


cdef class ProduceShortcut:
    cdef dict held
    cdef object now_ms
    cdef object lease_proven
    cdef readonly DelayedProduces delayed
    cdef object reserved
    cdef object answer(
        self, uint8_t* frame, Py_ssize_t size, int version, int32_t correlation_id, SessionState session
    )
    cdef bint takes(self, NativePartition partition, SmallProduce* request) except -1
