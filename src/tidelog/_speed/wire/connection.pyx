"""One non-blocking connection: cuts frames, hands requests on in serial order, writes bytes and file slices.

Bytes arrive in one scratch buffer that all connections of a loop share, so an idle connection owns no buffer; only a
frame that has not wholly arrived is kept apart.  Reading pauses while too many requests are unanswered or their
answers are not taken, and in the middle of a frame while the frames of all connections take more memory than they may."""

import asyncio
import sys
from collections import deque

from cpython.bytearray cimport PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from tidelog._speed.log.batch cimport get_int16, get_int32
from tidelog._speed.log.request_metrics cimport RequestMetrics, now_ns
from tidelog._speed.wire.byte_stream cimport ByteStream
from tidelog._speed.wire.queued_bytes cimport QueuedBytes, RequestReader
from tidelog._speed.wire.session cimport SessionState
from tidelog._speed.wire.shortcut cimport ProduceShortcut
from tidelog._speed.wire.unsent_answers cimport UnsentAnswers


cdef enum:
    FRAME_HEADER = 4
    REQUEST_BYTES_MIN = 8  # api key, version and correlation id
    FIRST_PIECE = 1 << 17  # a longer frame gets its memory as its bytes arrive, not on its word
    PRODUCE = 0
    SHORTCUT_BYTES_MAX = 1 << 14  # larger requests gain nothing from it
    SHORT_READ = 1 << 14  # what is read of a connection while memory is short: small requests go on
    CROWDED_BYTES = 1 << 25  # while unfinished requests take so much, none of them reads much at a time:
    CROWDED_READ = 1 << 15  # so that everybody else soon has a turn
    # Why a connection takes no further frames.
    DRAINING = 1
    PAUSED = 2
    STARVED = 4
    MUTED = 8


cdef struct PendingRequest:
    int api_key
    int64_t at_ns


