"""Readiness of many connections through one descriptor.

asyncio spends about two microseconds of Python on every ready descriptor.  Here all connections of a server share an
epoll instance of their own, which is the one descriptor that the loop watches: a turn of the loop costs that once,
however many connections are ready."""

from libc.errno cimport EINTR, errno
from libc.stdint cimport uint32_t


cdef extern from "<sys/epoll.h>":
    enum:
        EPOLL_CLOEXEC
        EPOLL_CTL_ADD
        EPOLL_CTL_DEL
        EPOLL_CTL_MOD
        EPOLLIN
        EPOLLOUT
        EPOLLERR
        EPOLLHUP
    ctypedef union epoll_data_t:
        int fd
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event* event)
    int epoll_wait(int epfd, epoll_event* events, int size, int timeout)


cdef extern from "<unistd.h>":
    int close(int fd)


cdef enum:
    EVENTS_A_TURN = 128


cdef class Poller:
    """The part of an event loop's interface that a connection needs; `loop` itself has it too."""

    cdef int epoll
    cdef dict readers
    cdef dict writers
    cdef object loop
    cdef epoll_event events[EVENTS_A_TURN]

    def __init__(self, loop):
        self.loop = loop
        self.readers = {}
        self.writers = {}
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll < 0:
            raise OSError(errno, "epoll_create1 failed")
        loop.add_reader(self.epoll, self.on_ready)

    def close(self):
        if self.epoll >= 0:
            self.loop.remove_reader(self.epoll)
            close(self.epoll)
            self.epoll = -1

    def add_reader(self, int fd, callback):
        cdef bint registered = fd in self.readers or fd in self.writers
        self.readers[fd] = callback
        self.watch(fd, registered)

    def add_writer(self, int fd, callback):
        cdef bint registered = fd in self.readers or fd in self.writers
        self.writers[fd] = callback
        self.watch(fd, registered)

    def remove_reader(self, int fd):
        if self.readers.pop(fd, None) is not None:
            self.watch(fd, True)

    def remove_writer(self, int fd):
        if self.writers.pop(fd, None) is not None:
            self.watch(fd, True)

    cdef int watch(self, int fd, bint registered) except -1:
        cdef epoll_event event
        event.events = (EPOLLIN if fd in self.readers else 0) | (EPOLLOUT if fd in self.writers else 0)
        event.data.fd = fd
        if self.epoll < 0:
            return 0
        if epoll_ctl(
            self.epoll,
            EPOLL_CTL_DEL if event.events == 0 else (EPOLL_CTL_MOD if registered else EPOLL_CTL_ADD),
            fd,
            &event,
        ) < 0:
            raise OSError(errno, "epoll_ctl failed")
        return 0

    def on_ready(self):
        cdef int count = epoll_wait(self.epoll, self.events, EVENTS_A_TURN, 0)
        cdef int at
        cdef uint32_t ready
        if count < 0:
            if errno == EINTR:
                return
            raise OSError(errno, "epoll_wait failed")
        for at in range(count):
            ready = self.events[at].events
            fd = self.events[at].data.fd
            # A callback may have closed another connection of this turn, or taken it out.
            if ready & ~<uint32_t>EPOLLOUT:
                callback = self.readers.get(fd)
                if callback is not None:
                    self.call(callback)
            if ready & ~<uint32_t>EPOLLIN:
                callback = self.writers.get(fd)
                if callback is not None:
                    self.call(callback)

    cdef int call(self, callback) except -1:
        try:
            callback()
        except Exception as problem:
            self.loop.call_exception_handler({"message": f"{callback!r} failed", "exception": problem})
        return 0
