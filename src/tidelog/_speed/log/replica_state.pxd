from libc.stdint cimport int32_t, int64_t


cdef struct Follower:
    int32_t node
    bint counts  # its end bounds the high watermark
    bint has_fetched  # in this epoch
    bint has_caught_up  # `caught_up_ms` is known
    int64_t end
    int64_t caught_up_ms
    int64_t fetched_ms  # of its last fetch
    int64_t leader_end_then  # the leader's end at its last fetch


cdef class NativeReplicaState:
    cdef public int32_t node
    cdef public int32_t epoch
    cdef public int64_t committed
    cdef public int64_t end
    cdef readonly bint enough_members
    cdef readonly bint is_alone
    cdef bint counts_itself
    cdef int follower_count
    cdef int follower_capacity
    cdef Follower* followers
    cdef Follower* find(self, int32_t node) noexcept
    cdef Follower* find_or_add(self, int32_t node) except NULL
    cdef Follower* find_replaceable(self) noexcept
    cdef int note_fetch(self, int32_t node, int64_t end, int64_t now_ms) except -1
    cdef bint is_at(self, int32_t node, int64_t end) noexcept
    cdef bint advance(self) noexcept
    cdef bint grew(self, int64_t end) noexcept
