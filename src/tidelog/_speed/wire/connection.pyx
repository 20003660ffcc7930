"""One non-blocking connection: cuts frames, hands requests on in serial order, writes bytes and file slices.

Bytes arrive in one scratch buffer that all connections of a loop share, so an idle connection owns none; only a
frame that has not wholly arrived is kept apart.  Reading pauses while too many requests are unanswered or their
answers are not taken, and in the middle of a frame while the frames of all connections take more memory than they may."""

import asyncio
from collections import deque

from cpython.bytearray cimport PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from tidelog._speed.log.batch cimport get_int16, get_int32
from tidelog._speed.wire.session cimport SessionState
from tidelog._speed.wire.shortcut cimport ProduceShortcut
from tidelog._speed.log.request_metrics cimport RequestMetrics, now_ns


cdef extern from "<sys/socket.h>":
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL
        MSG_MORE
    ssize_t recv(int fd, void* data, size_t size, int flags)
    ssize_t send(int fd, const void* data, size_t size, int flags)


cdef enum:
    FRAME_HEADER = 4
    REQUEST_BYTES_MIN = 8  # api key, version and correlation id
    FIRST_PIECE = 1 << 17  # a longer frame gets its memory as its bytes arrive, not on its word
    TURN_BYTES = 1 << 20  # what one connection may write before the others get their turn
    UNSENT_MAX = 64  # pieces waiting to be written before reading pauses
    UNSENT_BYTES_MAX = 1 << 20  # the same for their bytes, without those of file slices
    PRODUCE = 0
    SHORTCUT_BYTES_MAX = 1 << 14  # larger requests gain nothing from it
    NO_BOUND = 1 << 62
    SHORT_READ = 1 << 14  # what is read of a connection while memory is short: small requests go on
    CROWDED_BYTES = 1 << 25  # while unfinished requests take so much, none of them reads much at a time:
    CROWDED_READ = 1 << 15  # so that everybody else soon has a turn
    # Why a connection takes no further frames.
    DRAINING = 1
    PAUSED = 2
    STARVED = 4
    MUTED = 8

# While memory is short, the connection that may go on must receive this much in this time.
PATIENCE_S = 5.0
PROGRESS_BYTES = 1 << 16


cdef struct PendingRequest:
    int api_key
    int64_t at_ns


cdef class QueuedBytes:
    """What requests take that have not wholly arrived, or wait to be worked on, of all connections together.

    While that is `most` or more, connections in the middle of a frame wait, all but the first: so the sum is exceeded by
    one frame, and there is always one that gets whole.  If that one stops sending it is closed."""

    cdef readonly Py_ssize_t used
    cdef readonly Py_ssize_t unsent  # bytes of answers that no client has taken yet
    cdef public Py_ssize_t most
    cdef readonly Py_ssize_t waits  # how often a connection had to wait
    cdef dict waiting  # connections, in the order they came
    cdef FrameConnection first
    cdef Py_ssize_t first_bytes
    cdef object timer
    cdef bint waking

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

    cdef bint may_go_on(self, FrameConnection connection) except -1:
        if self.used < self.most or self.first is connection:
            return True
        if self.first is not None or self.waiting:
            return False
        self.lead(connection)
        return True

    cdef int lead(self, FrameConnection connection) except -1:
        """`connection` goes on whatever it takes."""
        self.first = connection
        self.first_bytes = connection.bytes_in
        if self.timer is not None:
            self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(PATIENCE_S, self.on_time)
        return 0

    cdef int wait(self, FrameConnection connection) except -1:
        self.waits += 1
        self.waiting[connection] = None
        return 0

    cdef int left(self, FrameConnection connection) except -1:
        """It has its frame whole, or is closed."""
        self.waiting.pop(connection, None)
        if self.first is connection:
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
        """All of them when there is room, or the next one when nobody is on its way."""
        cdef FrameConnection connection
        self.waking = False
        if self.used >= self.most:
            if self.first is None and self.waiting:
                connection = next(iter(self.waiting))
                del self.waiting[connection]
                self.lead(connection)
                connection.go_on(STARVED)
            return
        waiting, self.waiting = self.waiting, {}
        for connection in waiting:
            connection.go_on(STARVED)

    def on_time(self):
        cdef FrameConnection first = self.first
        if first is None or self.used < self.most:
            self.first = None
            if self.waiting:
                self.wake_soon()
        elif first.is_full():
            self.left(first)  # it waits for answers: not its fault
        elif first.bytes_in - self.first_bytes < PROGRESS_BYTES and self.waiting:
            first.refused(TimeoutError("requests take all the memory they may, and this one stopped in the middle"))
            first.close()
        else:
            self.lead(first)


