"""Where records enter the producer: on the caller's thread, straight into the open batch of their partition.

`Intake.take` does everything that needs no waiting: finds the partition, takes the memory, encodes the record.  It
returns None when it cannot, and the producer goes the slow way.  The GIL is the lock, as in `delivery`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from tidelog._speed.client.delivery cimport Delivery, Growing
from tidelog._speed.log.writer cimport NO_HEADERS, as_bytes, encode_headers

cdef extern from "<time.h>" nogil:
    struct timespec:
        int64_t tv_sec
        long tv_nsec
    int CLOCK_REALTIME
    int clock_gettime(int clock, timespec* at)

cdef enum:
    # As many new batches are worth a turn of the sender.
    CROWD = 4
    # As many full batches in front of it, and the next one need not hurry: it may grow.
    BACKLOG = 4

BY_KEY, STICKY, ROUND_ROBIN, BY_CALL = range(4)


cdef inline uint32_t murmur2_of(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """As Kafka's Java client computes it; integers are little-endian in the data."""
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = 0x9747B28CU ^ <uint32_t>size
    cdef uint32_t k = 0
    cdef Py_ssize_t at = 0
    while size - at >= 4:
        memcpy(&k, data + at, 4)
        k *= m
        k ^= k >> 24
        k *= m
        h *= m
        h ^= k
        at += 4
    if size - at >= 3:
        h ^= <uint32_t>data[at + 2] << 16
    if size - at >= 2:
        h ^= <uint32_t>data[at + 1] << 8
    if size - at >= 1:
        h ^= data[at]
        h *= m
    h ^= h >> 13
    h *= m
    return h ^ (h >> 15)


def murmur2(const uint8_t[::1] data):
    return murmur2_of(&data[0], data.shape[0]) if data.shape[0] else murmur2_of(NULL, 0)


cdef class Memory:
    def __init__(self, int64_t bytes_max):
        self.bytes_max = bytes_max

    cdef bint take_now(self, int64_t size) noexcept:
        if self.contended or self.used + size > self.bytes_max:
            return False
        self.used += size
        return True

    def try_take(self, int64_t size):
        return self.take_now(size)

    def force_take(self, int64_t size):
        self.used += size

    def give_back(self, int64_t size):
        self.used -= size


cdef class Lane:
    """What waits to be sent to one partition: the batch that grows, and the full ones in front of it."""

    def __init__(self, partition, full):
        self.partition = partition
        self.full = full

    def close_open(self):
        """The growing batch, which takes no more; None when there is none."""
        cdef Growing batch = self.open
        if batch is not None:
            batch.closed = True
            self.open = None
        return batch

    def drop(self, Growing batch):
        """Takes it out, wherever it waits."""
        batch.closed = True
        if self.open is batch:
            self.open = None
        elif batch in self.full:
            self.full.remove(batch)

    cdef Growing put(self, Intake intake, Parts* parts, int64_t taken, int64_t size_max):
        """The batch that has the record now, as its last one; None when the producer has closed.  `size_max`: what
        the batch may grow to, if it is full as it is."""
        cdef Growing batch = self.open
        cdef Growing made
        while batch is None or not put_in(batch, parts):
            if batch is not None and not batch.closed and batch.size_max < size_max:
                batch.size_max = size_max
                continue
            made = intake._make(self.partition)
            if not intake.admitting:
                return None
            if self.open is not batch:
                batch = self.open  # another thread, or the sender, was here meanwhile
                continue
            # The record first: the sender must not meet a batch without one.
            put_in(made, parts)
            if batch is not None:
                batch.closed = True
                self.full.append(batch)
            made.bytes_taken = taken
            self.open = made
            intake.fresh.append(made)
            intake.crowded = len(intake.fresh) >= CROWD
            return made
        batch.bytes_taken += taken
        return batch


cdef inline int put_in(Growing batch, Parts* parts) except -1:
    return batch.put_parts(
        parts.key, parts.key_size, parts.value, parts.value_size, parts.timestamp, parts.headers, parts.headers_size
    )


cdef class TopicLanes:
    """The lanes of one topic, as its metadata was when this was made."""

    def __init__(self, topic, list lanes not None, list led not None, Py_ssize_t turn=0):
        self.topic = topic
        self.lanes = lanes
        self.led = led
        self._stuck = -1
        self._turn = turn

    cdef int32_t stick(self, Intake intake, int64_t size) except -2:
        if self._stuck < 0 or self._stick_left <= 0:
            self._stuck = intake._move(self.led, self._stuck)
            self._stick_left = intake.stick_bytes
        self._stick_left -= size
        return self._stuck

    cdef int32_t next(self) except -2:
        self._turn = (self._turn + 1) % len(self.led)
        return self.led[self._turn]


