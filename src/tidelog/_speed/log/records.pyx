"""The records inside a batch: checked, and read into columns or `Record` objects.

The loops work on the decompressed records section (what follows the 61-byte header); compression is
`tidelog.record.codecs`.  Input is hostile until `cut_record` has cut it: no loop reads past the section."""

cimport cython
from cpython cimport array
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from tidelog._speed.log.batch cimport get_int32

import array

from tidelog.errors import InvalidRecord

cdef enum:
    NO_TIMESTAMP = -1
    NO_CONTENT = -2
    NO_SCHEMA = -3
    SCHEMA_FRAME = 5  # a zero and the id

cdef int64_t OFFSET_FIRST = -0x7FFFFFFFFFFFFFFF - 1
cdef int64_t OFFSET_LAST = 0x7FFFFFFFFFFFFFFF
cdef array.array INT64_COLUMN = array.array("q")

cdef dict PROBLEMS = {
    CUT_SHORT: "runs past the end of its batch",
    LONG_VARINT: "has a number that does not end",
    BAD_SIZE: "is not as long as it says",
    BAD_HEADERS: "has headers that cannot be",
    BAD_DELTA: "is out of order: offset deltas must be 0, 1, 2, ...",
    NO_KEY: "has no key, which a compacted topic requires: send a key with every record",
}


class BadRecord(InvalidRecord):
    """`index` is the record's place in its batch, for the answer to the producer; -1 when it is the batch."""

    def __init__(self, message, index=-1):
        super().__init__(message)
        self.index = index


cdef object problem(int code, int64_t index, int64_t count):
    if code == LEFT_OVER:
        return BadRecord(f"bytes are left after the {count} records that the batch announces")
    if code == BAD_COUNT:
        return BadRecord(f"the batch announces {count} records, which its size cannot hold")
    return BadRecord(f"record {index} of {count} {PROBLEMS[code]}", index)


@cython.freelist(64)
cdef class Record:
    """A record as read: `headers` are (name, value) pairs; keys, values and header values may be None."""

    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly object key
    cdef readonly object value
    cdef readonly tuple headers

    __match_args__ = ("offset", "timestamp", "key", "value", "headers")

    def __init__(self, int64_t offset, int64_t timestamp, key, value, headers=()):
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = tuple(headers)

    cdef tuple fields(self):
        return (self.offset, self.timestamp, self.key, self.value, self.headers)

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        return self.fields() == (<Record>other).fields()

    def __hash__(self):
        return hash(self.fields())

    def __reduce__(self):
        return Record, self.fields()

    def __repr__(self):
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )


cdef int check_loop(const uint8_t* data, Py_ssize_t size, int32_t count, bint keys_required, RecordsSummary* summary) noexcept nogil:
    cdef Cut cut
    cdef Py_ssize_t at = 0
    cdef int32_t i
    summary.max_delta = summary.max_offset_delta = summary.min_delta = 0
    summary.index = -1
    for i in range(count):
        at = cut_record(data, at, size, &cut, True)
        if at >= 0 and cut.offset_delta != i:
            at = BAD_DELTA
        if at >= 0 and keys_required and cut.key_size < 0:
            at = NO_KEY
        if at < 0:
            summary.index = i
            return <int>at
        if i == 0 or cut.timestamp_delta > summary.max_delta:
            summary.max_delta = cut.timestamp_delta
            summary.max_offset_delta = i
        if i == 0 or cut.timestamp_delta < summary.min_delta:
            summary.min_delta = cut.timestamp_delta
    return 0 if at == size else LEFT_OVER


cdef inline const uint8_t* start_of(const uint8_t[::1] data) noexcept:
    return &data[0] if data.shape[0] else <const uint8_t*>b""


def check(const uint8_t[::1] data, int32_t count, bint keys_required):
    cdef RecordsSummary summary
    cdef const uint8_t* start = start_of(data)
    cdef Py_ssize_t size = data.shape[0]
    cdef int code
    if count < 1 or count > size // RECORD_SIZE_MIN:
        raise problem(BAD_COUNT, -1, count)
    with nogil:
        code = check_loop(start, size, count, keys_required, &summary)
    if code:
        raise problem(code, summary.index, count)
    return summary.max_delta, summary.max_offset_delta, summary.min_delta


def keyless(const uint8_t[::1] data, int32_t count, int most):
    cdef Cut cut
    cdef const uint8_t* start = start_of(data)
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t at = 0
    cdef int32_t i = 0
    cdef list places = []
    while len(places) < most:
        with nogil:
            while i < count:
                at = cut_record(start, at, size, &cut, True)
                i += 1
                if at < 0 or cut.key_size < 0:
                    break
            else:
                i = -1
        if at < 0:
            raise problem(<int>at, i - 1, count)
        if i < 0:
            break
        places.append(i - 1)
    return places


def untimely(
    const uint8_t[::1] data, int32_t count, int64_t base_timestamp, int64_t oldest, int64_t newest, int most
):
    cdef Cut cut
    cdef const uint8_t* start = start_of(data)
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t at = 0
    cdef int64_t timestamp = 0
    cdef int32_t i = 0
    cdef list places = []
    while len(places) < most:
        with nogil:
            while i < count:
                at = cut_record(start, at, size, &cut, True)
                i += 1
                if at < 0:
                    break
                timestamp = wrapping_add(base_timestamp, cut.timestamp_delta)
                if timestamp > newest or (timestamp < oldest and timestamp != NO_TIMESTAMP):
                    break
            else:
                i = -1
        if at < 0:
            raise problem(<int>at, i - 1, count)
        if i < 0:
            break
        places.append((i - 1, timestamp))
    return places


