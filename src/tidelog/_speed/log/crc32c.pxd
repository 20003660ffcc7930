from libc.stdint cimport uint8_t, uint32_t


cdef extern from "crc32c.h":
    void crc_prepare()  # a module that computes checksums calls it once, when it is imported
    uint32_t crc32c_update(uint32_t value, const uint8_t* data, size_t size) nogil
    uint32_t crc_by_table(uint32_t crc, const uint8_t* data, size_t size) nogil
