from libc.stdint cimport int32_t, int64_t

from tidelog._speed.replica_state cimport NativeReplicaState
from tidelog._speed.tally cimport AppendTimes, Tally


cdef class Descriptor:
    cdef public int _fd


cdef class SegmentTail:
    cdef public int64_t base
    cdef public int64_t size
    cdef public int64_t reserved
    cdef public int64_t end
    cdef public int64_t first_timestamp
    cdef public int64_t max_timestamp
    cdef public int64_t max_timestamp_offset
    cdef public int64_t roll_at
    cdef public int64_t _interval_bytes
    cdef public int64_t _since_index
    cdef public bint used
    cdef public object _file
    cdef public dict _recent


cdef class Gathering:
    cdef public object owner
    cdef public object future
    cdef public SegmentTail segment
    cdef public list pieces
    cdef public Py_ssize_t size
    cdef public int64_t end
    cdef public object answers


cdef class LogTail:
    cdef public int64_t start
    cdef public int64_t end
    cdef public int64_t next
    cdef public int64_t _segment_bytes
    cdef public bint _queueing
    cdef public Py_ssize_t _queued
    cdef public SegmentTail _active
    cdef public Gathering _gathering
    cdef public object epochs
    cdef public object producers
    cdef public object _durability
    cdef public object _volume


cdef class KeptBatch:
    cdef readonly int32_t first_sequence
    cdef readonly int32_t last_sequence
    cdef readonly int64_t base_offset
    cdef readonly int64_t last_offset
    cdef readonly int64_t timestamp


cdef class ProducerTail:
    cdef public int64_t id
    cdef public int epoch
    cdef public int coordinator_epoch
    cdef public int64_t next_sequence
    cdef public int64_t timestamp
    cdef public int64_t transaction_start
    cdef public object batches


cdef class ProducerTable:
    cdef public dict _producers


cdef class PartitionTail:
    cdef public object leader
    cdef public LogTail log
    cdef public NativeReplicaState state
    cdef public object commit_waits
    cdef public dict fetch_waits
    cdef public dict follower_waits
    cdef public str topic
    cdef public int64_t _batch_bytes_max
    cdef public int64_t _after_ms_max
    cdef public Py_ssize_t _in_sync_min
    cdef public bint _plain
    cdef public int64_t messages_in
    cdef public int64_t bytes_in
    cdef public int64_t messages_out
    cdef public int64_t bytes_out
    cdef public int64_t replicated_in
    cdef AppendTimes times
    cdef int count_in(self, int64_t first, int64_t end, Py_ssize_t size, int64_t now_ms) except -1
