cdef class ByteStream:
    cdef object sock
    cdef int fd
    cdef bint native
    cdef bint buffers  # the stream may have bytes that make no descriptor readable
    cdef Py_ssize_t receive(self, bytearray into, Py_ssize_t at, Py_ssize_t size_max) except -2
    cdef Py_ssize_t write(self, bytes piece, Py_ssize_t at, bint more) except -2
