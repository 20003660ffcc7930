"""Memory of large buffers, kept for the next ones: fresh pages cost more than what is written into them.

What is kept is bounded, in number and bytes; the oldest goes first.  The GIL is the lock."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memmove

cdef enum:
    STEP = 256 << 10
    SPARES = 12
    SPARE_BYTES_MAX = 32 << 20

cdef uint8_t* spares[SPARES]
cdef Py_ssize_t spare_capacities[SPARES]
cdef int spare_count = 0
cdef Py_ssize_t spare_bytes = 0


cdef void forget(int at) noexcept:
    """The order of the others stays: the oldest is the first."""
    global spare_count, spare_bytes
    spare_bytes -= spare_capacities[at]
    spare_count -= 1
    memmove(&spares[at], &spares[at + 1], (spare_count - at) * sizeof(spares[0]))
    memmove(&spare_capacities[at], &spare_capacities[at + 1], (spare_count - at) * sizeof(spare_capacities[0]))


cdef Py_ssize_t take_spare(Py_ssize_t capacity, uint8_t** taken) noexcept:
    """Memory of this size or somewhat more, and how much it is; 0 when there is none."""
    cdef Py_ssize_t size
    cdef int i
    # The last one given back is the one that a cache still holds.
    for i in range(spare_count - 1, -1, -1):
        size = spare_capacities[i]
        if capacity <= size <= 4 * capacity:
            taken[0] = spares[i]
            forget(i)
            return size
    return 0


cdef void give_spare(uint8_t* data, Py_ssize_t capacity) noexcept:
    global spare_count, spare_bytes
    if capacity < LARGE or capacity > SPARE_BYTES_MAX // 2:
        free(data)
        return
    while spare_count == SPARES or spare_bytes + capacity > SPARE_BYTES_MAX:
        free(spares[0])
        forget(0)
    spares[spare_count] = data
    spare_capacities[spare_count] = capacity
    spare_count += 1
    spare_bytes += capacity


cdef class PooledBuffer:
    """Memory to write into; others get it when nobody refers to this any more."""

    def __cinit__(self, Py_ssize_t size):
        cdef Py_ssize_t capacity
        if size < 0:
            raise ValueError(f"room for {size} bytes")
        # Sizes differ a little from one answer to the next, and should fit into the same memory.
        capacity = size if size < LARGE else (size + STEP - 1) // STEP * STEP
        self.capacity = take_spare(capacity, &self.data) if capacity >= LARGE else 0
        if not self.capacity:
            self.data = <uint8_t*>malloc(max(capacity, 1))
            if self.data == NULL:
                raise MemoryError()
            self.capacity = capacity
        self.size = size

    def __dealloc__(self):
        give_spare(self.data, self.capacity)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 0, flags)


def kept():
    """How many buffers are kept, and their bytes."""
    return spare_count, spare_bytes
