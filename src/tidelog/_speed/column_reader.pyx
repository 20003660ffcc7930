"""Fetched batches read into columns: buffers in the layout that Arrow has for them.

Each column is a growing block of memory that becomes a buffer when all is read.  Room is made for a whole batch before
its records are read, so the loop over them allocates nothing; a batch that is damaged leaves no trace."""

from operator import itemgetter

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from tidelog._speed cimport batch
from tidelog._speed.records cimport RECORD_SIZE_MIN, Cut, cut_record, skip_bytes, wrapping_add
from tidelog._speed.room cimport LARGE, give_spare, take_spare

from tidelog._speed.records import BadRecord
from tidelog.errors import CorruptMessage, InvalidRecord

cdef extern from "crc32c.h":
    void crc_prepare()
    uint32_t crc32c_update(uint32_t value, const uint8_t* data, size_t size) nogil

crc_prepare()

cdef enum:
    MARKER_ABORT = 0
    COMPRESSION = 0x07
    APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20


cdef class Block:
    """Memory that grows, then is read as a buffer."""

    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t room
    cdef Py_ssize_t _views

    def __dealloc__(self):
        give_spare(self.data, self.room)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data if self.data != NULL else <uint8_t*>b"", self.size, 1, flags)
        self._views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self._views -= 1

    cdef int reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t room = self.size + more
        cdef Py_ssize_t found = 0
        cdef uint8_t* data = NULL
        if room <= self.room:
            return 0
        if self._views:
            raise BufferError("the column is in use already")
        room = max(room, self.room + (self.room >> 1), 256)
        if room >= LARGE and self.room < LARGE:
            found = take_spare(room, &data)
        if found:
            memcpy(data, self.data, self.size if self.data != NULL else 0)
            free(self.data)
            room = found
        else:
            data = <uint8_t*>realloc(self.data, room)
            if data == NULL:
                raise MemoryError()
        self.data = data
        self.room = room
        return 0


