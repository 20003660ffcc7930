"""The bound on the memory of requests, of all connections together: which connection reads on while memory is short."""

import asyncio

# While memory is short, the connection that may go on must receive this much in this time.
PATIENCE_S = 5.0
PROGRESS_BYTES = 1 << 16


cdef class RequestReader:
    """What the bound knows of a connection: the bytes that have arrived, and whether the connection waits for answers."""

    cdef int memory_is_free(self) except -1:
        """Reading goes on."""
        raise NotImplementedError

    cdef bint is_full(self) except -1:
        """True while the connection waits for answers, and so reads nothing."""
        raise NotImplementedError

    def refused(self, problem):
        raise NotImplementedError

    def close(self):
        raise NotImplementedError


cdef class QueuedBytes:
    """The memory of requests that have not wholly arrived, or wait for their handler, of all connections together.

    While that memory is `most` bytes or more, connections in the middle of a frame wait, all but the first one: so one
    frame exceeds the bound, and one frame always becomes whole.  A first connection that stops sending is closed."""

    def __init__(self, Py_ssize_t most):
        self.most = most
        self.waiting = {}

    @property
    def waiting_count(self):
        return len(self.waiting)

    def take(self, Py_ssize_t size):
        self.used += size

    def give_back(self, Py_ssize_t size):
        self.used -= size
        if self.waiting:
            self.wake_soon()

    cdef bint may_go_on(self, RequestReader reader) except -1:
        if self.used < self.most or self.first is reader:
            return True
        if self.first is not None or self.waiting:
            return False
        self.lead(reader)
        return True

    cdef int lead(self, RequestReader reader) except -1:
        """`reader` goes on, however much memory its request takes."""
        self.first = reader
        self.first_bytes = reader.bytes_in
        if self.timer is not None:
            self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(PATIENCE_S, self.on_time)
        return 0

    cdef int wait(self, RequestReader reader) except -1:
        self.waits += 1
        self.waiting[reader] = None
        return 0

    cdef int left(self, RequestReader reader) except -1:
        """The frame of `reader` is whole, or its connection is closed."""
        self.waiting.pop(reader, None)
        if self.first is reader:
            self.first = None
            self.timer.cancel()
        if self.waiting:
            self.wake_soon()
        return 0

    cdef int wake_soon(self) except -1:
        if not self.waking:
            self.waking = True
            asyncio.get_running_loop().call_soon(self.wake)
        return 0

    def wake(self):
        """All readers go on when memory is free, and the next one alone when none is in the middle of a frame."""
        cdef RequestReader reader
        self.waking = False
        if self.used >= self.most:
            if self.first is None and self.waiting:
                reader = next(iter(self.waiting))
                del self.waiting[reader]
                self.lead(reader)
                reader.memory_is_free()
            return
        waiting, self.waiting = self.waiting, {}
        for reader in waiting:
            reader.memory_is_free()

    def on_time(self):
        cdef RequestReader first = self.first
        if first is None or self.used < self.most:
            self.first = None
            if self.waiting:
                self.wake_soon()
        elif first.is_full():
            self.left(first)  # the broker owes answers: the client is not at fault
        elif first.bytes_in - self.first_bytes < PROGRESS_BYTES and self.waiting:
            first.refused(TimeoutError("requests take all the memory that they may take, and this request stopped in the middle"))
            first.close()
        else:
            self.lead(first)
