from libc.stdint cimport uint8_t

cdef void seal_batch(uint8_t* at, Py_ssize_t size) noexcept nogil