cdef class FrameConnection:
    cdef readonly Py_ssize_t frames
    cdef readonly Py_ssize_t bytes_in
    cdef readonly Py_ssize_t bytes_out
    cdef readonly Py_ssize_t unsent_bytes  # that take memory: not those of file slices
    cdef public int idle_ticks
    cdef readonly bint is_closed
    cdef object watcher
    cdef object sock
    cdef int fd
    cdef bint native
    cdef object scratch
    cdef object scratch_view
    cdef Py_ssize_t frame_bytes_max
    cdef int in_flight_max
    cdef bytearray partial  # frames that have not wholly arrived, or wait while reading is paused
    cdef Py_ssize_t filled
    cdef object slots  # answers and futures of answers, in request order
    cdef object unsent  # pieces, in order
    cdef Py_ssize_t sent_of_first
    cdef bint reading
    cdef bint writing
    cdef int stopped  # DRAINING, PAUSED, STARVED, MUTED
    cdef QueuedBytes queued
    cdef Py_ssize_t counted  # what `partial` takes of `queued`
    cdef ProduceShortcut shortcut
    cdef readonly object session
    cdef SessionState state  # of `session`
    cdef bint buffers  # the stream may have bytes that make no descriptor readable
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
        self.sock = sock
        self.fd = sock.fileno()
        # Sockets of the system are read and written by their descriptor; others through their methods.
        self.native = type(sock).__module__ == "socket"
        self.scratch = scratch
        self.scratch_view = memoryview(scratch)
        self.frame_bytes_max = frame_bytes_max
        self.in_flight_max = in_flight_max
        self.buffers = hasattr(sock, "pending")
        self.shortcut = None if session is None else shortcut
        self.session = self.state = session
        self.tally = RequestMetrics() if tally is None else tally
        self.queued = QueuedBytes(NO_BOUND) if queued is None else queued
        self.slots = deque()
        self.unsent = deque()

    def __dealloc__(self):
        free(self.requests)

    @property
    def unanswered(self):
        return len(self.slots)

    @property
    def in_flight(self):
        """Requests without an answer, and answers that have not left."""
        return len(self.slots) + len(self.unsent)

    def start(self):
        self.reading = True
        self.watcher.add_reader(self.fd, self.on_readable)
        self.read_pending()

    def drain(self):
        """No more requests; those that are under way are still answered."""
        self.stopped |= DRAINING
        self.give_way()
        if self.reading:
            self.reading = False
            self.watcher.remove_reader(self.fd)

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
        self.queued.unsent -= self.unsent_bytes
        self.frame_bytes_max = frame_bytes_max
        self.queued = queued
        queued.unsent += self.unsent_bytes
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
            self.watcher.remove_reader(self.fd)
        if self.writing:
            self.watcher.remove_writer(self.fd)
        self.reading = self.writing = False
        for slot in self.slots:
            if not isinstance(slot, (bytes, list)):
                slot.cancel()
        self.slots.clear()
        self.unsent.clear()
        self.queued.unsent -= self.unsent_bytes
        self.unsent_bytes = 0
        self.partial = None
        self.count(0)
        self.sock.close()
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
            got = self.receive(self.scratch, 0, got)
            if got <= 0:
                return
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
            got = self.receive(self.partial, self.filled, got)
            if got <= 0:
                return
            self.filled += got
            self.take_partial()
        if not self.is_closed:
            self.write_some()
            self.balance()
            self.read_pending()

    cdef int read_pending(self) except -1:
        """Others have their turn first."""
        if self.buffers and self.reading and not self.reads_soon and self.sock.pending:
            self.reads_soon = True
            asyncio.get_running_loop().call_soon(self.on_pending)
        return 0

    def on_pending(self):
        self.reads_soon = False
        if self.reading:
            self.on_readable()

    cdef Py_ssize_t receive(self, bytearray into, Py_ssize_t at, Py_ssize_t size_max) except -2:
        """Bytes received; 0 when there are none now; -1 when the connection is over."""
        cdef Py_ssize_t got = 0
        if self.native:
            got = recv(self.fd, <char*>into + at, size_max, MSG_DONTWAIT)
            if got < 0:
                if errno == EAGAIN or errno == EINTR:
                    return 0
                self.close()
                return -1
        else:
            try:
                with memoryview(into) as view:
                    got = self.sock.recv_into(view[at:at + size_max])
            except (BlockingIOError, InterruptedError):
                return 0
            except OSError:
                self.close()
                return -1
        if got == 0:
            self.close()
            return -1
        self.bytes_in += got
        return got

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
        if type(answer) is bytes:
            if self.slots:
                self.put_slot(answer, api_key, came_ns)
                return 0
            self.tally.answered(api_key, now - came_ns, PyBytes_GET_SIZE(answer), 1)
            if PyBytes_GET_SIZE(answer):
                self.unsent.append(answer)
                self.holds(PyBytes_GET_SIZE(answer))
        elif type(answer) is list:
            if self.slots:
                self.put_slot(answer, api_key, came_ns)
                return 0
            self.tally.answered(api_key, now - came_ns, size_of(<list>answer), 1)
            self.unsent.extend(answer)
            self.holds(memory_of(<list>answer))
        elif answer is None:
            self.tally.answered(api_key, now - came_ns, 0, 1)
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

    cdef bint is_full(self):
        return (
            self.stopped
            or (self.out_of_turn and len(self.slots) > 0)
            or len(self.slots) >= self.in_flight_max
            or len(self.unsent) >= UNSENT_MAX
            or self.unsent_bytes >= UNSENT_BYTES_MAX
        )

    cdef inline void holds(self, Py_ssize_t more) noexcept:
        """Answers that wait for the client to read take so much more memory."""
        self.unsent_bytes += more
        self.queued.unsent += more

    cdef int balance(self) except -1:
        """Pause reading when too much is under way, go on when there is room again."""
        if self.is_closed:
            return 0
        if self.is_full():
            if self.reading:
                self.reading = False
                self.watcher.remove_reader(self.fd)
        elif self.held_back or not self.reading:
            self.held_back = self.out_of_turn = False
            if not self.reading:
                self.reading = True
                self.watcher.add_reader(self.fd, self.on_readable)
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
            if type(answer) is bytes:
                if PyBytes_GET_SIZE(answer):
                    self.unsent.append(answer)
                    self.holds(PyBytes_GET_SIZE(answer))
                self.left_slot(PyBytes_GET_SIZE(answer))
            elif answer is None:
                self.left_slot(0)
            else:
                self.unsent.extend(answer)
                self.holds(memory_of(<list>answer))
                self.left_slot(size_of(answer))
        self.write_some()
        self.balance()

    def on_writable(self):
        self.idle_ticks = 0
        self.write_some()
        self.balance()

    cdef int write_some(self) except -1:
        cdef Py_ssize_t turn = 0
        cdef Py_ssize_t moved, size
        unsent = self.unsent
        try:
            while unsent and turn < TURN_BYTES:
                piece = unsent[0]
                if type(piece) is bytes:
                    size = PyBytes_GET_SIZE(piece)
                    moved = self.send_bytes(piece, len(unsent) > 1)
                else:
                    size = piece.size
                    moved = piece.send(self.sock, self.sent_of_first)
                    if moved == 0 and size > self.sent_of_first:
                        raise ConnectionError("a file slice ended before its size")
                if moved < 0:
                    break
                turn += moved
                self.sent_of_first += moved
                if self.sent_of_first < size:
                    continue
                unsent.popleft()
                if type(piece) is bytes:
                    self.holds(-size)
                self.sent_of_first = 0
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as problem:
            if not isinstance(problem, (ConnectionResetError, BrokenPipeError)):
                self.refused(problem)
            self.close()
            return 0
        self.bytes_out += turn
        if unsent and not self.writing:
            self.writing = True
            self.watcher.add_writer(self.fd, self.on_writable)
        elif self.writing and not unsent:
            self.writing = False
            self.watcher.remove_writer(self.fd)
        return 0

    cdef Py_ssize_t send_bytes(self, bytes piece, bint more) except -2:
        """Bytes taken by the socket, or -1 when it takes none now."""
        cdef Py_ssize_t moved
        cdef Py_ssize_t at = self.sent_of_first
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


cdef int64_t size_of(list pieces) except -1:
    cdef int64_t size = 0
    for piece in pieces:
        size += PyBytes_GET_SIZE(piece) if type(piece) is bytes else <int64_t>piece.size
    return size


cdef Py_ssize_t memory_of(list pieces) except -1:
    """Of the bytes alone: a file slice holds none."""
    cdef Py_ssize_t size = 0
    for piece in pieces:
        if type(piece) is bytes:
            size += PyBytes_GET_SIZE(piece)
    return size


# Only for annotations: see connection.pyi.
Answer = bytes | list
