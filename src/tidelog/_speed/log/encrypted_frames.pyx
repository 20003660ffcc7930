"""Frames of an encrypted file: sealed when bytes are written, found and opened when they are read.

A file is a header of `FILE_HEADER` bytes and blocks of `BLOCK` bytes.  Frames fill a block from its start and never cross
its end.  A frame is 40 bytes and as many of ciphertext as it has plain ones:

    0 length of the plain bytes    4 their position in the plain file    8 session, 12 bytes    20 counter    24 tag, 16 bytes

The key of a session is derived from the file's, and the nonce of a frame is its counter in the session: as a session begins
with a random name and its counter only grows, no nonce is used twice with a key.  Length and position are authenticated."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from tidelog.errors import TidelogError


cdef extern from "libcrypto.h":
    int libcrypto_load()
    void* aes_gcm_new(const uint8_t* key, int encrypts)
    int aes_gcm_seal(
        void* context, const uint8_t* nonce, const uint8_t* associated, int associated_size,
        const uint8_t* plain, int size, uint8_t* sealed, uint8_t* tag,
    ) nogil
    int aes_gcm_open(
        void* context, const uint8_t* nonce, const uint8_t* associated, int associated_size,
        const uint8_t* sealed, int size, uint8_t* plain, const uint8_t* tag,
    ) nogil
    void libcrypto_context_free "libcrypto.context_free" (void*)


cdef enum:
    C_FILE_HEADER = 1024
    C_BLOCK = 32768
    HEADER = 40
    ROOM_MIN = 104  # a block with less left is full: shorter frames cost more than they hold
    SESSION_AT = 8
    SESSION = 12
    COUNTER_AT = 20
    TAG_AT = 24
    AUTHENTICATED = 8
    GIL_BYTES = 8192  # shorter frames are done before another thread has got the GIL
    READERS_MAX = 64
    BATCH_LENGTH_AT = 8
    BATCH_PREFIX = 12
    BATCH_MIN = 61

FILE_HEADER = C_FILE_HEADER
BLOCK = C_BLOCK
FRAME_HEADER = HEADER


class CryptoMissing(TidelogError):
    about = "encryption needs OpenSSL's libcrypto (3 or 1.1): install OpenSSL"


cdef inline uint32_t get_uint32(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline void put_uint32(uint8_t* at, uint32_t value) noexcept nogil:
    at[0] = value >> 24
    at[1] = (value >> 16) & 0xFF
    at[2] = (value >> 8) & 0xFF
    at[3] = value & 0xFF


cdef class AesGcm:
    """One key.  For few and small texts: data keys, checks."""

    cdef bytes _key

    def __init__(self, bytes key not None):
        if PyBytes_GET_SIZE(key) != 32:
            raise ValueError("a key has 32 bytes")
        if not libcrypto_load():
            raise CryptoMissing()
        self._key = key

    def seal(self, bytes nonce not None, bytes plain not None, bytes associated not None):
        cdef bytes sealed = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(plain) + 16)
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(sealed)
        cdef int size = PyBytes_GET_SIZE(plain)
        cdef void* context
        if PyBytes_GET_SIZE(nonce) != 12:
            raise ValueError("a nonce has 12 bytes")
        context = aes_gcm_new(<const uint8_t*>PyBytes_AS_STRING(self._key), 1)
        if context == NULL:
            raise MemoryError()
        done = aes_gcm_seal(
            context, <const uint8_t*>PyBytes_AS_STRING(nonce), <const uint8_t*>PyBytes_AS_STRING(associated),
            PyBytes_GET_SIZE(associated), <const uint8_t*>PyBytes_AS_STRING(plain), size, at, at + size,
        )
        libcrypto_context_free(context)
        if not done:
            raise RuntimeError("libcrypto refused to encrypt")
        return sealed

    def open(self, bytes nonce not None, bytes sealed not None, bytes associated not None):
        cdef int size = PyBytes_GET_SIZE(sealed) - 16
        cdef bytes plain
        cdef void* context
        if PyBytes_GET_SIZE(nonce) != 12 or size < 0:
            return None
        plain = PyBytes_FromStringAndSize(NULL, size)
        context = aes_gcm_new(<const uint8_t*>PyBytes_AS_STRING(self._key), 0)
        if context == NULL:
            raise MemoryError()
        done = aes_gcm_open(
            context, <const uint8_t*>PyBytes_AS_STRING(nonce), <const uint8_t*>PyBytes_AS_STRING(associated),
            PyBytes_GET_SIZE(associated), <const uint8_t*>PyBytes_AS_STRING(sealed), size,
            <uint8_t*>PyBytes_AS_STRING(plain), <const uint8_t*>PyBytes_AS_STRING(sealed) + size,
        )
        libcrypto_context_free(context)
        return plain if done else None


cdef class SessionReader:
    """Opens the frames of one session."""

    cdef void* _context

    def __cinit__(self, bytes key not None):
        self._context = aes_gcm_new(<const uint8_t*>PyBytes_AS_STRING(key), 0)
        if self._context == NULL:
            raise MemoryError()

    def __dealloc__(self):
        if self._context != NULL:
            libcrypto_context_free(self._context)


cdef class FrameSealer:
    """The frames of one session, in the order they are made."""

    def __cinit__(self):
        self._context = NULL

    cdef void* _context
    cdef bytes _session
    cdef readonly int64_t counter

    def __init__(self, bytes session not None, bytes key not None, int64_t counter=0):
        if PyBytes_GET_SIZE(session) != SESSION or PyBytes_GET_SIZE(key) != 32:
            raise ValueError("a session has a name of 12 bytes and a key of 32")
        if not libcrypto_load():
            raise CryptoMissing()
        self._session = session
        self.counter = counter
        self._context = aes_gcm_new(<const uint8_t*>PyBytes_AS_STRING(key), 1)
        if self._context == NULL:
            raise MemoryError()

    def __dealloc__(self):
        if self._context != NULL:
            libcrypto_context_free(self._context)

    @property
    def frames_left(self):
        return UINT32_MAX - self.counter

    def seal(self, const uint8_t[::1] data not None, int64_t logical, int64_t physical, bint batches):
        cdef Py_ssize_t size = data.shape[0]
        cdef Py_ssize_t frames = 2 + (size // BATCH_MIN if batches else 0)
        cdef Py_ssize_t blocks = (size + frames * HEADER) // (C_BLOCK - HEADER - ROOM_MIN) + 2
        cdef Py_ssize_t room = size + (frames + blocks) * HEADER + blocks * ROOM_MIN
        cdef Py_ssize_t at = 0, out = 0, batch_end = 0, left
        cdef Py_ssize_t part
        cdef uint8_t* made
        cdef bytes sealed
        if logical < 0 or logical + size > UINT32_MAX:
            raise OverflowError("an encrypted file holds up to 4 GiB")
        if frames + blocks >= self.frames_left:
            raise OverflowError("the session has no counters left")
        if size == 0:
            return b""
        made = <uint8_t*>malloc(room)
        if made == NULL:
            raise MemoryError()
        try:
            while at < size:
                left = C_BLOCK - (physical + out - C_FILE_HEADER) % C_BLOCK
                if left < ROOM_MIN:
                    memset(made + out, 0, left)
                    out += left
                    left = C_BLOCK
                if batches and at >= batch_end:
                    batch_end = at + batch_at(&data[0] + at, size - at)
                part = min(left - HEADER, (batch_end if batches else size) - at)
                self._seal_one(&data[0] + at, part, logical + at, made + out)
                at += part
                out += HEADER + part
            sealed = PyBytes_FromStringAndSize(<char*>made, out)
        finally:
            free(made)
        return sealed

    def seal_slot(self, const uint8_t[::1] data not None, int64_t logical):
        """One frame."""
        cdef Py_ssize_t size = data.shape[0]
        cdef bytes sealed
        if not 0 < size <= C_BLOCK - HEADER or self.frames_left < 1:
            raise ValueError("that is not a frame")
        sealed = PyBytes_FromStringAndSize(NULL, HEADER + size)
        self._seal_one(&data[0], size, logical, <uint8_t*>PyBytes_AS_STRING(sealed))
        return sealed

    cdef int _seal_one(self, const uint8_t* plain, Py_ssize_t size, int64_t logical, uint8_t* frame) except -1:
        cdef uint8_t nonce[12]
        cdef int done
        self.counter += 1  # before use: whatever happens, this one is not used again
        put_uint32(frame, <uint32_t>size)
        put_uint32(frame + 4, <uint32_t>logical)
        memcpy(frame + SESSION_AT, PyBytes_AS_STRING(self._session), SESSION)
        put_uint32(frame + COUNTER_AT, <uint32_t>self.counter)
        memset(nonce, 0, 8)
        put_uint32(nonce + 8, <uint32_t>self.counter)
        if size < GIL_BYTES:
            done = aes_gcm_seal(self._context, nonce, frame, AUTHENTICATED, plain, <int>size, frame + HEADER, frame + TAG_AT)
        else:
            with nogil:
                done = aes_gcm_seal(
                    self._context, nonce, frame, AUTHENTICATED, plain, <int>size, frame + HEADER, frame + TAG_AT
                )
        if not done:
            raise RuntimeError("libcrypto refused to encrypt")
        return 0


cdef Py_ssize_t batch_at(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """The size of the batch here; all that is left where no whole batch starts."""
    cdef int64_t length
    if size < BATCH_MIN:
        return size
    length = <int64_t>get_uint32(data + BATCH_LENGTH_AT) + BATCH_PREFIX
    return length if BATCH_MIN <= length <= size else size


cdef class FrameOpener:
    """Finds and opens the frames of one file.  `derive` gives the key of a session by its name."""

    cdef object _derive
    cdef dict _readers
    cdef SessionReader _last
    cdef uint8_t _last_session[12]
    cdef uint8_t* _spare

    # Of the last walk
    cdef readonly int64_t end
    cdef readonly int64_t physical_end
    cdef readonly bint rotten
    cdef readonly list slots

    def __cinit__(self):
        self._spare = <uint8_t*>malloc(C_BLOCK)
        if self._spare == NULL:
            raise MemoryError()

    def __init__(self, derive):
        if not libcrypto_load():
            raise CryptoMissing()
        self._derive = derive
        self._readers = {}

    def __dealloc__(self):
        free(self._spare)

    def walk(
        self, const uint8_t[::1] raw not None, int64_t physical, int64_t expected, int64_t start, int64_t stop,
        uint8_t[::1] out=None, bint verify=False, bint listed=False,
    ):
        """Passes the frames in `raw`, which begins with a block at `physical`, where the plain position `expected` is next; -1
        if that is not known.  Those with plain bytes from `start` to `stop` are opened into `out`, whose first byte is the
        one of `start`; what cannot be opened is left as it is there.  `verify`: all are opened.  `listed`: `slots` gets
        (physical, plain position, length) of each sound frame."""
        cdef Py_ssize_t size = raw.shape[0], block = 0, block_end, at
        cdef int64_t length, logical, low, high
        cdef bint lost = False, whole
        cdef uint8_t* target
        self.rotten = False
        self.slots = []
        self.end = expected
        self.physical_end = physical
        if out is not None and out.shape[0] < stop - start:
            raise ValueError("there is no room for what is asked for")
        while block < size:
            block_end = min(block + C_BLOCK, size)
            at = block
            while block_end - at > HEADER:
                length = get_uint32(&raw[at])
                logical = get_uint32(&raw[at] + 4)
                if length == 0 and not lost and is_zero(&raw[at], HEADER):
                    break  # the rest of the block is not used
                if (
                    not 0 < length <= block_end - at - HEADER
                    or (self.end >= 0 and not 0 <= logical - self.end <= physical + at - self.physical_end)
                ):
                    lost = self.rotten = True
                    at += 1
                    continue
                if verify or lost or logical != self.end or (logical < stop and logical + length > start):
                    whole = out is not None and start <= logical and logical + length <= stop and not lost
                    target = &out[0] + (logical - start) if whole else self._spare
                    if not self._open(&raw[at], length, target):
                        if whole:
                            memset(target, 0, length)
                        lost = self.rotten = True
                        at += 1
                        continue
                    low, high = max(logical, start), min(logical + length, stop)
                    if not whole and out is not None and low < high:
                        memcpy(&out[0] + (low - start), self._spare + (low - logical), high - low)
                lost = False
                if listed:
                    self.slots.append((physical + at, logical, length))
                self.end = logical + length
                at += HEADER + length
                self.physical_end = physical + at
                if self.end >= stop and not verify and not listed:
                    return self.end
            block += C_BLOCK
        return self.end

    cdef int _open(self, const uint8_t* frame, int64_t length, uint8_t* plain) except -1:
        """1 when it is what was sealed."""
        cdef uint8_t nonce[12]
        cdef SessionReader reader = self._last
        cdef int done
        if reader is None or memcmp(frame + SESSION_AT, self._last_session, SESSION) != 0:
            reader = self._reader(PyBytes_FromStringAndSize(<char*>(frame + SESSION_AT), SESSION))
            self._last = reader
            memcpy(self._last_session, frame + SESSION_AT, SESSION)
        memset(nonce, 0, 8)
        memcpy(nonce + 8, frame + COUNTER_AT, 4)
        if length < GIL_BYTES:
            return aes_gcm_open(
                reader._context, nonce, frame, AUTHENTICATED, frame + HEADER, <int>length, plain, frame + TAG_AT
            )
        with nogil:
            done = aes_gcm_open(
                reader._context, nonce, frame, AUTHENTICATED, frame + HEADER, <int>length, plain, frame + TAG_AT
            )
        return done

    cdef SessionReader _reader(self, bytes session):
        cdef SessionReader reader = self._readers.get(session)
        if reader is None:
            if len(self._readers) >= READERS_MAX:
                self._readers.clear()
            reader = self._readers[session] = SessionReader(self._derive(session))
        return reader


cdef bint is_zero(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at
    for at in range(size):
        if data[at]:
            return False
    return True


def walk_headers(const uint8_t[::1] raw not None, int64_t physical):
    """(plain position of the first frame, plain end, physical end) of the frames in one block, as their headers say, without
    a key; None where none begins.  A frame that is cut ends the walk."""
    cdef Py_ssize_t size = raw.shape[0], at = 0
    cdef int64_t first = -1, end = -1, length, logical
    while size - at > HEADER and at < C_BLOCK:
        length = get_uint32(&raw[at])
        logical = get_uint32(&raw[at] + 4)
        if length == 0 or length > size - at - HEADER or (first >= 0 and logical != end):
            break
        if first < 0:
            first = logical
        end = logical + length
        at += HEADER + length
    return None if first < 0 else (first, end, physical + at)
