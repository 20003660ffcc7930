"""Record batches (format v2) as bytes: headers read, CRCs checked, offsets and epochs stamped in place.

Bounds are checked before every read: input comes from the network and from disks that tear."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from tidelog._speed.log.crc32c cimport crc32c_update, crc_prepare


crc_prepare()

HEADER_SIZE = <int>HEADER
PREFIX_SIZE = <int>PREFIX
BASE_OFFSET_AT = <int>BASE_OFFSET
LENGTH_AT = <int>LENGTH
EPOCH_AT = <int>EPOCH
MAGIC_AT = <int>MAGIC
CRC_AT = <int>CRC
ATTRIBUTES_AT = <int>ATTRIBUTES


cdef class Header:
    """The 61 bytes in front of a batch's records; `position` is where it starts in the buffer, `size` its whole length."""

    @property
    def last_offset(self):
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self):
        if self.base_sequence < 0:
            return -1
        return (<int64_t>self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self):
        return self.attributes & 0x07

    @property
    def log_append_time(self):
        return self.attributes & 0x08 != 0

    @property
    def transactional(self):
        return self.attributes & 0x10 != 0

    @property
    def control(self):
        return self.attributes & 0x20 != 0

    @property
    def delete_horizon(self):
        return self.attributes & 0x40 != 0

    def __repr__(self):
        return (
            f"Header(position={self.position}, size={self.size}, base_offset={self.base_offset}, "
            f"last_offset={self.last_offset}, count={self.count}, magic={self.magic})"
        )


cdef Header read_header(const uint8_t* data, Py_ssize_t at, int64_t size):
    cdef Header header = Header.__new__(Header)
    cdef const uint8_t* start = data + at
    header.position = at
    header.size = size
    header.base_offset = get_int64(start + BASE_OFFSET)
    header.leader_epoch = get_int32(start + EPOCH)
    header.magic = <signed char>start[MAGIC]
    header.crc = <uint32_t>get_int32(start + CRC)
    header.attributes = get_int16(start + ATTRIBUTES)
    header.last_offset_delta = get_int32(start + LAST_DELTA)
    header.base_timestamp = get_int64(start + BASE_TIMESTAMP)
    header.max_timestamp = get_int64(start + MAX_TIMESTAMP)
    header.producer_id = get_int64(start + PRODUCER_ID)
    header.producer_epoch = get_int16(start + PRODUCER_EPOCH)
    header.base_sequence = get_int32(start + BASE_SEQUENCE)
    header.count = get_int32(start + COUNT)
    header.max_timestamp_at = header.last_offset_delta
    return header


cdef int64_t batch_size(const uint8_t* data, Py_ssize_t left) noexcept nogil:
    """The size that the header at `data` claims; -1 when it is not all there or cannot be."""
    cdef int64_t size
    if left < HEADER:
        return -1
    size = <int64_t>get_int32(data + LENGTH) + PREFIX
    return size if size >= HEADER else -1


def header_at(const uint8_t[::1] data, Py_ssize_t at=0):
    cdef int64_t size
    if at < 0 or data.shape[0] - at < HEADER:
        return None
    size = batch_size(&data[at], data.shape[0] - at)
    return None if size < 0 else read_header(&data[0], at, size)


def walk(const uint8_t[::1] data, Py_ssize_t at=0):
    cdef Py_ssize_t end = data.shape[0]
    cdef int64_t size
    cdef list headers = []
    if at < 0:
        return headers
    while end - at >= HEADER:
        size = batch_size(&data[at], end - at)
        if size < 0 or size > end - at:
            break
        headers.append(read_header(&data[0], at, size))
        at += size
    return headers


def crc_ok(const uint8_t[::1] data, Py_ssize_t at=0):
    cdef int64_t size
    if at < 0 or data.shape[0] - at < HEADER:
        return False
    size = batch_size(&data[at], data.shape[0] - at)
    if size < 0 or size > data.shape[0] - at:
        return False
    return <uint32_t>get_int32(&data[at + CRC]) == crc32c_update(0, &data[at + ATTRIBUTES], size - ATTRIBUTES)


cdef class BatchCheck:
    def __init__(self, int64_t base, int64_t last_max, bytes index not None):
        self.base = base
        self.position = 0
        self.expected = base
        self.last_max = last_max
        self.index_fits = True
        self._index = index  # keeps what `_index_at` points to
        self._index_at = index
        self._entries = len(index) // 8
        self._entry = 0

    def feed(self, const uint8_t[::1] data):
        cdef Py_ssize_t done = 0
        if data.shape[0] >= HEADER:
            with nogil:
                done = self.walk(&data[0], data.shape[0])
        return done

    def passed(self, Header header not None):
        self.step(header.base_offset, header.base_offset + header.last_offset_delta, header.size)

    cdef Py_ssize_t walk(self, const uint8_t* data, Py_ssize_t left) noexcept nogil:
        cdef Py_ssize_t done = 0
        cdef int64_t size, first, last
        cdef int32_t delta, count
        while left - done >= HEADER:
            size = batch_size(data + done, left - done)
            if size < 0 or size > left - done:
                break
            first = get_int64(data + done)
            delta = get_int32(data + done + LAST_DELTA)
            count = get_int32(data + done + COUNT)
            last = first + delta
            if data[done + MAGIC] != 2 or first < self.expected or delta < 0 or last > self.last_max:
                break
            if count < 0 or count > <int64_t>delta + 1 or get_int16(data + done + ATTRIBUTES) & ~0x7F:
                break
            if <uint32_t>get_int32(data + done + CRC) != crc32c_update(0, data + done + ATTRIBUTES, size - ATTRIBUTES):
                break
            self.step(first, last, size)
            done += size
        return done

    cdef void step(self, int64_t first, int64_t last, int64_t size) noexcept nogil:
        cdef const uint8_t* entry
        while self._entry < self._entries:
            entry = self._index_at + 8 * self._entry
            if get_int32(entry + 4) > self.position:
                break
            if get_int32(entry + 4) < self.position or self.base + get_int32(entry) != first:
                self.index_fits = False
            self._entry += 1
        self.expected = last + 1
        self.position += size


def stamp(uint8_t[::1] data, Py_ssize_t at, int64_t base_offset, int32_t epoch):
    if at < 0 or data.shape[0] - at < HEADER:
        raise ValueError("no batch header at this position")
    put_int64(&data[at + BASE_OFFSET], base_offset)
    put_int32(&data[at + EPOCH], epoch)


def stamp_append_time(uint8_t[::1] data, Py_ssize_t at, int64_t timestamp):
    cdef int64_t size
    if at < 0 or data.shape[0] - at < HEADER:
        raise ValueError("no batch header at this position")
    size = batch_size(&data[at], data.shape[0] - at)
    if size < 0 or size > data.shape[0] - at:
        raise ValueError("the batch at this position is cut")
    put_int16(&data[at + ATTRIBUTES], get_int16(&data[at + ATTRIBUTES]) | 0x08)
    put_int64(&data[at + MAX_TIMESTAMP], timestamp)
    put_int32(&data[at + CRC], <int32_t>crc32c_update(0, &data[at + ATTRIBUTES], size - ATTRIBUTES))


def find(const uint8_t[::1] data, int64_t offset):
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t end = data.shape[0]
    cdef int64_t size
    while end - at >= HEADER:
        size = batch_size(&data[at], end - at)
        if size < 0:
            break
        if get_int64(&data[at]) + get_int32(&data[at + LAST_DELTA]) >= offset:
            return at, read_header(&data[0], at, size)
        at += size
    return at, None
