from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog._speed.batch cimport Header
from tidelog._speed.session cimport SessionState
from tidelog._speed.tail cimport Gathering, PartitionTail


cdef class SyncedAnswer:
    cdef readonly object topic
    cdef readonly int32_t index
    cdef readonly int version
    cdef readonly int32_t correlation_id
    cdef readonly int acks
    cdef readonly int64_t base
    cdef readonly int64_t end
    cdef double deadline
    cdef bytes acknowledgement
    cdef bytes outcome
    cdef object callback
    cdef bint is_cancelled


cdef class SyncedAnswers:
    cdef PartitionTail partition
    cdef Gathering gathering
    cdef object late
    cdef object loop
    cdef object timer
    cdef list waiting
    cdef Py_ssize_t size
    cdef int add(self, SyncedAnswer answer, Py_ssize_t size, int32_t timeout_ms) except -1
    cdef int drop_settled(self) except -1
    cdef int arm(self, double deadline) except -1


cdef struct Ask:
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
    cdef object node
    cdef object now_ms
    cdef object late
    cdef object reserved
    cdef object answer(
        self, uint8_t* frame, Py_ssize_t size, int version, int32_t correlation_id, SessionState session
    )
    cdef bint takes(self, PartitionTail partition, int acks, Py_ssize_t size) except -1
    cdef SyncedAnswer queued(
        self,
        PartitionTail partition,
        Header header,
        Ask* ask,
        topic,
        int version,
        int32_t correlation_id,
        int64_t now_ms,
    )
