"""A batch that grows on its callers' threads, and what each caller holds of its record.

The GIL is the lock: between a check and the change that depends on it no Python code runs and no object is made, so
no other thread can come in between."""

import asyncio
import threading
from functools import partial

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc

from tidelog._speed.log.writer cimport Writer


cdef class Growing(Writer):
    """Takes records until it is closed; then somebody settles it, once, well or not."""

    def __dealloc__(self):
        free(self._timestamps)

    cdef int put_parts(
        self, const uint8_t* key, int64_t key_size, const uint8_t* value, int64_t value_size, int64_t timestamp,
        const uint8_t* headers, int64_t headers_size,
    ) except -1:
        cdef int32_t index = self.count
        cdef int32_t capacity
        cdef int64_t* timestamps
        if self.closed:
            return 0
        if index >= self._timestamps_capacity:
            capacity = max(16, 2 * self._timestamps_capacity)
            timestamps = <int64_t*>realloc(self._timestamps, capacity * sizeof(int64_t))
            if timestamps == NULL:
                raise MemoryError()
            self._timestamps = timestamps
            self._timestamps_capacity = capacity
        if not Writer.put_parts(self, key, key_size, value, value_size, timestamp, headers, headers_size):
            return 0
        self._timestamps[index] = timestamp
        return 1

    @property
    def split_up(self):
        return self._first is not None

    def close(self):
        self.closed = True

    def release(self):
        """The encoded records are not needed any more; those who hold a `Delivery` must not keep them alive."""
        if not self.closed or self._views:
            raise BufferError("the batch is still in use")
        free(self._data)
        self._data = NULL
        self._capacity = 0

    def delivery(self, int32_t index):
        cdef Delivery sent = Delivery.__new__(Delivery)
        if not 0 <= index < self.count:
            raise IndexError(index)
        sent._batch = self
        sent._index = index
        return sent

    def timestamp_of(self, int32_t index):
        if not 0 <= index < self.count or self._timestamps == NULL:
            raise IndexError(index)
        return self._timestamps[index]

    def watch(self, int32_t index, watcher):
        cdef list watchers = []
        cdef tuple entry = (index, watcher)
        if self.done or self._first is not None:
            return False
        if self._watchers is None:
            self._watchers = watchers
        self._watchers.append(entry)
        return True

    def unwatch(self, watcher):
        if self._watchers is not None:
            self._watchers = [watching for watching in self._watchers if watching[1] is not watcher]

    def settled(self):
        """From now on it is done; who watched is to be told."""
        cdef list watchers = self._watchers
        self.done = True
        self._watchers = None
        return [] if watchers is None else [watcher for _, watcher in watchers]

    def moved(self, Growing first, Growing second):
        """Its records are in these two now, and those who wait for them wait there."""
        cdef list watchers = self._watchers
        cdef int32_t middle = first.count
        self._middle = middle
        self._second = second
        self._first = first
        self._watchers = None
        for index, watcher in watchers or ():
            if index < middle:
                first.watch(index, watcher)
            else:
                second.watch(index - middle, watcher)


@cython.final
@cython.freelist(512)
@cython.no_gc
cdef class Delivery:
    """A record on its way.  Works from any thread, and with `await` in any loop."""

    def __init__(self):
        raise TypeError("a Delivery comes from Producer.send")

    cdef Growing _home(self):
        cdef Growing batch = self._batch
        while batch._first is not None:
            if self._index < batch._middle:
                batch = batch._first
            else:
                self._index -= batch._middle
                batch = batch._second
            self._batch = batch
        return batch

    def done(self):
        return self._home().done

    def get(self, timeout=None):
        cdef Growing batch = self._home()
        while not batch.done:
            self._wait(batch, timeout)
            batch = self._home()
        return batch.outcome(self._index)

    def _wait(self, Growing batch, timeout):
        running = asyncio._get_running_loop()
        if running is not None and running is batch.loop:
            raise RuntimeError("get() would wait for the very loop that it stops: await the delivery instead")
        arrived = threading.Event()
        tell = arrived.set
        if batch.watch(self._index, tell) and not arrived.wait(timeout):
            self._home().unwatch(tell)
            raise batch.overdue(timeout)

    def result(self):
        if not self._home().done:
            raise asyncio.InvalidStateError("the record is not delivered yet")
        return self._batch.outcome(self._index)

    def exception(self):
        if not self._home().done:
            raise asyncio.InvalidStateError("the record is not delivered yet")
        return self._batch.problem_of(self._index)

    def add_callback(self, callback, *args, **kwargs):
        self._then(partial(_called_back, self, partial(callback, *args, **kwargs)))
        return self

    def add_errback(self, errback, *args, **kwargs):
        self._then(partial(_called_on_error, self, partial(errback, *args, **kwargs)))
        return self

    def _then(self, tell):
        cdef Growing batch = self._home()
        while not batch.watch(self._index, tell):
            if batch.done:
                tell()
                return
            batch = self._home()

    def __await__(self):
        return _arrival(self).__await__()

    def __repr__(self):
        cdef Growing batch = self._home()
        return f"<Delivery {batch.describe(self._index)}>"


def _called_back(Delivery sent, callback):
    if sent.exception() is None:
        callback(sent.result())


def _called_on_error(Delivery sent, errback):
    problem = sent.exception()
    if problem is not None:
        errback(problem)


def _arrived(future):
    if not future.done():
        future.set_result(None)


def _wake(loop, future):
    """Settled on the sender's thread; whoever waits may be in another."""
    if asyncio._get_running_loop() is loop:
        _arrived(future)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(_arrived, future)


async def _arrival(Delivery sent):
    while not sent._home().done:
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()
        tell = partial(_wake, loop, arrived)
        if sent._home().watch(sent._index, tell):
            try:
                await arrived
            except BaseException:
                sent._home().unwatch(tell)
                raise
    return sent.result()
