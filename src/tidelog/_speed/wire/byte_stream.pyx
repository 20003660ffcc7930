"""A non-blocking stream of bytes: a socket of the system, read and written natively, or an object with its methods (TLS)."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno


cdef extern from "<sys/socket.h>":
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL
        MSG_MORE
    ssize_t recv(int fd, void* data, size_t size, int flags)
    ssize_t send(int fd, const void* data, size_t size, int flags)


cdef class ByteStream:
    def __init__(self, sock):
        self.sock = sock
        self.fd = sock.fileno()
        # Sockets of the system are read and written by their descriptor; others through their methods.
        self.native = type(sock).__module__ == "socket"
        self.buffers = hasattr(sock, "pending")

    cdef Py_ssize_t receive(self, bytearray into, Py_ssize_t at, Py_ssize_t size_max) except -2:
        """Bytes received; 0 when there are none now; -1 when the stream is over."""
        cdef Py_ssize_t got = 0
        if self.native:
            got = recv(self.fd, <char*>into + at, size_max, MSG_DONTWAIT)
            if got < 0:
                if errno == EAGAIN or errno == EINTR:
                    return 0
                return -1
        else:
            try:
                with memoryview(into) as view:
                    got = self.sock.recv_into(view[at:at + size_max])
            except (BlockingIOError, InterruptedError):
                return 0
            except OSError:
                return -1
        return got if got > 0 else -1

    cdef Py_ssize_t write(self, bytes piece, Py_ssize_t at, bint more) except -2:
        """Bytes that the stream has taken, or -1 when it takes none now."""
        cdef Py_ssize_t moved
        if not self.native:
            return self.sock.send(memoryview(piece)[at:] if at else piece)
        moved = send(
            self.fd,
            PyBytes_AS_STRING(piece) + at,
            PyBytes_GET_SIZE(piece) - at,
            MSG_DONTWAIT | MSG_NOSIGNAL | (MSG_MORE if more else 0),
        )
        if moved < 0:
            if errno == EAGAIN or errno == EINTR:
                return -1
            raise OSError(errno, "send failed")
        return moved