cdef class Intake:
    def __init__(
        self, Memory memory not None, int64_t record_bytes_max, int64_t stick_bytes, *, make, wake, move,
        now_ms=None, int kind=0, partitioner=None, int64_t grown_bytes_max=0,
    ):
        self.routes = {}
        self.fresh = []
        self.stick_bytes = stick_bytes
        self.record_bytes_max = record_bytes_max
        self.grown_bytes_max = grown_bytes_max
        self._memory = memory
        self._make = make
        self._wake = wake
        self._move = move
        self._now_ms = now_ms
        self._kind = kind
        self._partitioner = partitioner

    def drain(self):
        """The batches that were begun since the last time."""
        cdef list empty = []
        cdef list fresh = self.fresh
        self.fresh = empty
        self.crowded = False
        return fresh

    def size_of(self, key, value, headers):
        """What the record takes of the memory."""
        cdef bytes encoded = encode_headers(headers) if headers else NO_HEADERS
        return size_in_memory(content("key", key), content("value", value), encoded)

    def take(self, topic, value, key, headers, timestamp, partition, bint paid=False):
        cdef PyObject* route_at
        cdef TopicLanes route
        cdef Lane lane
        cdef Delivery sent
        cdef Growing batch
        cdef Parts parts
        cdef bytes value_bytes, key_bytes, header_bytes
        cdef int64_t size
        if not self.admitting:
            return None
        route_at = PyDict_GetItem(self.routes, topic)
        if route_at == NULL:
            return None
        route = <TopicLanes>route_at
        value_bytes = content("value", value)
        key_bytes = content("key", key)
        header_bytes = encode_headers(headers) if headers else NO_HEADERS
        size = size_in_memory(key_bytes, value_bytes, header_bytes)
        if size > self.record_bytes_max:
            return None
        parts.key = NULL if key_bytes is None else <const uint8_t*>PyBytes_AS_STRING(key_bytes)
        parts.key_size = -1 if key_bytes is None else PyBytes_GET_SIZE(key_bytes)
        parts.value = NULL if value_bytes is None else <const uint8_t*>PyBytes_AS_STRING(value_bytes)
        parts.value_size = -1 if value_bytes is None else PyBytes_GET_SIZE(value_bytes)
        parts.headers = <const uint8_t*>PyBytes_AS_STRING(header_bytes)
        parts.headers_size = PyBytes_GET_SIZE(header_bytes)
        lane = self.lane_for(route, &parts, key_bytes, partition, size)
        if lane is None:
            return None
        parts.timestamp = self.now_ms() if timestamp is None else timestamp
        sent = Delivery.__new__(Delivery)
        if not paid and not self._memory.take_now(size):
            return None
        try:
            batch = lane.put(self, &parts, size, self.grown_bytes_max if len(lane.full) >= BACKLOG else 0)
        except BaseException:
            if not paid:
                self._memory.used -= size
            raise
        if batch is None:
            if not paid:
                self._memory.used -= size
            return None
        sent._batch = batch
        sent._index = batch.count - 1
        if batch.count == 1:
            self._wake()
        return sent

    cdef int64_t now_ms(self) except? -1:
        cdef timespec now
        if self._now_ms is not None:
            return self._now_ms()
        clock_gettime(CLOCK_REALTIME, &now)
        return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000

    cdef Lane lane_for(self, TopicLanes route, Parts* parts, bytes key, object partition, int64_t size):
        """`key` is for a partitioner of the user's own; None when there is no such partition."""
        cdef int64_t index
        cdef Py_ssize_t count = len(route.lanes)
        if partition is not None:
            index = partition
        elif self._kind == 0 and parts.key_size >= 0:
            index = (murmur2_of(parts.key, parts.key_size) & 0x7FFFFFFF) % count
        elif self._kind == 2:
            index = route.next()
        elif self._kind == 3:
            chosen = self._partitioner(route.topic.name, key, count)
            index = route.stick(self, size) if chosen is None else chosen
        else:
            index = route.stick(self, size)
        if index < 0 or index >= count:
            return None
        return route.lanes[index]


cdef inline bytes content(str name, object data):
    if data is None or PyBytes_CheckExact(data):
        return <bytes>data
    try:
        return as_bytes(data)
    except TypeError:
        raise TypeError(
            f"{name} must be bytes or None, not {type(data).__name__}: encode it, or give the producer a {name}_serializer"
        ) from None


cdef inline int64_t size_in_memory(bytes key, bytes value, bytes headers):
    return (
        RECORD_OVERHEAD + PyBytes_GET_SIZE(headers)
        + (0 if key is None else PyBytes_GET_SIZE(key)) + (0 if value is None else PyBytes_GET_SIZE(value))
    )
