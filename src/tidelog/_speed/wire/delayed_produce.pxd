from libc.stdint cimport int32_t, int64_t

from tidelog._speed.log.append cimport NativeGroupAppend, NativePartition
from tidelog._speed.log.commit_waits cimport CommitWait


cdef class DelayedProduce(CommitWait):
    cdef readonly NativePartition partition
    cdef readonly object durable
    cdef readonly object session
    cdef readonly object topic
    cdef bytes client
    cdef readonly int32_t index
    cdef readonly int version
    cdef readonly int32_t correlation_id
    cdef readonly int acks  # ACKS_ALL where only the in-sync set can vouch for the records
    cdef readonly int32_t timeout_ms
    cdef readonly int64_t base
    cdef readonly int32_t epoch
    cdef bint is_given_up
    cdef bint is_cancelled
    cdef double deadline
    cdef DelayedProduces delayed
    cdef bytes acknowledgement
    cdef bytes outcome
    cdef object callback
    cdef bint is_committed(self) except -1
    cdef int settle(self, bytes outcome) except -1


cdef class GroupAnswers:
    cdef NativePartition partition
    cdef NativeGroupAppend group
    cdef DelayedProduces delayed
    cdef list answers
    cdef Py_ssize_t size
    cdef bint leads_for_certain(self) except -1


cdef class DelayedProduces:
    cdef object refuse
    cdef object lease_proven
    cdef object loop
    cdef object timer
    cdef double timer_at
    cdef dict by_timeout
    cdef list ready
    cdef int wait_for_sync(self, DelayedProduce answer, NativeGroupAppend group, Py_ssize_t size) except -1
    cdef int wait_for_replicas(self, DelayedProduce answer) except -1
    cdef int add(self, DelayedProduce answer) except -1
    cdef int put_ready(self, DelayedProduce answer) except -1
    cdef int drop(self, DelayedProduce answer) except -1
    cdef int arm(self, double deadline) except -1
    cdef int finish(self, list answers) except -1
    cdef int end_badly(self, DelayedProduce answer, bint is_over) except -1
