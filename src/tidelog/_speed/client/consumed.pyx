"""Records as a consumer hands them out, made natively: one object per record, its key and value copied out of
the batch, nothing done in Python on the way.

`read` works on the decompressed records section of one batch.  Bytes that cannot be read are met by
`tidelog._speed.log.records.read`, which says what is wrong with them."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog._speed.log.records cimport RECORD_SIZE_MIN, Cut, cut_record, headers_of, slice_of, wrapping_add

from tidelog._speed.log.records import read as explain

CREATE = "create"
APPEND = "append"


# Without garbage collection: a record refers to bytes and strings, so no cycle can run through it unless a
# deserializer builds one on purpose, and the collector would walk every record that is alive.
@cython.no_gc
@cython.freelist(1024)
cdef class Record:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef readonly str timestamp_type
    cdef readonly object key
    cdef readonly object value
    cdef readonly tuple headers
    cdef readonly int32_t leader_epoch
    cdef readonly int32_t delivery_count

    __match_args__ = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")

    def __init__(
        self,
        str topic,
        int32_t partition,
        int64_t offset,
        int64_t timestamp,
        str timestamp_type,
        key,
        value,
        headers=(),
        int32_t leader_epoch=-1,
        int32_t delivery_count=0,
    ):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = tuple(headers)
        self.leader_epoch = leader_epoch
        self.delivery_count = delivery_count

    cdef tuple fields(self):
        return (
            self.topic, self.partition, self.offset, self.timestamp, self.timestamp_type,
            self.key, self.value, self.headers,
        )

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        return self.fields() == (<Record>other).fields()

    def __hash__(self):
        return hash((self.topic, self.partition, self.offset))

    def __reduce__(self):
        return Record, (*self.fields(), self.leader_epoch, self.delivery_count)

    def __repr__(self):
        return (
            f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, timestamp_type={self.timestamp_type!r}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )


def read(
    const uint8_t[::1] data,
    int32_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    append_timestamp,
    str topic,
    int32_t partition,
    int64_t start,
    int32_t leader_epoch,
):
    cdef Cut cut
    cdef const uint8_t* from_ = &data[0] if data.shape[0] else <const uint8_t*>b""
    cdef Py_ssize_t size = data.shape[0]
    cdef Py_ssize_t at = 0
    cdef bint appended = append_timestamp is not None
    cdef int64_t append_time = append_timestamp if appended else 0
    cdef str kind = APPEND if appended else CREATE
    cdef tuple none = ()
    cdef Record record
    cdef list records = []
    cdef int32_t i
    if count < 0 or count > size // RECORD_SIZE_MIN:
        explain(data, count, base_offset, base_timestamp)
    for i in range(count):
        at = cut_record(from_, at, size, &cut, True)
        if at < 0:
            break
        if base_offset + cut.offset_delta < start:
            continue
        record = Record.__new__(Record)
        record.topic = topic
        record.partition = partition
        record.offset = base_offset + cut.offset_delta
        record.timestamp = append_time if appended else wrapping_add(base_timestamp, cut.timestamp_delta)
        record.timestamp_type = kind
        record.key = slice_of(from_, cut.key, cut.key_size)
        record.value = slice_of(from_, cut.value, cut.value_size)
        record.headers = headers_of(from_, cut.headers, cut.end, cut.header_count) if cut.header_count else none
        record.leader_epoch = leader_epoch
        records.append(record)
    if at != size:
        explain(data, count, base_offset, base_timestamp)
    return records


def delivered(list records, int32_t count):
    """Sets the delivery count of records that nobody else has seen yet."""
    cdef Record record
    for record in records:
        record.delivery_count = count


def convert(list records, key, value):
    cdef Record record
    cdef Py_ssize_t count = 0
    try:
        for record in records:
            new_key, new_value = record.key, record.value
            if key is not None and new_key is not None:
                new_key = key(record.topic, new_key, True)
            if value is not None and new_value is not None:
                new_value = value(record.topic, new_value, False)
            # Both or neither: a record that was refused may be tried again.
            record.key, record.value = new_key, new_value
            count += 1
    except Exception as problem:
        return count, problem
    return count, None
