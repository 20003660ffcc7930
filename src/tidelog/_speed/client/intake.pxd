from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog._speed.client.delivery cimport Growing

cdef enum:
    # Lengths, deltas and attributes of a record in a batch, at most.
    RECORD_OVERHEAD = 40

cdef struct Parts:
    const uint8_t* key
    int64_t key_size  # -1: null
    const uint8_t* value
    int64_t value_size  # -1: null
    const uint8_t* headers  # encoded
    int64_t headers_size
    int64_t timestamp

cdef class Memory:
    cdef readonly int64_t bytes_max
    cdef readonly int64_t used
    cdef public bint contended
    cdef bint take_now(self, int64_t size) noexcept

cdef class Lane:
    cdef readonly object partition
    cdef public object full
    cdef public Growing open
    cdef Growing put(self, Intake intake, Parts* parts, int64_t taken, int64_t size_max)

cdef class TopicLanes:
    cdef readonly object topic
    cdef readonly list lanes
    cdef readonly list led
    cdef int32_t _stuck
    cdef int64_t _stick_left
    cdef Py_ssize_t _turn
    cdef int32_t stick(self, Intake intake, int64_t size) except -2
    cdef int32_t next(self) except -2

cdef class Intake:
    cdef readonly dict routes
    cdef readonly list fresh
    cdef public bint admitting
    cdef public bint crowded
    cdef readonly int64_t stick_bytes
    cdef readonly int64_t record_bytes_max
    cdef readonly int64_t grown_bytes_max
    cdef Memory _memory
    cdef object _make
    cdef object _wake
    cdef object _move
    cdef object _now_ms
    cdef object _partitioner
    cdef int _kind
    cdef Lane lane_for(self, TopicLanes route, Parts* parts, bytes key, object partition, int64_t size)
    cdef int64_t now_ms(self) except? -1