def first_at(
    const uint8_t[::1] data, int32_t count, int64_t base_timestamp, int64_t timestamp, int64_t delta_min
):
    cdef Cut cut
    cdef const uint8_t* start = start_of(data)
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t at = 0
    cdef int64_t record_time = 0
    cdef int32_t i
    with nogil:
        for i in range(count):
            at = cut_record(start, at, size, &cut, True)
            if at < 0:
                break
            record_time = wrapping_add(base_timestamp, cut.timestamp_delta)
            if record_time >= timestamp and cut.offset_delta >= delta_min:
                break
        else:
            i = -1
    if at < 0:
        raise problem(<int>at, i, count)
    return None if i < 0 else (cut.offset_delta, record_time)


def schema_ids(const uint8_t[::1] data, int32_t count, bint of_keys, int ids_max, int most):
    cdef Cut cut
    cdef const uint8_t* start = start_of(data)
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t content, content_size
    cdef int64_t id = NO_SCHEMA
    cdef int64_t full = NO_CONTENT  # an id whose places are not noted any more
    cdef int32_t i = 0
    cdef bint noted
    cdef dict named = {}
    cdef list bare = []
    cdef list places
    while True:
        noted = False
        with nogil:
            while i < count and not noted:
                at = cut_record(start, at, size, &cut, True)
                i += 1
                if at < 0:
                    break
                content = cut.key if of_keys else cut.value
                content_size = cut.key_size if of_keys else cut.value_size
                if content_size < 0:
                    continue
                id = NO_SCHEMA
                if content_size >= SCHEMA_FRAME and start[content] == 0:
                    id = <int64_t><uint32_t>get_int32(start + content + 1)
                noted = id != full
        if at < 0:
            raise problem(<int>at, i - 1, count)
        if not noted:
            return named, bare
        places = bare if id == NO_SCHEMA else named.get(id)
        if places is None:
            if len(named) >= ids_max:
                return None
            places = named[id] = []
        if len(places) < most:
            places.append(i - 1)
        else:
            full = id


cdef int64_t[::1] column(int32_t count, list columns):
    cdef array.array made = array.clone(INT64_COLUMN, count, zero=False)
    columns.append(made)
    return made


def columns(const uint8_t[::1] data, int32_t count, int64_t base_offset, int64_t base_timestamp):
    cdef Cut cut
    cdef const uint8_t* start = start_of(data)
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t at = 0
    cdef int32_t i = 0
    if count < 0 or count > size // RECORD_SIZE_MIN:
        raise problem(BAD_COUNT, -1, count)
    cdef list made = []
    cdef int64_t[::1] offsets = column(count, made)
    cdef int64_t[::1] timestamps = column(count, made)
    cdef int64_t[::1] keys = column(count, made)
    cdef int64_t[::1] key_sizes = column(count, made)
    cdef int64_t[::1] values = column(count, made)
    cdef int64_t[::1] value_sizes = column(count, made)
    cdef int64_t[::1] headers = column(count, made)
    cdef int64_t[::1] header_counts = column(count, made)
    with nogil:
        while i < count:
            at = cut_record(start, at, size, &cut, True)
            if at < 0:
                break
            offsets[i] = base_offset + cut.offset_delta
            timestamps[i] = wrapping_add(base_timestamp, cut.timestamp_delta)
            keys[i] = cut.key
            key_sizes[i] = cut.key_size
            values[i] = cut.value
            value_sizes[i] = cut.value_size
            headers[i] = cut.headers
            header_counts[i] = cut.header_count
            i += 1
    if at < 0:
        raise problem(<int>at, i, count)
    if at != size:
        raise problem(LEFT_OVER, -1, count)
    return tuple(made)


def read(
    const uint8_t[::1] data, int32_t count, int64_t base_offset, int64_t base_timestamp, append_timestamp=None,
    int64_t first=OFFSET_FIRST, int64_t last=OFFSET_LAST,
):
    cdef Cut cut
    cdef const uint8_t* start = start_of(data)
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t at = 0
    cdef bint appended = append_timestamp is not None
    cdef int64_t append_time = append_timestamp if appended else 0
    cdef Record record
    cdef list records = []
    cdef int32_t i
    if count < 0 or count > size // RECORD_SIZE_MIN:
        raise problem(BAD_COUNT, -1, count)
    for i in range(count):
        at = cut_record(start, at, size, &cut, True)
        if at < 0:
            raise problem(<int>at, i, count)
        if not first <= base_offset + cut.offset_delta <= last:
            continue
        record = Record.__new__(Record)
        record.offset = base_offset + cut.offset_delta
        record.timestamp = append_time if appended else wrapping_add(base_timestamp, cut.timestamp_delta)
        record.key = slice_of(start, cut.key, cut.key_size)
        record.value = slice_of(start, cut.value, cut.value_size)
        record.headers = headers_of(start, cut.headers, cut.end, cut.header_count) if cut.header_count else ()
        records.append(record)
    if at != size:
        raise problem(LEFT_OVER, -1, count)
    return records


def headers_at(const uint8_t[::1] data, Py_ssize_t at, int32_t count):
    cdef Py_ssize_t end
    cdef const uint8_t* start = start_of(data)
    if at < 0 or count < 0 or count > data.shape[0] - at:
        raise problem(BAD_HEADERS, -1, count)
    end = skip_headers(start, at, data.shape[0], count)
    if end < 0:
        raise problem(<int>end, -1, count)
    return headers_of(start, at, end, count)
