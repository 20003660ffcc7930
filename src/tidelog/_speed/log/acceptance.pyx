"""The common case of a producer's batch, judged in one call: sound, or to be looked at closely.

`replication.acceptance` has the rules, with an error for each.  What passes here passes there; a property test holds
the two against each other."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from tidelog._speed.log.batch cimport (
    ATTRIBUTES,
    CRC,
    HEADER,
    Header,
    batch_size,
    get_int32,
    read_header,
)
from tidelog._speed.log.crc32c cimport crc32c_update, crc_prepare
from tidelog._speed.log.records cimport RECORD_SIZE_MIN, RecordsSummary, check_loop


crc_prepare()

cdef enum:
    CODEC_BITS = 0x07
    CODEC_LAST = 4
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20


def sound(const uint8_t[::1] data, int64_t batch_bytes_max, int64_t timestamp_max):
    """The header of the one batch in `data` when nothing is wrong with it; None when a closer look is needed."""
    if data.shape[0] < HEADER:
        return None
    return sound_header(&data[0], data.shape[0], batch_bytes_max, timestamp_max)


cdef Header sound_header(const uint8_t* start, Py_ssize_t size, int64_t batch_bytes_max, int64_t timestamp_max):
    cdef Header header
    cdef RecordsSummary summary
    if size < HEADER or size > batch_bytes_max:
        return None
    if batch_size(start, size) != size:
        return None
    header = read_header(start, 0, size)
    if (
        header.magic != 2
        or header.count <= 0
        or header.last_offset_delta != header.count - 1
        or header.base_offset != 0
        or header.attributes & (CONTROL | TRANSACTIONAL | LOG_APPEND_TIME)
        or header.attributes & CODEC_BITS > CODEC_LAST
        or (header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0))
        or <uint32_t>get_int32(start + CRC) != crc32c_update(0, start + ATTRIBUTES, size - ATTRIBUTES)
    ):
        return None
    if header.attributes & CODEC_BITS:
        return header if header.max_timestamp <= timestamp_max else None
    if header.count > (size - HEADER) // RECORD_SIZE_MIN:
        return None
    if check_loop(start + HEADER, size - HEADER, header.count, False, &summary):
        return None
    if summary.max_delta > timestamp_max - header.base_timestamp and header.base_timestamp >= 0:
        return None
    if header.base_timestamp < 0 and header.base_timestamp + summary.max_delta > timestamp_max:
        return None
    if header.max_timestamp != header.base_timestamp + summary.max_delta:
        return None
    header.max_timestamp_at = <int>summary.max_offset_delta
    return header
