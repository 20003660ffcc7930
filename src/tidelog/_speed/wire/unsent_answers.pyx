"""Answers of one connection that its socket has not taken yet, bytes and slices of files, in the order of the requests."""

from collections import deque

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from tidelog._speed.wire.byte_stream cimport ByteStream
from tidelog._speed.wire.queued_bytes cimport QueuedBytes


cdef enum:
    TURN_BYTES = 1 << 20  # what one connection may write before the others get their turn
    PIECES_MAX = 64  # pieces waiting to be written before reading pauses
    MEMORY_MAX = 1 << 20  # the same for their bytes, without those of file slices


cdef class UnsentAnswers:
    def __init__(self, QueuedBytes queued):
        self.queued = queued
        self.pieces = deque()

    cdef bint is_full(self) except -1:
        return len(self.pieces) >= PIECES_MAX or self.memory >= MEMORY_MAX

    cdef int64_t put(self, answer) except -1:
        """Takes a whole frame, or its pieces; their size."""
        cdef int64_t size = 0
        if type(answer) is bytes:
            size = PyBytes_GET_SIZE(answer)
            if size:
                self.pieces.append(answer)
                self.take(size)
            return size
        for piece in <list?>answer:
            if type(piece) is bytes:
                size += PyBytes_GET_SIZE(piece)
                self.take(PyBytes_GET_SIZE(piece))
            else:
                size += <int64_t>piece.size
        self.pieces.extend(answer)
        return size

    cdef void take(self, Py_ssize_t more) noexcept:
        """Answers that wait for the client to read take so much more memory."""
        self.memory += more
        self.queued.unsent += more

    cdef int count_in(self, QueuedBytes queued) except -1:
        """From now on the memory counts in `queued`."""
        self.queued.unsent -= self.memory
        self.queued = queued
        queued.unsent += self.memory
        return 0

    cdef int clear(self) except -1:
        self.pieces.clear()
        self.take(-self.memory)
        return 0

    cdef Py_ssize_t write(self, ByteStream stream) except -1:
        """Bytes that the stream has taken in one turn."""
        cdef Py_ssize_t turn = 0
        cdef Py_ssize_t moved, size
        pieces = self.pieces
        try:
            while pieces and turn < TURN_BYTES:
                piece = pieces[0]
                if type(piece) is bytes:
                    size = PyBytes_GET_SIZE(piece)
                    moved = stream.write(piece, self.sent_of_first, len(pieces) > 1)
                else:
                    size = piece.size
                    moved = piece.send(stream.sock, self.sent_of_first)
                    if moved == 0 and size > self.sent_of_first:
                        raise ConnectionError("a file slice ended before its size")
                if moved < 0:
                    break
                turn += moved
                self.sent_of_first += moved
                if self.sent_of_first < size:
                    continue
                pieces.popleft()
                if type(piece) is bytes:
                    self.take(-size)
                self.sent_of_first = 0
        except (BlockingIOError, InterruptedError):
            pass
        return turn
