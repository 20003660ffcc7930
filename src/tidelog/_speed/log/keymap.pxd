from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t after  # the key's last offset plus one; 0 in an empty slot

cdef class KeyMap:
    cdef Slot* _slots
    cdef size_t _capacity
    cdef size_t _capacity_max
    cdef uint64_t _key_low
    cdef uint64_t _key_high
    cdef readonly size_t count

    cdef Slot* _find(self, const uint8_t* key, size_t size) noexcept nogil
    cdef bint _grow(self) noexcept nogil
    cdef int64_t last_offset(self, const uint8_t* key, size_t size) noexcept nogil
    cdef bint note(self, const uint8_t* key, size_t size, int64_t offset) noexcept nogil
