from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    BASE_OFFSET = 0
    LENGTH = 8
    EPOCH = 12
    MAGIC = 16
    CRC = 17
    ATTRIBUTES = 21
    LAST_DELTA = 23
    BASE_TIMESTAMP = 27
    MAX_TIMESTAMP = 35
    PRODUCER_ID = 43
    PRODUCER_EPOCH = 51
    BASE_SEQUENCE = 53
    COUNT = 57
    HEADER = 61
    PREFIX = 12

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline int16_t get_int16(const uint8_t* at) { uint16_t v; memcpy(&v, at, 2); return (int16_t)__builtin_bswap16(v); }
    static inline int32_t get_int32(const uint8_t* at) { uint32_t v; memcpy(&v, at, 4); return (int32_t)__builtin_bswap32(v); }
    static inline int64_t get_int64(const uint8_t* at) { uint64_t v; memcpy(&v, at, 8); return (int64_t)__builtin_bswap64(v); }
    static inline void put_int16(uint8_t* at, int16_t x) { uint16_t v = __builtin_bswap16((uint16_t)x); memcpy(at, &v, 2); }
    static inline void put_int32(uint8_t* at, int32_t x) { uint32_t v = __builtin_bswap32((uint32_t)x); memcpy(at, &v, 4); }
    static inline void put_int64(uint8_t* at, int64_t x) { uint64_t v = __builtin_bswap64((uint64_t)x); memcpy(at, &v, 8); }
    """
    int16_t get_int16(const uint8_t* at) nogil
    int32_t get_int32(const uint8_t* at) nogil
    int64_t get_int64(const uint8_t* at) nogil
    void put_int16(uint8_t* at, int16_t x) nogil
    void put_int32(uint8_t* at, int32_t x) nogil
    void put_int64(uint8_t* at, int64_t x) nogil

cdef class Header:
    cdef readonly Py_ssize_t position
    cdef readonly int64_t size
    cdef readonly int64_t base_offset
    cdef readonly int32_t leader_epoch
    cdef readonly int magic
    cdef readonly uint32_t crc
    cdef readonly int attributes
    cdef readonly int32_t last_offset_delta
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly int producer_epoch
    cdef readonly int32_t base_sequence
    cdef readonly int32_t count
    cdef readonly int32_t max_timestamp_at

cdef class BatchCheck:
    cdef readonly int64_t base
    cdef readonly int64_t position
    cdef readonly int64_t expected
    cdef readonly int64_t last_max
    cdef readonly bint index_fits
    cdef const uint8_t* _index_at
    cdef bytes _index
    cdef Py_ssize_t _entries
    cdef Py_ssize_t _entry
    cdef Py_ssize_t walk(self, const uint8_t* data, Py_ssize_t left) noexcept nogil
    cdef void step(self, int64_t first, int64_t last, int64_t size) noexcept nogil

cdef Header read_header(const uint8_t* data, Py_ssize_t at, int64_t size)
cdef int64_t batch_size(const uint8_t* data, Py_ssize_t left) noexcept nogil
