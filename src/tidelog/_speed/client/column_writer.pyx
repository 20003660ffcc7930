"""Columns written as records: rows of Arrow's buffers, straight into the batches of a producer.

Buffers come from outside: what they claim (offsets, lengths) is checked before it is followed."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from tidelog._speed.client.delivery cimport Growing
from tidelog._speed.client.intake cimport RECORD_OVERHEAD, Intake, Lane, Parts, TopicLanes
from tidelog._speed.log.records cimport put_varlong, varlong_size

from tidelog.errors import InvalidRecord, MessageTooLarge

cdef enum:
    FULL = -1  # no room in memory
    TOO_LARGE = -2
    NO_PARTITION = -3
    BAD_BUFFER = -4


cdef enum:
    MET = 64


cdef class BytesColumn:
    """A column of bytes or nulls, with offsets of 64 bits; `start` is its first row in the buffers."""

    cdef const int64_t[::1] _offsets
    cdef const uint8_t[::1] _content
    cdef const uint8_t[::1] _valid
    cdef const uint8_t* _start
    cdef const uint8_t* _bits
    cdef int64_t _size
    cdef int64_t _first
    cdef readonly int64_t rows

    def __init__(self, const int64_t[::1] offsets, const uint8_t[::1] content, valid, int64_t start, int64_t rows):
        if start < 0 or rows < 0 or (rows and offsets.shape[0] < start + rows + 1):
            raise InvalidRecord(f"{rows} rows from {start} on need more offsets than there are")
        self._offsets = offsets
        self._content = content
        self._start = &content[0] if content.shape[0] else NULL
        self._size = content.shape[0]
        self._first = start
        self.rows = rows
        if valid is not None:
            self._valid = valid
            if 8 * self._valid.shape[0] < start + rows:
                raise InvalidRecord(f"{rows} rows from {start} on need more validity bits than there are")
            if rows:
                self._bits = &self._valid[0]

    cdef int64_t get(self, int64_t row, const uint8_t** data) noexcept:
        """The size, -1 for null, BAD_BUFFER for offsets that cannot be."""
        cdef int64_t at = self._first + row
        cdef int64_t start, end
        if self._bits != NULL and not self._bits[at >> 3] & (1 << (at & 7)):
            data[0] = NULL
            return -1
        start = self._offsets[at]
        end = self._offsets[at + 1]
        if start < 0 or end < start or end > self._size:
            return BAD_BUFFER
        data[0] = self._start + start
        return end - start


cdef class HeadersColumn:
    """A list of names and values for each row, encoded when asked for."""

    cdef const int64_t[::1] _offsets
    cdef BytesColumn _names
    cdef BytesColumn _values
    cdef uint8_t* _encoded
    cdef Py_ssize_t _capacity
    cdef int64_t _first

    def __init__(self, const int64_t[::1] offsets, BytesColumn names not None, BytesColumn values not None, int64_t start, int64_t rows):
        if start < 0 or rows < 0 or (rows and offsets.shape[0] < start + rows + 1) or names.rows != values.rows:
            raise InvalidRecord(f"{rows} rows of headers need more offsets than there are")
        self._offsets = offsets
        self._names = names
        self._values = values
        self._first = start

    def __dealloc__(self):
        free(self._encoded)

    cdef int64_t get(self, int64_t row, const uint8_t** data) except? -1:
        cdef int64_t first = self._offsets[self._first + row]
        cdef int64_t end = self._offsets[self._first + row + 1]
        cdef int64_t at, size, name_size, value_size
        cdef const uint8_t* part = NULL
        cdef uint8_t* out
        if first < 0 or end < first or end > self._names.rows:
            return BAD_BUFFER
        size = varlong_size(end - first)
        for at in range(first, end):
            name_size = self._names.get(at, &part)
            value_size = self._values.get(at, &part)
            if name_size < 0 or value_size < -1:
                return BAD_BUFFER
            size += varlong_size(name_size) + name_size + varlong_size(value_size) + max(value_size, 0)
        if size > INT32_MAX:
            return TOO_LARGE
        if size > self._capacity:
            out = <uint8_t*>realloc(self._encoded, 2 * size)
            if out == NULL:
                raise MemoryError()
            self._encoded = out
            self._capacity = 2 * size
        out = put_varlong(self._encoded, end - first)
        for at in range(first, end):
            name_size = self._names.get(at, &part)
            out = copied(put_varlong(out, name_size), part, name_size)
            value_size = self._values.get(at, &part)
            out = copied(put_varlong(out, value_size), part, value_size)
        data[0] = self._encoded
        return size


cdef inline uint8_t* copied(uint8_t* at, const uint8_t* data, int64_t size) noexcept:
    if size <= 0:
        return at
    memcpy(at, data, size)
    return at + size


cdef class Rows:
    """What is to be sent, and how far that is; any column but `values` may be missing."""

    cdef BytesColumn _keys
    cdef BytesColumn _values
    cdef HeadersColumn _headers
    cdef const int64_t[::1] _timestamps
    cdef const int32_t[::1] _partitions
    cdef object _partition
    cdef readonly int64_t rows
    cdef readonly int64_t sent
    cdef readonly int64_t needs
    cdef readonly list batches
    cdef void* _met[MET]

    def __init__(
        self, int64_t rows, BytesColumn keys, BytesColumn values, HeadersColumn headers=None,
        const int64_t[::1] timestamps=None, const int32_t[::1] partitions=None, partition=None,
    ):
        for column in (keys, values):
            if column is not None and column.rows != rows:
                raise InvalidRecord(f"a column of {column.rows} rows among columns of {rows}")
        if (timestamps is not None and timestamps.shape[0] != rows) or (
            partitions is not None and partitions.shape[0] != rows
        ):
            raise InvalidRecord(f"timestamps or partitions do not have {rows} rows")
        self.rows = rows
        self._keys, self._values, self._headers = keys, values, headers
        self._timestamps, self._partitions, self._partition = timestamps, partitions, partition
        self.batches = []

    def send(self, Intake intake not None, topic, int64_t rows_max, int64_t size_max):
        """Up to `rows_max` rows; fewer when memory is full: then `needs` is what the next row takes.

        False when the topic is not known, or the producer does not take records now."""
        cdef TopicLanes route
        cdef Parts parts
        cdef int64_t size = 0
        cdef int64_t row = self.sent
        cdef int64_t end = min(self.rows, self.sent + rows_max)
        cdef int64_t now_ms = intake.now_ms()
        cdef bint steady
        cdef Lane lane = None
        cdef Growing batch = None
        cdef int64_t stay = 0
        self.needs = 0
        known_route = intake.routes.get(topic)
        if known_route is None or not intake.admitting:
            return False
        route = known_route
        # Without keys, and in one partition, rows stay where the last one went for a while.
        steady = self._partitions is None and (
            self._partition is not None
            or (self._keys is None and intake._kind < 2)
            or (len(route.lanes) == 1 and intake._kind < 3)
        )
        while row < end:
            size = self._row(row, now_ms, &parts)
            if size < 0 or size > intake.record_bytes_max:
                raise self._problem(row, size, intake.record_bytes_max)
            if not intake._memory.take_now(size):
                self.needs = size
                break
            try:
                # As long as no Python code runs, the batch is the open one still.
                while stay > 0 and batch.put_parts(
                    parts.key, parts.key_size, parts.value, parts.value_size, parts.timestamp, parts.headers,
                    parts.headers_size,
                ):
                    batch.bytes_taken += size
                    stay -= size
                    row += 1
                    self.sent = row
                    size = 0
                    if row >= end:
                        return True
                    size = self._row(row, now_ms, &parts)
                    if size < 0 or size > intake.record_bytes_max or not intake._memory.take_now(size):
                        size = 0
                        break
                if size == 0:
                    continue
                if lane is None or not steady or stay <= 0:
                    lane = self._lane(intake, route, row, &parts, size)
                    stay = size_max
                batch = None if lane is None else lane.put(intake, &parts, size, size_max)
            except BaseException:
                intake._memory.used -= size
                raise
            if batch is None:
                intake._memory.used -= size
                if lane is None:
                    raise self._problem(row, NO_PARTITION, len(route.lanes))
                return False
            row += 1
            self.sent = row
            self._touched(batch)
            if batch.count == 1:
                intake._wake()
            if not steady or lane.open is not batch:
                stay = 0
        return True

    cdef Lane _lane(self, Intake intake, TopicLanes route, int64_t row, Parts* parts, int64_t size):
        cdef bytes key = None
        partition = self._partition if self._partitions is None else self._partitions[row]
        if intake._kind == 3 and parts.key_size >= 0:
            key = parts.key[:parts.key_size]
        route._stick_left = 0  # what comes in bulk moves on by whole batches
        return intake.lane_for(route, parts, key, partition, size)

    cdef int64_t _row(self, int64_t row, int64_t now_ms, Parts* parts) except? -1:
        cdef int64_t size = RECORD_OVERHEAD
        parts.key_size = parts.value_size = -1
        parts.key = parts.value = NULL
        parts.headers = <const uint8_t*>b"\0"
        parts.headers_size = 1
        if self._keys is not None:
            parts.key_size = self._keys.get(row, &parts.key)
        if self._values is not None:
            parts.value_size = self._values.get(row, &parts.value)
        if self._headers is not None:
            parts.headers_size = self._headers.get(row, &parts.headers)
        if parts.key_size < -1 or parts.value_size < -1 or parts.headers_size < 0:
            return BAD_BUFFER
        parts.timestamp = now_ms if self._timestamps is None else self._timestamps[row]
        return size + parts.headers_size + max(parts.key_size, 0) + max(parts.value_size, 0)

    cdef int _touched(self, Growing batch) except -1:
        # Rows may take turns between the batches of several partitions; those that are open are met again and again.
        cdef size_t slot = (<size_t><void*>batch >> 6) % MET
        if self._met[slot] == <void*>batch:
            return 0
        self._met[slot] = <void*>batch  # `batches` keeps it alive
        for open_batch in reversed(self.batches[-64:] if len(self.batches) > 64 else self.batches):
            if open_batch is batch:
                return 0
        self.batches.append(batch)
        return 0

    def _problem(self, int64_t row, int64_t code, int64_t limit):
        if code == NO_PARTITION:
            return InvalidRecord(f"row {row}: there is no such partition, the topic has 0 to {limit - 1}")
        if code == BAD_BUFFER:
            return InvalidRecord(f"row {row}: the columns' buffers do not fit together")
        return MessageTooLarge(f"row {row} takes {code} bytes, more than max_request_size or buffer_memory allow ({limit})")
