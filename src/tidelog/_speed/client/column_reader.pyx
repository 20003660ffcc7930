"""Fetched batches read into columns: buffers in the layout that Arrow has for them.

Each column is a growing block of memory that becomes a buffer when all is read.  Room is made for a whole batch before
its records are read, so the loop over them allocates nothing; a batch that is damaged leaves no trace."""

from operator import itemgetter

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from tidelog._speed.log.crc32c cimport crc32c_update, crc_prepare
from tidelog._speed.log cimport batch
from tidelog._speed.log.records cimport RECORD_SIZE_MIN, Cut, cut_record, skip_bytes, wrapping_add
from tidelog._speed.log.pooled_buffer cimport LARGE, PooledBuffer, give_spare, take_spare

from tidelog._speed.log.records import BadRecord
from tidelog.errors import CorruptMessage, InvalidRecord

crc_prepare()

cdef enum:
    MARKER_ABORT = 0
    COMPRESSION = 0x07
    APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20

cdef enum:
    CHECK_BYTES = 3 * 4096  # three streams of the instruction's longest run


cdef enum:
    SLACK = 32  # what a copy in steps may write behind its end
    HEADERS_AHEAD = 512

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Copies `size` bytes to lower or other memory; up to SLACK more may be written behind them, and read as far as
       `end` allows.  Calling memmove for each of many short values would cost more than moving them. */
    static inline void put_short(uint8_t* to, const uint8_t* from, ptrdiff_t size, const uint8_t* end) {
        if (size > 256 || end - from < size + 32) {
            memmove(to, from, (size_t)size);
            return;
        }
        for (ptrdiff_t at = 0; at < size; at += 32) {
            uint8_t piece[32];
            memcpy(piece, from + at, 32);
            memcpy(to + at, piece, 32);
        }
    }
    static inline int is_ascii(const uint8_t* data, ptrdiff_t size) {
        uint64_t word, all = 0;
        for (; size >= 8; data += 8, size -= 8) {
            memcpy(&word, data, 8);
            all |= word;
        }
        for (; size > 0; data++, size--) all |= *data;
        return !(all & 0x8080808080808080ull);
    }
    """
    void put_short(uint8_t* to, const uint8_t* from_, Py_ssize_t size, const uint8_t* end) noexcept nogil
    bint is_ascii(const uint8_t* data, Py_ssize_t size) noexcept nogil


cdef class Block:
    """Memory that grows, then is read as a buffer."""

    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef Py_ssize_t _views
    cdef bint _borrowed
    cdef PooledBuffer _owner

    def __dealloc__(self):
        if not self._borrowed:
            give_spare(self.data, self.capacity)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data if self.data != NULL else <uint8_t*>b"", self.size, 1, flags)
        self._views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self._views -= 1

    cdef int reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t capacity = self.size + more
        cdef Py_ssize_t taken = 0
        cdef uint8_t* data = NULL
        if capacity <= self.capacity:
            return 0
        if self._views:
            raise BufferError("the column is in use already")
        capacity = max(capacity, self.capacity + (self.capacity >> 1), 256)
        if capacity >= LARGE and (self._borrowed or self.capacity < LARGE):
            taken = take_spare(capacity, &data)
        if taken or self._borrowed:
            if not taken:
                data = <uint8_t*>malloc(capacity)
                if data == NULL:
                    raise MemoryError()
            memcpy(data, self.data, self.size if self.data != NULL else 0)
            capacity = max(taken, capacity)
            if self._borrowed:
                self._borrowed = False
                self._owner = None
            else:
                free(self.data)
        else:
            data = <uint8_t*>realloc(self.data, capacity)
            if data == NULL:
                raise MemoryError()
        self.data = data
        self.capacity = capacity
        return 0

    cdef int borrow(self, PooledBuffer owner) except -1:
        """Goes on in the memory of `owner`; only while it is empty."""
        assert self.size == 0 and not self._views
        if not self._borrowed:
            give_spare(self.data, self.capacity)
        self.data = owner.data
        self.capacity = owner.size
        self._owner = owner
        self._borrowed = True
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

    cdef int reserve(self, int64_t rows, int64_t count, Py_ssize_t content) except -1:
        """For `count` more than the `rows` there are; none of them is null until that is said."""
        cdef Py_ssize_t valid_bytes = (rows + 7) >> 3
        cdef Py_ssize_t wanted = (rows + count + 7) >> 3
        self.offsets.reserve(4 * count)
        self.content.reserve(content + SLACK)
        self.valid.size = valid_bytes
        self.valid.reserve(wanted - valid_bytes)
        if rows & 7:
            self.valid.data[rows >> 3] |= <uint8_t>(0xFF << (rows & 7))
        memset(self.valid.data + valid_bytes, 0xFF, wanted - valid_bytes)
        return 0

    cdef inline void put(self, int64_t row, const uint8_t* data, Py_ssize_t size, const uint8_t* end) noexcept nogil:
        cdef uint8_t* flags
        if size >= 0:
            put_short(self.content.data + self.content.size, data, size, end)
            self.content.size += size
        else:
            flags = self.valid.data + (row >> 3)
            flags[0] &= <uint8_t>(0xFF ^ (1 << (row & 7)))
            self.nulls += 1
        (<int32_t*>(self.offsets.data + self.offsets.size))[0] = <int32_t>self.content.size
        self.offsets.size += 4

    cdef void cut(self, int64_t rows, Py_ssize_t content, int64_t nulls) noexcept:
        """Back to how it was."""
        self.offsets.size = 4 * (rows + 1)
        self.content.size = content
        self.nulls = nulls
        self.ended(rows)

    cdef void ended(self, int64_t rows) noexcept:
        self.valid.size = (rows + 7) >> 3

    def buffers(self):
        return (self.valid if self.nulls else None), self.offsets, self.content, self.nulls


cdef inline void put_int32(Block block, int32_t value) noexcept nogil:
    (<int32_t*>(block.data + block.size))[0] = value
    block.size += 4


cdef void fill_int32(Block block, int32_t value, int64_t count) noexcept nogil:
    cdef int32_t* at = <int32_t*>(block.data + block.size)
    cdef int64_t i
    for i in range(count):
        at[i] = value
    block.size += 4 * count


cdef struct Section:
    # The records of one batch, what its header says (which may be overwritten before the last of them is read), and
    # the checksum as far as it has been taken.
    const uint8_t* data
    Py_ssize_t size
    int64_t base_offset, base_timestamp, max_timestamp
    int32_t count
    int attributes
    bint checks
    uint32_t crc, crc_wanted
    Py_ssize_t checked


cdef Section section_of(const uint8_t* at, int64_t size, bint checks) noexcept nogil:
    cdef Section section
    section.data = at + batch.HEADER
    section.size = size - batch.HEADER
    section.base_offset = batch.get_int64(at)
    section.base_timestamp = batch.get_int64(at + batch.BASE_TIMESTAMP)
    section.max_timestamp = batch.get_int64(at + batch.MAX_TIMESTAMP)
    section.count = batch.get_int32(at + batch.COUNT)
    section.attributes = batch.get_int16(at + batch.ATTRIBUTES)
    section.checks = checks
    section.crc_wanted = <uint32_t>batch.get_int32(at + batch.CRC)
    section.crc = crc32c_update(0, at + batch.ATTRIBUTES, batch.HEADER - batch.ATTRIBUTES)
    section.checked = 0 if checks else section.size
    return section


cdef struct Mark:
    # How far the columns were filled.
    int64_t rows, header_rows
    int64_t key_nulls, value_nulls, header_nulls
    Py_ssize_t keys, values, names, contents, longest


cdef inline void check_to(Section* section, Py_ssize_t end) noexcept nogil:
    """Takes the checksum further, at least to `end`: shortly before the bytes are read anyway."""
    cdef Py_ssize_t step
    while section.checked < end:
        step = min(CHECK_BYTES, section.size - section.checked)
        section.crc = crc32c_update(section.crc, section.data + section.checked, step)
        section.checked += step


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
    cdef bint _moving
    cdef int64_t _header_room

    def __cinit__(self):
        self.keys, self.values = Bytes(), Bytes()
        self.header_names, self.header_values = Bytes(), Bytes()
        self.topics, self.partitions = Block(), Block()
        self.offsets, self.timestamps, self.header_offsets = Block(), Block(), Block()
        self.header_offsets.reserve(4)
        put_int32(self.header_offsets, 0)
        self.position = -1

    def add(
        self, data, int32_t topic, int32_t partition, int64_t start, decompress, aborted=(), bint check_crc=True,
        bint in_place=False,
    ):
        """Every whole batch in `data`, from offset `start` on; `position` is then the offset to go on with.

        `aborted`: (producer id, first offset) of transactions whose records are left out.  What is damaged raises, and
        stays out with all that follows it.  `in_place`: nobody needs `data` any more; where it is a `PooledBuffer`'s, values
        are moved together in there instead of being copied."""
        cdef const uint8_t[::1] view = data
        cdef const uint8_t* at
        cdef Py_ssize_t left = view.shape[0]
        cdef Py_ssize_t place = 0
        cdef int64_t size, base, last, producer
        cdef int attributes
        cdef Section section
        self._make_room(data, view, in_place)
        waiting = sorted(aborted, key=itemgetter(1), reverse=True) if aborted else None
        ended = set() if aborted else None
        self.position = start
        while left >= batch.HEADER:
            at = &view[place]
            size = batch.batch_size(at, left)
            base = batch.get_int64(at)
            if size < 0:
                raise CorruptMessage(f"no record batch at byte {place}: the length field is impossible")
            if at[batch.MAGIC] != 2:
                raise InvalidRecord(f"the batch at offset {base} has format {at[batch.MAGIC]}, not 2")
            if size > left:
                break
            section = section_of(at, size, check_crc)
            attributes = section.attributes
            last = base + batch.get_int32(at + batch.LAST_DELTA)
            producer = batch.get_int64(at + batch.PRODUCER_ID)
            # Records that are read here and now are checked on the way; everything else is before it is looked at.
            if attributes & (COMPRESSION | CONTROL) or ended is not None or last < start or section.size == 0:
                whole(&section)
            if ended is not None:
                while waiting and waiting[len(waiting) - 1][1] <= last:
                    ended.add(waiting.pop()[0])
                if attributes & CONTROL and ends_in_abort(at, size):
                    ended.discard(producer)
            if last >= start and not attributes & CONTROL and not (
                ended and attributes & TRANSACTIONAL and producer in ended
            ):
                if attributes & COMPRESSION:
                    self._add_compressed(
                        &section, decompress(attributes & COMPRESSION, view[place + batch.HEADER:place + size]),
                        topic, partition, start,
                    )
                elif size > batch.HEADER:
                    self._add_section(&section, topic, partition, start)
            if last + 1 > self.position:
                self.position = last + 1
            place += size
            left -= size

    cdef int _make_room(self, data, const uint8_t[::1] view, bint in_place) except -1:
        cdef Py_ssize_t left = view.shape[0]
        cdef Py_ssize_t place = 0
        cdef int64_t size
        self._moving = False
        if in_place and not self.rows and type(data) is memoryview and type(data.obj) is PooledBuffer:
            # Values only ever move down, by at least a batch's header: nothing is overwritten that was not read.  What
            # else is in the memory of an answer is nobody's: records stay there only where they are most of it
            # (`records_of`), so never those of two partitions.
            while left - place >= batch.HEADER:
                size = batch.batch_size(&view[place], left - place)
                if size < 0 or size > left - place:
                    break
                if batch.get_int16(&view[place + batch.ATTRIBUTES]) & COMPRESSION:
                    in_place = False  # more comes out than went in
                    break
                place += size
            if in_place:
                self.values.content.borrow(data.obj)
                self._moving = True
                return 0
        # What is not compressed needs no more than this, all in all.
        self.values.content.reserve(left + SLACK)
        return 0

    cdef int _add_compressed(
        self, Section* section, const uint8_t[::1] records, int32_t topic, int32_t partition, int64_t start
    ) except -1:
        section.data = &records[0] if records.shape[0] else NULL
        section.size = section.checked = records.shape[0]
        section.checks = False
        return self._add_section(section, topic, partition, start)

    cdef int _add_section(self, Section* section, int32_t topic, int32_t partition, int64_t start) except -1:
        cdef int32_t count = section.count
        cdef Py_ssize_t size = section.size
        cdef Mark mark = self._mark()
        cdef Py_ssize_t index = 0
        cdef Py_ssize_t code
        if count < 0 or count > size // RECORD_SIZE_MIN:
            whole(section)
            raise BadRecord(f"the batch announces {count} records, which its size cannot hold")
        if count == 0:
            whole(section)
            return 0
        if size > INT32_MAX - SLACK - mark.longest or mark.rows + count > INT32_MAX:
            raise OverflowError("more than 2 GiB in one column: take fewer records at a time")
        self.keys.reserve(mark.rows, count, size)
        # What moves down in its own memory has room there.
        self.values.reserve(mark.rows, count, -SLACK if self._moving else size)
        self.topics.reserve(4 * count)
        self.partitions.reserve(4 * count)
        self.offsets.reserve(8 * count)
        self.timestamps.reserve(8 * count)
        self.header_offsets.reserve(4 * count)
        try:
            code = self._records(section, count, start, &index)
        except BaseException:
            self._back_to(&mark)
            raise
        if code < 0 or (section.checks and not checksum_fits(section)):
            self._back_to(&mark)
        self.keys.ended(self.rows)
        self.values.ended(self.rows)
        fill_int32(self.topics, topic, self.rows - mark.rows)
        fill_int32(self.partitions, partition, self.rows - mark.rows)
        self.offsets.size = self.timestamps.size = 8 * self.rows
        whole(section)
        if code < 0:
            raise BadRecord(f"record {index} of {count} cannot be read: the batch is damaged", index)
        return 0

    cdef Mark _mark(self) noexcept:
        cdef Mark mark
        mark.rows, mark.header_rows = self.rows, self.header_rows
        mark.key_nulls, mark.value_nulls = self.keys.nulls, self.values.nulls
        mark.header_nulls = self.header_values.nulls
        mark.keys, mark.values = self.keys.content.size, self.values.content.size
        mark.names, mark.contents = self.header_names.content.size, self.header_values.content.size
        mark.longest = max(max(mark.keys, mark.values), max(mark.names, mark.contents))
        return mark

    cdef void _back_to(self, const Mark* mark) noexcept:
        """As if the records since then had not been met."""
        self.rows, self.header_rows = mark.rows, mark.header_rows
        self.keys.cut(mark.rows, mark.keys, mark.key_nulls)
        self.values.cut(mark.rows, mark.values, mark.value_nulls)
        self.header_names.cut(mark.header_rows, mark.names, 0)
        self.header_values.cut(mark.header_rows, mark.contents, mark.header_nulls)
        self.header_offsets.size = 4 * (mark.rows + 1)
        self._header_room = mark.header_rows  # what was null there is not any more

    cdef Py_ssize_t _records(self, Section* section, int32_t count, int64_t start, Py_ssize_t* index) except? -100:
        """0, or the negative code of what is wrong with record `index`."""
        cdef const uint8_t* data = section.data
        cdef Py_ssize_t size = section.size
        cdef const uint8_t* end = data + size
        cdef int64_t base_offset = section.base_offset
        cdef int64_t base_timestamp = section.base_timestamp
        cdef int64_t append_time = section.max_timestamp
        cdef bint appended = section.attributes & APPEND_TIME
        cdef int64_t* offsets = <int64_t*>self.offsets.data
        cdef int64_t* timestamps = <int64_t*>self.timestamps.data
        cdef Bytes keys = self.keys
        cdef Bytes values = self.values
        cdef int64_t row = self.rows
        cdef Cut cut
        cdef Py_ssize_t at = 0
        cdef int64_t offset
        cdef int32_t i
        for i in range(count):
            index[0] = i
            at = cut_record(data, at, size, &cut, True)
            if at < 0:
                return at
            if section.checked < at:
                check_to(section, at)
            offset = base_offset + cut.offset_delta
            if offset < start:
                continue
            keys.put(row, data + cut.key, cut.key_size, end)
            values.put(row, data + cut.value, cut.value_size, end)
            offsets[row] = offset
            timestamps[row] = append_time if appended else wrapping_add(base_timestamp, cut.timestamp_delta)
            if cut.header_count:
                self._headers(data, cut.headers, cut.end, cut.header_count, end)
            put_int32(self.header_offsets, <int32_t>self.header_rows)
            row += 1
            self.rows = row
        return 0 if at == size else -1

    cdef int _headers(
        self, const uint8_t* data, Py_ssize_t at, Py_ssize_t end, int32_t count, const uint8_t* data_end
    ) except -1:
        """Only for headers that `cut_record` has been through."""
        cdef Py_ssize_t name = 0, name_size = 0, value = 0, value_size = 0
        cdef bytes replaced
        cdef int32_t i
        # An invalid byte of a name becomes three, at most.
        cdef Py_ssize_t content = 3 * (end - at) + SLACK
        if (
            self.header_rows + count > self._header_room
            or self.header_names.content.size + content > self.header_names.content.capacity
            or self.header_values.content.size + content > self.header_values.content.capacity
        ):
            # For many rows at once: asking for each would cost more than the headers.
            self._header_room = self.header_rows + max(count, HEADERS_AHEAD)
            self.header_names.reserve(self.header_rows, max(count, HEADERS_AHEAD), 8 * content)
            self.header_values.reserve(self.header_rows, max(count, HEADERS_AHEAD), 8 * content)
        for i in range(count):
            at = skip_bytes(data, at, end, &name, &name_size)
            at = skip_bytes(data, at, end, &value, &value_size)
            if is_ascii(data + name, name_size):
                self.header_names.put(self.header_rows, data + name, name_size, data_end)
            else:
                replaced = PyUnicode_DecodeUTF8(<const char*>data + name, name_size, b"replace").encode()
                self.header_names.put(
                    self.header_rows, <const uint8_t*>PyBytes_AS_STRING(replaced), PyBytes_GET_SIZE(replaced),
                    <const uint8_t*>PyBytes_AS_STRING(replaced) + PyBytes_GET_SIZE(replaced),
                )
            self.header_values.put(self.header_rows, data + value, value_size, data_end)
            self.header_rows += 1
        self.header_values.ended(self.header_rows)
        self.header_names.ended(self.header_rows)
        return 0


cdef bint checksum_fits(Section* section) noexcept nogil:
    check_to(section, section.size)
    return section.crc == section.crc_wanted


cdef int whole(Section* section) except -1:
    """Raises unless the checksum fits; afterwards it counts as checked."""
    if section.checks:
        if not checksum_fits(section):
            raise CorruptMessage(f"the batch at offset {section.base_offset} fails its checksum")
        section.checks = False
    return 0


cdef bint ends_in_abort(const uint8_t* at, int64_t size) noexcept nogil:
    """A control batch: its one record's key is a version and a type."""
    cdef Cut cut
    if cut_record(at + batch.HEADER, 0, size - batch.HEADER, &cut, False) < 0 or cut.key_size < 4:
        return False
    return batch.get_int16(at + batch.HEADER + cut.key + 2) == MARKER_ABORT
