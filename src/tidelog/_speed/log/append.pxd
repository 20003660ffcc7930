from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog._speed.log.batch cimport Header
from tidelog._speed.log.commit_waits cimport CommitWaits
from tidelog._speed.log.index_interval cimport IndexInterval
from tidelog._speed.log.replica_state cimport NativeReplicaState
from tidelog._speed.log.request_metrics cimport AppendTimes, RequestMetrics


cdef enum:
    # What the numbers of a producer's batch say.
    NEW = 0
    REPEATED = 1
    GAP = 2
    NUMBERS_USED_AGAIN = 3
    OLDER_EPOCH = 4
    EPOCH_NOT_FROM_ZERO = 5
    OUTSIDE_OF_TRANSACTION = 6


cdef class Descriptor:
    cdef public int _fd


cdef class NativeSegment:
    cdef public int64_t base
    cdef public int64_t size
    cdef public int64_t reserved
    cdef public int64_t end
    cdef public int64_t first_timestamp
    cdef public int64_t max_timestamp
    cdef public int64_t max_timestamp_offset
    cdef public int64_t created_ms
    cdef public int64_t age_ms_max
    cdef public int64_t roll_at
    cdef public IndexInterval interval
    cdef public bint index_full
    cdef public bint used
    cdef public object _file
    cdef public dict _recent
    cdef int place(
        self,
        const uint8_t* data,
        Py_ssize_t size,
        int64_t base,
        int64_t max_timestamp,
        int64_t max_timestamp_offset,
        int64_t position,
        bint due,
    ) except -1


cdef class NativeGroupAppend:
    cdef public object owner
    cdef public object future
    cdef public NativeSegment segment
    cdef public list pieces
    cdef public Py_ssize_t size
    cdef public int64_t end
    cdef public object answers


cdef class NativeSegments:
    cdef public NativeSegment active


cdef class NativeLogState:
    cdef public int64_t start
    cdef public int64_t end
    cdef public int64_t next
    cdef public Py_ssize_t queued
    cdef public NativeSegments segments
    cdef public NativeProducers producers
    cdef public object epochs
    cdef public object durability
    cdef public object volume
    cdef public object name


cdef class NativeAppender:
    cdef public NativeLogState log
    cdef public int64_t segment_bytes
    cdef public bint queueing
    cdef public NativeGroupAppend group
    cdef object append_batches(
        self,
        const uint8_t* data,
        Py_ssize_t size,
        int64_t base,
        int64_t last,
        int64_t max_timestamp,
        int64_t max_timestamp_offset,
        int32_t epoch,
    )
    cdef NativeSegment find_room(
        self, const uint8_t* data, Py_ssize_t size, int64_t base, int64_t last, int64_t max_timestamp
    )
    cdef bint is_due_to_roll(
        self, int64_t filled, Py_ssize_t added, int64_t last, int64_t max_timestamp
    ) except -1


cdef class NativeLog:
    cdef readonly NativeLogState state
    cdef readonly NativeAppender appender


cdef class KeptBatch:
    cdef readonly int32_t first_sequence
    cdef readonly int32_t last_sequence
    cdef readonly int64_t base_offset
    cdef readonly int64_t last_offset
    cdef readonly int64_t timestamp


cdef class NativeProducer:
    cdef public int64_t id
    cdef public int epoch
    cdef public int coordinator_epoch
    cdef public int64_t next_sequence
    cdef public int64_t timestamp
    cdef public int64_t transaction_start
    cdef public object batches
    cdef int keep_batch(self, KeptBatch batch) except -1
    cdef KeptBatch find_copy(self, Header header)


cdef class NativeProducers:
    cdef public dict _producers
    cdef public dict _open
    cdef int judge(self, Header header) except -1
    cdef int note(self, Header header, int64_t base) except -1


cdef class NativePartition:
    cdef public object leader
    cdef public NativeLog log
    cdef public NativeReplicaState state
    cdef public CommitWaits commit_waits
    cdef public dict fetch_waits
    cdef public dict follower_waits
    cdef public str topic
    cdef public int64_t _batch_bytes_max
    cdef public int64_t _after_ms_max
    cdef public bint _plain
    cdef public int64_t messages_in
    cdef public int64_t bytes_in
    cdef public int64_t messages_out
    cdef public int64_t bytes_out
    cdef public int64_t replicated_in
    cdef AppendTimes times
    cdef bint accepts(self, bint by_all) except -1
    cdef object append_as_leader(
        self, uint8_t* data, Header header, int64_t max_timestamp_at, int64_t now_ms
    )
    cdef object append_stamped(
        self, uint8_t* data, Header header, int64_t max_timestamp_at, int64_t now_ms
    )
    cdef int note_growth(self, Py_ssize_t size) except -1
    cdef int count_in(self, int64_t first, int64_t end, Py_ssize_t size, int64_t now_ms) except -1
