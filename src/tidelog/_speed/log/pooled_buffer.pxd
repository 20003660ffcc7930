"""Memory of large buffers, kept for the next ones."""

from libc.stdint cimport uint8_t

cdef enum:
    LARGE = 128 << 10  # what is smaller is the allocator's business

cdef Py_ssize_t take_spare(Py_ssize_t capacity, uint8_t** taken) noexcept
cdef void give_spare(uint8_t* data, Py_ssize_t capacity) noexcept


cdef class PooledBuffer:
    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