cdef class FrameConnection(RequestReader):
    cdef readonly Py_ssize_t frames
    cdef readonly Py_ssize_t bytes_out
    cdef public int idle_ticks
    cdef readonly bint is_closed
    cdef object watcher
    cdef ByteStream stream
    cdef object scratch
    cdef object scratch_view
    cdef Py_ssize_t frame_bytes_max
    cdef int in_flight_max
    cdef bytearray partial  # frames that have not wholly arrived, or wait while reading is paused
    cdef Py_ssize_t filled
    cdef object slots  # answers and futures of answers, in request order
    cdef UnsentAnswers unsent
    cdef bint reading
    cdef bint writing
    cdef int stopped  # DRAINING, PAUSED, STARVED, MUTED
    cdef QueuedBytes queued
    cdef Py_ssize_t counted  # what `partial` takes of `queued`
    cdef ProduceShortcut shortcut
    cdef readonly object session
    cdef SessionState state  # of `session`
    cdef bint reads_soon
    cdef object held  # what an answer waits for that gives way to others
    cdef bint held_back  # whole frames are kept in `partial`: no further bytes will announce them
    cdef Py_ssize_t partial_at  # where the frames that are held back begin in `partial`
    cdef bint out_of_turn  # the next request waits until all those before it are answered
    cdef RequestMetrics tally
    cdef PendingRequest* requests  # of the requests in `slots`, in a ring
    cdef int requests_first

    def __init__(
        self,
        watcher,
        sock,
        bytearray scratch,
        Py_ssize_t frame_bytes_max,
        int in_flight_max,
        shortcut=None,
        tally=None,
        queued=None,
        SessionState session=None,
    ):
        self.watcher = watcher
        self.stream = ByteStream(sock)
        self.scratch = scratch
        self.scratch_view = memoryview(scratch)
        self.frame_bytes_max = frame_bytes_max
        self.in_flight_max = in_flight_max
        self.shortcut = None if session is None else shortcut
        self.session = self.state = session
        self.tally = RequestMetrics() if tally is None else tally
        self.queued = QueuedBytes(sys.maxsize) if queued is None else queued
        self.slots = deque()
        self.unsent = UnsentAnswers(self.queued)

    def __dealloc__(self):
        free(self.requests)

    @property
    def unanswered(self):
        return len(self.slots)

    @property
    def in_flight(self):
        """Requests without an answer, and answers that have not left."""
        return len(self.slots) + len(self.unsent.pieces)

    @property
    def unsent_bytes(self):
        return self.unsent.memory

    def start(self):
        self.reading = True
        self.watcher.add_reader(self.stream.fd, self.on_readable)
        self.read_pending()

    def drain(self):
        """No more requests; those that are under way are still answered."""
        self.stopped |= DRAINING
        self.give_way()
        if self.reading:
            self.reading = False
            self.watcher.remove_reader(self.stream.fd)

    @property
    def next_waits(self):
        """Whether another request has arrived that is handed on when those before it are answered."""
        return self.out_of_turn and len(self.slots) > 0

    def hold(self, Py_ssize_t frame, waits):
        """The answer to request number `frame` waits for `waits`, which is completed as soon as another one arrives."""
        if frame != self.frames or self.is_full() or self.is_closed:
            return False  # one has arrived, or could not be read now
        self.held = waits
        return True

    def pause(self):
        self.stopped |= PAUSED

    def resume(self):
        self.go_on(PAUSED)

    def bound(self, Py_ssize_t frame_bytes_max, QueuedBytes queued):
        """Larger or smaller frames are taken from now on, and what the connection holds counts elsewhere."""
        cdef Py_ssize_t counted = self.counted
        self.count(0)
        self.frame_bytes_max = frame_bytes_max
        self.queued = queued
        self.unsent.count_in(queued)
        self.count(counted)

    def mute(self):
        """Apart from `pause`: a connection that is throttled may be paused and resumed meanwhile."""
        self.stopped |= MUTED
        self.balance()

    def unmute(self):
        self.go_on(MUTED)

    cdef int go_on(self, int reason) except -1:
        self.stopped &= ~reason
        self.balance()
        return 0

    cdef int memory_is_free(self) except -1:
        return self.go_on(STARVED)

    cdef int give_way(self) except -1:
        waits = self.held
        self.held = None
        if waits is not None and not waits.done():
            waits.set_result(None)
        return 0

    def close(self):
        if self.is_closed:
            return
        self.is_closed = True
        if self.reading:
            self.watcher.remove_reader(self.stream.fd)
        if self.writing:
            self.watcher.remove_writer(self.stream.fd)
        self.reading = self.writing = False
        for slot in self.slots:
            if not isinstance(slot, (bytes, list)):
                slot.cancel()
        self.slots.clear()
        self.unsent.clear()
        self.partial = None
        self.count(0)
        self.stream.sock.close()
        self.connection_closed()

    def frame_arrived(self, frame, int api_key, int version, int32_t correlation_id):
        raise NotImplementedError

    def refused(self, problem):
        pass

    def connection_closed(self):
        pass

    # Reading

    def on_readable(self):
        cdef Py_ssize_t got
        self.idle_ticks = 0
        if self.partial is None:
            got = len(self.scratch)
            if self.queued.used >= self.queued.most and got > SHORT_READ:
                got = SHORT_READ
            got = self.stream.receive(self.scratch, 0, got)
            if got <= 0:
                if got < 0:
                    self.close()
                return
            self.bytes_in += got
            self.take_scratch(got)
        elif self.queued.used >= self.queued.most and not self.queued.may_go_on(self):
            self.stopped |= STARVED
            self.queued.wait(self)
            self.balance()
            return
        else:
            got = len(self.partial) - self.filled
            if got > CROWDED_READ and self.queued.used >= CROWDED_BYTES:
                got = CROWDED_READ
            got = self.stream.receive(self.partial, self.filled, got)
            if got <= 0:
                if got < 0:
                    self.close()
                return
            self.bytes_in += got
            self.filled += got
            self.take_partial()
        if not self.is_closed:
            self.write_some()
            self.balance()
            self.read_pending()

    cdef int read_pending(self) except -1:
        """Others have their turn first."""
        if self.stream.buffers and self.reading and not self.reads_soon and self.stream.sock.pending:
            self.reads_soon = True
            asyncio.get_running_loop().call_soon(self.on_pending)
        return 0

    def on_pending(self):
        self.reads_soon = False
        if self.reading:
            self.on_readable()

    cdef int take_scratch(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t taken = self.consume(self.scratch_view, <uint8_t*><char*>(<bytearray>self.scratch), size)
        if taken < size and not self.is_closed:
            self.keep(<const uint8_t*><char*>(<bytearray>self.scratch) + taken, size - taken)
        return 0

    cdef int take_partial(self) except -1:
        cdef bytearray held = self.partial
        cdef Py_ssize_t start = self.partial_at
        cdef Py_ssize_t taken
        taken = start + self.consume(memoryview(held)[start:], <uint8_t*><char*>held + start, self.filled - start)
        if self.is_closed:
            return 0
        self.partial_at = 0
        if taken == self.filled:
            self.partial = None
            self.filled = 0
            self.count(0)
        elif self.held_back:
            self.partial_at = taken  # to move what is left for every frame would cost more than the frames
        elif taken > 0:
            self.keep(<const uint8_t*><char*>held + taken, self.filled - taken)
        elif self.filled == len(held):
            self.grow(held)
        return 0

    cdef int grow(self, bytearray held) except -1:
        """In place: to fill a new one with zeros, and copy what has arrived, would hold up everybody by milliseconds for a frame of
        many megabytes."""
        cdef Py_ssize_t frame_bytes = self.room_for(<const uint8_t*><char*>held, self.filled)
        PyByteArray_Resize(held, frame_bytes + FRAME_HEADER)
        self.count(frame_bytes)
        return 0

    cdef int keep(self, const uint8_t* data, Py_ssize_t size) except -1:
        """Hold `size` bytes that do not make a whole frame yet, with room for what is still to come."""
        cdef Py_ssize_t frame_bytes = self.room_for(data, size)
        cdef bytearray held
        held = bytearray(frame_bytes + FRAME_HEADER)
        memcpy(<char*>held, data, size)
        self.partial = held
        self.filled = size
        self.count(frame_bytes)
        return 0

    cdef Py_ssize_t room_for(self, const uint8_t* data, Py_ssize_t size) noexcept:
        cdef Py_ssize_t wanted = FRAME_HEADER
        cdef Py_ssize_t most = 2 * size
        if size >= FRAME_HEADER:
            wanted += get_int32(data)
        if self.queued.used < self.queued.most:
            # Many that begin a frame while memory is short must not take a large piece each.
            most = max(<Py_ssize_t>FIRST_PIECE, most)
        return max(size, min(wanted, most))

    cdef int count(self, Py_ssize_t size) except -1:
        """`partial` takes `size` bytes from now on."""
        cdef bint fewer = size < self.counted
        self.queued.used += size - self.counted
        self.counted = size
        if fewer and (self.queued.waiting or self.queued.first is self):
            self.queued.left(self)
        return 0

    cdef Py_ssize_t consume(self, view, uint8_t* data, Py_ssize_t size) except -1:
        """Hands on every whole frame until reading has to pause; the number of bytes handed on."""
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t length
        cdef int64_t came_ns
        if size < FRAME_HEADER:
            return 0
        came_ns = now_ns()
        while size - at >= FRAME_HEADER:
            length = get_int32(data + at)
            if length < REQUEST_BYTES_MIN or length > self.frame_bytes_max:
                self.refused(ValueError(f"a frame of {length} bytes: between {REQUEST_BYTES_MIN} and {self.frame_bytes_max} are taken"))
                self.close()
                return at
            if size - at - FRAME_HEADER < length:
                break
            if self.is_full() or not self.has_turn(get_int16(data + at + FRAME_HEADER)):
                self.held_back = True
                break
            if self.is_closed:
                return at
            at += FRAME_HEADER
            self.take_frame(view, data, at, length, came_ns)
            if self.is_closed:
                return at
            at += length
        return at

    cdef bint has_turn(self, int api_key) except -1:
        """Requests run one after the other, as Apache Kafka runs them: none sees less than what an earlier answer told, or
        more than a later one did.  Produces alone may follow each other unanswered: they are appended in their order."""
        if not self.slots or (api_key == PRODUCE and self.requests[self.requests_first].api_key == PRODUCE):
            return True
        self.give_way()
        self.out_of_turn = len(self.slots) > 0
        return not self.out_of_turn

    cdef int take_frame(self, view, uint8_t* data, Py_ssize_t at, Py_ssize_t size, int64_t came_ns) except -1:
        cdef uint8_t* frame = data + at
        cdef int api_key = get_int16(frame)
        cdef int version = get_int16(frame + 2)
        cdef int32_t correlation_id = get_int32(frame + 4)
        cdef int64_t began_ns
        self.frames += 1
        self.tally.arrived(api_key, size)
        if self.held is not None:
            self.give_way()
        try:
            if api_key == PRODUCE and self.shortcut is not None and size <= SHORTCUT_BYTES_MAX:
                answer = self.shortcut.answer(frame, size, version, correlation_id, self.state)
                if answer is not None:
                    # What the shortcut takes is too little to be told apart.
                    self.put_answer(answer, PRODUCE, came_ns, came_ns, now_ns())
                    return 0
            began_ns = now_ns()
            answer = self.frame_arrived(view[at:at + size], api_key, version, correlation_id)
        except Exception as problem:
            self.refused(problem)
            self.write_some()
            self.close()
            return 0
        self.put_answer(answer, api_key, came_ns, began_ns, now_ns())
        return 0

    cdef int put_answer(self, answer, int api_key, int64_t came_ns, int64_t began_ns, int64_t now) except -1:
        """What came of a request: an answer, or a future of one, or None when the client wants none."""
        self.tally.handled(api_key, began_ns - came_ns, now - began_ns)
        if self.state is not None:
            self.state.handler_ns += now - began_ns
        if answer is None:
            self.tally.answered(api_key, now - came_ns, 0, 1)
        elif type(answer) is bytes or type(answer) is list:
            if self.slots:
                self.put_slot(answer, api_key, came_ns)
            else:
                self.tally.answered(api_key, now - came_ns, self.unsent.put(answer), 1)
        else:
            self.put_slot(answer, api_key, came_ns)
            answer.add_done_callback(self.on_answered)
        return 0

    cdef int put_slot(self, answer, int api_key, int64_t came_ns) except -1:
        cdef int at
        if self.requests is NULL:
            self.requests = <PendingRequest*>malloc(self.in_flight_max * sizeof(PendingRequest))
            if self.requests is NULL:
                raise MemoryError
        at = (self.requests_first + <int>len(self.slots)) % self.in_flight_max
        self.requests[at].api_key = api_key
        self.requests[at].at_ns = came_ns
        self.slots.append(answer)
        return 0

    cdef int left_slot(self, int64_t size) except -1:
        """The first answer is on its way."""
        cdef PendingRequest* answered = &self.requests[self.requests_first]
        self.tally.answered(answered.api_key, now_ns() - answered.at_ns, size, 1)
        self.requests_first = (self.requests_first + 1) % self.in_flight_max
        self.slots.popleft()
        return 0

    cdef bint is_full(self) except -1:
        return (
            self.stopped
            or (self.out_of_turn and len(self.slots) > 0)
            or len(self.slots) >= self.in_flight_max
            or self.unsent.is_full()
        )

    cdef int balance(self) except -1:
        """Pause reading when too much is under way, go on when there is room again."""
        if self.is_closed:
            return 0
        if self.is_full():
            if self.reading:
                self.reading = False
                self.watcher.remove_reader(self.stream.fd)
        elif self.held_back or not self.reading:
            self.held_back = self.out_of_turn = False
            if not self.reading:
                self.reading = True
                self.watcher.add_reader(self.stream.fd, self.on_readable)
            if self.partial is not None:
                self.take_partial()
                if not self.is_closed:
                    self.write_some()
                    self.balance()
            self.read_pending()
        return 0

    # Answering

    def on_answered(self, _future):
        if self.is_closed:
            return
        while self.slots:
            answer = self.slots[0]
            if type(answer) is not bytes and type(answer) is not list:
                if not answer.done():
                    break
                try:
                    answer = answer.result()
                except BaseException as problem:  # a cancelled handler is no answer either
                    self.refused(problem)
                    self.close()
                    return
            self.left_slot(0 if answer is None else self.unsent.put(answer))
        self.write_some()
        self.balance()

    def on_writable(self):
        self.idle_ticks = 0
        self.write_some()
        self.balance()

    cdef int write_some(self) except -1:
        cdef Py_ssize_t moved
        try:
            moved = self.unsent.write(self.stream)
        except OSError as problem:
            if not isinstance(problem, (ConnectionResetError, BrokenPipeError)):
                self.refused(problem)
            self.close()
            return 0
        self.bytes_out += moved
        if self.unsent.pieces and not self.writing:
            self.writing = True
            self.watcher.add_writer(self.stream.fd, self.on_writable)
        elif self.writing and not self.unsent.pieces:
            self.writing = False
            self.watcher.remove_writer(self.stream.fd)
        return 0


# Only for annotations: see connection.pyi.
Answer = bytes | list
