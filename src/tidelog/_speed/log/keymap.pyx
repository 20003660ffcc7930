"""The last offset of every key in a stretch of a log, in a bounded amount of memory.

Keys are kept as 128 bits of a hash whose seed nobody outside knows, in an open-addressing table of 24-byte slots.
Two of n keys share a hash with a chance of n*n / 2**129: 4e-26 for five million keys."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free


cdef extern from "siphash.h":
    void siphash128(
        uint64_t key_low, uint64_t key_high, const uint8_t* data, size_t size, uint64_t* low, uint64_t* high
    ) nogil


cdef extern from *:
    """
    /* The slot that a hash falls into, for a table of any size. */
    static inline size_t slot_of(uint64_t hash, size_t room) {
        return (size_t)(((unsigned __int128)hash * room) >> 64);
    }
    """
    size_t slot_of(uint64_t hash, size_t capacity) nogil


cdef enum:
    ROOM_FIRST = 1024


cdef class KeyMap:
    def __cinit__(self, size_t memory_bytes, bytes seed):
        if len(seed) != 16:
            raise ValueError(f"the seed has 16 bytes, not {len(seed)}")
        if memory_bytes < 4 * sizeof(Slot):
            raise ValueError(f"{memory_bytes} bytes are too few for a map of keys")
        self._key_low = int.from_bytes(seed[:8], "little")
        self._key_high = int.from_bytes(seed[8:], "little")
        self._capacity_max = memory_bytes // sizeof(Slot)
        self._capacity = min(<size_t>ROOM_FIRST, self._capacity_max)
        self._slots = <Slot*>calloc(self._capacity, sizeof(Slot))
        if self._slots == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self._slots)

    def __len__(self):
        return self.count

    @property
    def memory_bytes(self):
        return self._capacity * sizeof(Slot)

    def get(self, const uint8_t[::1] key):
        return self.last_offset(&key[0] if key.shape[0] else <const uint8_t*>b"", key.shape[0])

    def put(self, const uint8_t[::1] key, int64_t offset):
        return self.note(&key[0] if key.shape[0] else <const uint8_t*>b"", key.shape[0], offset)

    def fingerprint(self, const uint8_t[::1] key):
        """What stands for a key in here, so that a test can hold it against the plain hash."""
        cdef uint64_t low
        cdef uint64_t high
        siphash128(
            self._key_low, self._key_high, &key[0] if key.shape[0] else <const uint8_t*>b"", key.shape[0], &low, &high
        )
        return int(low).to_bytes(8, "little") + int(high).to_bytes(8, "little")

    cdef Slot* _find(self, const uint8_t* key, size_t size) noexcept nogil:
        """The key's slot, or the empty one where it belongs; there is always an empty one."""
        cdef uint64_t low
        cdef uint64_t high
        cdef size_t at
        siphash128(self._key_low, self._key_high, key, size, &low, &high)
        at = slot_of(high, self._capacity)
        while self._slots[at].after and (self._slots[at].low != low or self._slots[at].high != high):
            at = at + 1 if at + 1 < self._capacity else 0
        if self._slots[at].after == 0:
            self._slots[at].low = low
            self._slots[at].high = high
        return self._slots + at

    cdef bint _grow(self) noexcept nogil:
        """To twice the room, old and new together within the bound; false when there is no more."""
        cdef size_t capacity = min(2 * self._capacity, self._capacity_max - self._capacity)
        cdef Slot* slots
        cdef size_t i
        cdef size_t at
        if capacity < self._capacity + self._capacity // 4:
            return False
        slots = <Slot*>calloc(capacity, sizeof(Slot))
        if slots == NULL:
            return False
        for i in range(self._capacity):
            if self._slots[i].after:
                at = slot_of(self._slots[i].high, capacity)
                while slots[at].after:
                    at = at + 1 if at + 1 < capacity else 0
                slots[at] = self._slots[i]
        free(self._slots)
        self._slots = slots
        self._capacity = capacity
        return True

    cdef int64_t last_offset(self, const uint8_t* key, size_t size) noexcept nogil:
        """-1 for a key that was never noted."""
        return self._find(key, size).after - 1

    cdef bint note(self, const uint8_t* key, size_t size, int64_t offset) noexcept nogil:
        """False, and nothing noted, when the key is new and the map is full."""
        cdef Slot* slot = self._find(key, size)
        if slot.after == 0:
            # Three quarters full is as far as probing stays short.
            if 4 * (self.count + 1) > 3 * self._capacity:
                if not self._grow():
                    return False
                slot = self._find(key, size)
            self.count += 1
        slot.after = offset + 1
        return True
