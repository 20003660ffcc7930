from libc.stdint cimport int32_t, int64_t

cdef enum:
    APIS = 128
    TIME_BOUNDS = 7
    BOUNDS_MAX = 24


cdef extern from *:
    """
    #include <stdint.h>
    #include <time.h>
    static inline int64_t now_ns(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    """
    int64_t now_ns() noexcept nogil


cdef class Histogram:
    cdef readonly tuple bounds
    cdef double limits[BOUNDS_MAX]
    cdef int64_t counts[BOUNDS_MAX + 1]
    cdef int size
    cdef readonly double sum
    cdef void add(self, double value, int64_t times) noexcept


cdef struct Mark:
    int64_t end
    int64_t at_ms
    int64_t batches


cdef class AppendTimes:
    cdef int64_t start
    cdef int count
    cdef int capacity
    cdef Mark* marks
    cdef int add(self, int64_t first, int64_t end, int64_t now_ms) except -1
    cdef int make_room(self) except -1
    cdef void tell(self, Histogram ages, int64_t offset, int64_t end, int64_t now_ms) noexcept


cdef struct ApiTally:
    int64_t requests
    int64_t answers
    int64_t bytes_in
    int64_t bytes_out
    int64_t queued_ns
    int64_t handled_ns
    int64_t total_ns
    int64_t counts[TIME_BOUNDS + 1]


cdef class RequestMetrics:
    cdef ApiTally apis[APIS]
    cdef readonly Histogram end_to_end
    cdef readonly dict errors
    cdef void arrived(self, int api_key, Py_ssize_t size) noexcept
    cdef void handled(self, int api_key, int64_t queued_ns, int64_t handled_ns) noexcept
    cdef void answered(self, int api_key, int64_t total_ns, int64_t bytes_out, int64_t times) noexcept
