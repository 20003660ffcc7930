"""Which batches of a segment get entries in its indexes: the one place that says so, for appends, recovery and compaction.

Entries lie more than `index.interval.bytes` apart, and name offsets relative to the segment's base in 31 bits.
`tests/reference/append.py` says the same in plain Python."""

SEGMENT_OFFSETS_MAX = <int64_t>OFFSETS_MAX


cdef class IndexInterval:
    def __init__(self, int64_t interval_bytes, int64_t since=0):
        self.interval_bytes = interval_bytes
        self.since = since

    @property
    def due(self):
        return self.is_due()

    def indexed(self):
        self.since = 0

    def passed(self, int64_t size):
        self.since += size
