"""Plain integers that are counted on the way of every request, and read when somebody asks for metrics.

Nothing here decides anything: the time is the machine's own, whatever clock the broker was given."""

from libc.stdlib cimport free, realloc

cdef enum:
    MARKS_FIRST = 8
    MARKS_MAX = 64

cdef double[TIME_BOUNDS] TIMES_MS = [1, 5, 10, 50, 100, 500, 1000]

TIME_BOUNDS_MS = (1, 5, 10, 50, 100, 500, 1000)
END_TO_END_BOUNDS_MS = (10, 50, 100, 500, 1000, 5000)


cdef class Histogram:
    def __init__(self, bounds):
        cdef int at
        if not 0 < len(bounds) <= BOUNDS_MAX or list(bounds) != sorted(bounds):
            raise ValueError(f"bounds must be 1 to {BOUNDS_MAX} numbers in ascending order")
        self.bounds = tuple(bounds)
        self.size = len(bounds)
        for at in range(self.size):
            self.limits[at] = bounds[at]

    def observe(self, double value, int64_t times=1):
        self.add(value, times)

    cdef void add(self, double value, int64_t times) noexcept:
        cdef int at = 0
        while at < self.size and value > self.limits[at]:
            at += 1
        self.counts[at] += times
        self.sum += value * times

    def read(self):
        """How many were at most each of the bounds, and how many there were."""
        cdef int at
        cdef int64_t below = 0
        at_most = []
        for at in range(self.size + 1):
            below += self.counts[at]
            at_most.append(below)
        return at_most


cdef class AppendTimes:
    """When the batches at a log's end were appended: exactly for the latest, and ever more roughly the older they are.

    Of what is old, neighbours are joined, so that a bounded number of marks covers everything since the start."""

    def __dealloc__(self):
        free(self.marks)

    def appended(self, int64_t first, int64_t end, int64_t now_ms):
        self.add(first, end, now_ms)

    def fetched(self, Histogram ages not None, int64_t offset, int64_t end, int64_t now_ms):
        self.tell(ages, offset, end, now_ms)

    def read(self):
        cdef int at
        return [(self.marks[at].end, self.marks[at].at_ms, self.marks[at].batches) for at in range(self.count)]

    cdef int add(self, int64_t first, int64_t end, int64_t now_ms) except -1:
        cdef Mark* last
        if self.count:
            last = &self.marks[self.count - 1]
            if first < last.end:
                self.count = 0  # the log was cut
            elif last.at_ms == now_ms:
                last.end = end
                last.batches += 1
                return 0
        if self.count == 0:
            self.start = first
        if self.count == self.capacity:
            self.make_room()
        self.marks[self.count].end = end
        self.marks[self.count].at_ms = now_ms
        self.marks[self.count].batches = 1
        self.count += 1
        return 0

    cdef int make_room(self) except -1:
        cdef int at, kept
        cdef int64_t batches
        cdef Mark* grown
        cdef Mark* first
        cdef Mark* second
        if self.capacity < MARKS_MAX:
            kept = self.capacity * 2 if self.capacity else MARKS_FIRST
            grown = <Mark*>realloc(self.marks, kept * sizeof(Mark))
            if grown is NULL:
                raise MemoryError
            self.marks, self.capacity = grown, kept
            return 0
        for at in range(MARKS_MAX // 4):
            first, second = &self.marks[2 * at], &self.marks[2 * at + 1]
            batches = first.batches + second.batches
            self.marks[at].at_ms = first.at_ms + <int64_t>(<double>(second.at_ms - first.at_ms) * second.batches / batches)
            self.marks[at].end = second.end
            self.marks[at].batches = batches
        kept = MARKS_MAX // 4
        for at in range(MARKS_MAX // 2, MARKS_MAX):
            self.marks[kept] = self.marks[at]
            kept += 1
        self.count = kept
        return 0

    cdef void tell(self, Histogram ages, int64_t offset, int64_t end, int64_t now_ms) noexcept:
        cdef int at = self.count - 1
        cdef int64_t low, overlap, whole
        while at >= 0 and self.marks[at].end > offset:
            low = self.marks[at - 1].end if at else self.start
            whole = self.marks[at].end - low
            overlap = min(end, self.marks[at].end) - max(offset, low)
            if overlap > 0 and whole > 0:
                ages.add(
                    max(now_ms - self.marks[at].at_ms, 0),
                    max(<int64_t>(<double>self.marks[at].batches * overlap / whole + 0.5), 1),
                )
            at -= 1


cdef class RequestMetrics:
    """Of one broker."""

    def __init__(self):
        self.end_to_end = Histogram(END_TO_END_BOUNDS_MS)
        self.errors = {}

    def failed(self, int api_key, int code, int64_t times=1):
        """An answer has this error code in it."""
        key = (api_key, code)
        self.errors[key] = self.errors.get(key, 0) + times

    def read(self):
        """Of every API that was asked for: (key, requests, bytes in, bytes out, ms in the queue, ms in the handler, ms in
        all, answers that took at most each of TIME_BOUNDS_MS and all answers)."""
        cdef int key, at
        cdef int64_t below
        rows = []
        for key in range(APIS):
            if not self.apis[key].requests:
                continue
            below, times = 0, []
            for at in range(TIME_BOUNDS + 1):
                below += self.apis[key].counts[at]
                times.append(below)
            rows.append((
                key,
                self.apis[key].requests,
                self.apis[key].bytes_in,
                self.apis[key].bytes_out,
                self.apis[key].queued_ns / 1e6,
                self.apis[key].handled_ns / 1e6,
                self.apis[key].total_ns / 1e6,
                times,
            ))
        return rows

    cdef void arrived(self, int api_key, Py_ssize_t size) noexcept:
        if 0 <= api_key < APIS:
            self.apis[api_key].requests += 1
            self.apis[api_key].bytes_in += size

    cdef void handled(self, int api_key, int64_t queued_ns, int64_t handled_ns) noexcept:
        if 0 <= api_key < APIS:
            self.apis[api_key].queued_ns += queued_ns
            self.apis[api_key].handled_ns += handled_ns

    cdef void answered(self, int api_key, int64_t total_ns, int64_t bytes_out, int64_t times) noexcept:
        """`times` requests took `total_ns` each, and their answers have `bytes_out` in all."""
        cdef int at = 0
        cdef double took_ms = total_ns / 1e6
        if not 0 <= api_key < APIS:
            return
        while at < TIME_BOUNDS and took_ms > TIMES_MS[at]:
            at += 1
        self.apis[api_key].counts[at] += times
        self.apis[api_key].answers += times
        self.apis[api_key].total_ns += total_ns * times
        self.apis[api_key].bytes_out += bytes_out