cdef class Bytes:
    """A column of bytes or nulls: offsets of 32 bits, the bytes, a bit for each that is not null."""

    cdef Block offsets
    cdef Block content
    cdef Block valid
    cdef int64_t nulls

    def __cinit__(self):
        self.offsets = Block()
        self.content = Block()
        self.valid = Block()
        self.offsets.reserve(4)
        (<int32_t*>self.offsets.data)[0] = 0
        self.offsets.size = 4

    cdef int reserve(self, int64_t count, Py_ssize_t content) except -1:
        self.offsets.reserve(4 * count)
        self.content.reserve(content)
        self.valid.reserve(count // 8 + 2)
        return 0

    cdef inline void put(self, int64_t row, const uint8_t* data, Py_ssize_t size) noexcept nogil:
        cdef uint8_t* flags = self.valid.data + (row >> 3)
        if row & 7 == 0:
            flags[0] = 0
            self.valid.size = (row >> 3) + 1
        if size >= 0:
            flags[0] |= <uint8_t>(1 << (row & 7))
            memcpy(self.content.data + self.content.size, data, size)
            self.content.size += size
        else:
            self.nulls += 1
        (<int32_t*>(self.offsets.data + self.offsets.size))[0] = <int32_t>self.content.size
        self.offsets.size += 4

    cdef void cut(self, int64_t rows, Py_ssize_t content, int64_t nulls) noexcept:
        """Back to how it was."""
        self.offsets.size = 4 * (rows + 1)
        self.content.size = content
        self.valid.size = (rows + 7) >> 3
        if rows & 7:
            self.valid.data[rows >> 3] &= <uint8_t>((1 << (rows & 7)) - 1)
        self.nulls = nulls

    def buffers(self):
        return (self.valid if self.nulls else None), self.offsets, self.content, self.nulls


cdef inline void put_int64(Block block, int64_t value) noexcept nogil:
    (<int64_t*>(block.data + block.size))[0] = value
    block.size += 8


cdef inline void put_int32(Block block, int32_t value) noexcept nogil:
    (<int32_t*>(block.data + block.size))[0] = value
    block.size += 4


cdef class Columns:
    """Rows of any number of partitions, one after the other."""

    cdef readonly int64_t rows
    cdef readonly int64_t header_rows
    cdef readonly int64_t position
    cdef readonly Bytes keys
    cdef readonly Bytes values
    cdef readonly Bytes header_names
    cdef readonly Bytes header_values
    cdef readonly Block topics
    cdef readonly Block partitions
    cdef readonly Block offsets
    cdef readonly Block timestamps
    cdef readonly Block header_offsets

    def __cinit__(self):
        self.keys, self.values = Bytes(), Bytes()
        self.header_names, self.header_values = Bytes(), Bytes()
        self.topics, self.partitions = Block(), Block()
        self.offsets, self.timestamps, self.header_offsets = Block(), Block(), Block()
        self.header_offsets.reserve(4)
        put_int32(self.header_offsets, 0)
        self.position = -1

    def add(
        self, const uint8_t[::1] data, int32_t topic, int32_t partition, int64_t start, decompress,
        aborted=(), bint check_crc=True,
    ):
        """Every whole batch in `data`, from offset `start` on; `position` is then the offset to go on with.

        `aborted`: (producer id, first offset) of transactions whose records are left out.  What is damaged raises, and
        stays out with all that follows it."""
        cdef const uint8_t* at
        cdef Py_ssize_t left = data.shape[0]
        cdef Py_ssize_t place = 0
        cdef int64_t size, base, last, producer
        cdef int attributes
        # What is not compressed needs no more than this, all in all.
        self.values.content.reserve(left)
        waiting = sorted(aborted, key=itemgetter(1), reverse=True) if aborted else None
        ended = set() if aborted else None
        self.position = start
        while left >= batch.HEADER:
            at = &data[place]
            size = batch.batch_size(at, left)
            base = batch.get_int64(at)
            if size < 0:
                raise CorruptMessage(f"no record batch at byte {place}: the length field is impossible")
            if at[batch.MAGIC] != 2:
                raise InvalidRecord(f"the batch at offset {base} has format {at[batch.MAGIC]}, not 2")
            if size > left:
                break
            if check_crc and not whole(at, size):
                raise CorruptMessage(f"the batch at offset {base} fails its checksum")
            attributes = batch.get_int16(at + batch.ATTRIBUTES)
            last = base + batch.get_int32(at + batch.LAST_DELTA)
            producer = batch.get_int64(at + batch.PRODUCER_ID)
            if ended is not None:
                while waiting and waiting[len(waiting) - 1][1] <= last:
                    ended.add(waiting.pop()[0])
                if attributes & CONTROL and ends_in_abort(at, size):
                    ended.discard(producer)
            if last >= start and not attributes & CONTROL and not (
                ended and attributes & TRANSACTIONAL and producer in ended
            ):
                if attributes & COMPRESSION:
                    section = decompress(attributes & COMPRESSION, data[place + batch.HEADER:place + size])
                    self._add_section(at, section, topic, partition, start)
                elif size > batch.HEADER:
                    self._add_section(at, data[place + batch.HEADER:place + size], topic, partition, start)
            if last + 1 > self.position:
                self.position = last + 1
            place += size
            left -= size

    cdef int _add_section(
        self, const uint8_t* header, const uint8_t[::1] section, int32_t topic, int32_t partition, int64_t start
    ) except -1:
        cdef int32_t count = batch.get_int32(header + batch.COUNT)
        cdef Py_ssize_t size = section.shape[0]
        cdef int64_t rows = self.rows, header_rows = self.header_rows
        cdef int64_t key_nulls = self.keys.nulls, value_nulls = self.values.nulls
        cdef int64_t header_nulls = self.header_values.nulls
        cdef Py_ssize_t keys = self.keys.content.size, values = self.values.content.size
        cdef Py_ssize_t names = self.header_names.content.size, contents = self.header_values.content.size
        cdef Py_ssize_t index = 0
        cdef Py_ssize_t code
        if count < 0 or count > size // RECORD_SIZE_MIN:
            raise BadRecord(f"the batch announces {count} records, which its size cannot hold")
        if count == 0:
            return 0
        if size > INT32_MAX - max(keys, values, max(names, contents)) or rows + count > INT32_MAX:
            raise OverflowError("more than 2 GiB in one column: take fewer records at a time")
        self.keys.reserve(count, size)
        self.values.reserve(count, size)
        self.topics.reserve(4 * count)
        self.partitions.reserve(4 * count)
        self.offsets.reserve(8 * count)
        self.timestamps.reserve(8 * count)
        self.header_offsets.reserve(4 * count)
        code = self._records(header, &section[0], size, count, topic, partition, start, &index)
        if code < 0:
            self.rows, self.header_rows = rows, header_rows
            self.keys.cut(rows, keys, key_nulls)
            self.values.cut(rows, values, value_nulls)
            self.header_names.cut(header_rows, names, 0)
            self.header_values.cut(header_rows, contents, header_nulls)
            self.topics.size = self.partitions.size = 4 * rows
            self.offsets.size = self.timestamps.size = 8 * rows
            self.header_offsets.size = 4 * (rows + 1)
            raise BadRecord(f"record {index} of {count} cannot be read: the batch is damaged", index)
        return 0

    cdef Py_ssize_t _records(
        self, const uint8_t* header, const uint8_t* data, Py_ssize_t size, int32_t count, int32_t topic,
        int32_t partition, int64_t start, Py_ssize_t* index,
    ) except? -100:
        """0, or the negative code of what is wrong with record `index`."""
        cdef int64_t base_offset = batch.get_int64(header)
        cdef int64_t base_timestamp = batch.get_int64(header + batch.BASE_TIMESTAMP)
        cdef int64_t append_time = batch.get_int64(header + batch.MAX_TIMESTAMP)
        cdef bint appended = batch.get_int16(header + batch.ATTRIBUTES) & APPEND_TIME
        cdef Cut cut
        cdef Py_ssize_t at = 0
        cdef int64_t offset
        cdef int32_t i
        for i in range(count):
            index[0] = i
            at = cut_record(data, at, size, &cut, True)
            if at < 0:
                return at
            offset = base_offset + cut.offset_delta
            if offset < start:
                continue
            self.keys.put(self.rows, data + cut.key, cut.key_size)
            self.values.put(self.rows, data + cut.value, cut.value_size)
            put_int32(self.topics, topic)
            put_int32(self.partitions, partition)
            put_int64(self.offsets, offset)
            put_int64(
                self.timestamps, append_time if appended else wrapping_add(base_timestamp, cut.timestamp_delta)
            )
            if cut.header_count:
                self._headers(data, cut.headers, cut.end, cut.header_count)
            put_int32(self.header_offsets, <int32_t>self.header_rows)
            self.rows += 1
        return 0 if at == size else -1

    cdef int _headers(self, const uint8_t* data, Py_ssize_t at, Py_ssize_t end, int32_t count) except -1:
        """Only for headers that `cut_record` has been through."""
        cdef Py_ssize_t name = 0, name_size = 0, value = 0, value_size = 0
        cdef bytes replaced
        cdef int32_t i
        # An invalid byte of a name becomes three, at most.
        self.header_names.reserve(count, 3 * (end - at))
        self.header_values.reserve(count, end - at)
        for i in range(count):
            at = skip_bytes(data, at, end, &name, &name_size)
            at = skip_bytes(data, at, end, &value, &value_size)
            if is_ascii(data + name, name_size):
                self.header_names.put(self.header_rows, data + name, name_size)
            else:
                replaced = PyUnicode_DecodeUTF8(<const char*>data + name, name_size, b"replace").encode()
                self.header_names.put(
                    self.header_rows, <const uint8_t*>PyBytes_AS_STRING(replaced), PyBytes_GET_SIZE(replaced)
                )
            self.header_values.put(self.header_rows, data + value, value_size)
            self.header_rows += 1
        return 0


cdef inline bint is_ascii(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        if data[i] >= 0x80:
            return False
    return True


cdef inline bint whole(const uint8_t* at, int64_t size) noexcept nogil:
    return <uint32_t>batch.get_int32(at + batch.CRC) == crc32c_update(0, at + batch.ATTRIBUTES, size - batch.ATTRIBUTES)


cdef bint ends_in_abort(const uint8_t* at, int64_t size) noexcept nogil:
    """A control batch: its one record's key is a version and a type."""
    cdef Cut cut
    if cut_record(at + batch.HEADER, 0, size - batch.HEADER, &cut, False) < 0 or cut.key_size < 4:
        return False
    return batch.get_int16(at + batch.HEADER + cut.key + 2) == MARKER_ABORT
