"""What waits for the high watermark of a partition to pass its records, in the order in which it came."""

from asyncio import get_running_loop
from collections import deque


cdef class CommitWait:
    cdef bint is_settled(self) except -1:
        raise NotImplementedError

    cdef int committed(self) except -1:
        raise NotImplementedError

    cdef int failed(self, problem) except -1:
        raise NotImplementedError


cdef class FutureWait(CommitWait):
    cdef bint is_settled(self) except -1:
        return self.future.done()

    cdef int committed(self) except -1:
        self.future.set_result(None)
        return 0

    cdef int failed(self, problem) except -1:
        self.future.set_exception(problem)
        return 0


cdef class CommitWaits:
    def __init__(self):
        self.waiting = deque()

    def wait(self, int64_t end):
        cdef FutureWait wait = FutureWait.__new__(FutureWait)
        wait.end = end
        wait.future = get_running_loop().create_future()
        self.add(wait)
        return wait.future

    def committed(self, int64_t high_watermark):
        cdef CommitWait wait
        while self.waiting:
            wait = self.waiting[0]
            if wait.is_settled():
                self.waiting.popleft()
            elif wait.end <= high_watermark:
                self.waiting.popleft()
                wait.committed()
            else:
                break

    def failed(self, problem):
        cdef CommitWait wait
        while self.waiting:
            wait = self.waiting.popleft()
            if not wait.is_settled():
                wait.failed(problem)

    cdef int add(self, CommitWait wait) except -1:
        self.waiting.append(wait)
        return 0
