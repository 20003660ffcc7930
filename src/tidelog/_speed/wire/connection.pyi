"""One non-blocking connection: cuts frames, hands requests on in serial order, writes bytes and file slices."""

import asyncio
from typing import Any

from tidelog._speed.log.request_metrics import RequestMetrics
from tidelog._speed.wire.poller import Poller
from tidelog._speed.wire.queued_bytes import QueuedBytes, RequestReader
from tidelog._speed.wire.session import SessionState
from tidelog._speed.wire.shortcut import ProduceShortcut

Answer = (
    bytes | list[Any]
)  # a whole frame, or its pieces: bytes and objects with `size` and `send(socket, done) -> int`

class FrameConnection(RequestReader):
    """Subclass it and override `frame_arrived`, `refused` and `connection_closed`.

    `shortcut` may answer produce requests in the common case; `frame_arrived` gets all others.  Requests and answers are
    counted in `tally`.

    `frame_arrived` gets a view that is valid only until it returns.  It gives back the answer, None when there is
    none to send, or a Future of one of these.  Requests run one after the other: it is called when everything before is
    answered.  Only Produces follow unanswered Produces; their answers leave in the order of the requests."""

    frames: int
    bytes_out: int
    idle_ticks: int
    is_closed: bool

    def __init__(
        self,
        watcher: asyncio.AbstractEventLoop | Poller,
        sock: Any,
        scratch: bytearray,
        frame_bytes_max: int,
        in_flight_max: int,
        shortcut: ProduceShortcut | None = None,
        tally: RequestMetrics | None = None,
        queued: QueuedBytes | None = None,
        session: SessionState | None = None,
    ) -> None:
        """`sock` is a socket of the system, or a byte stream with its methods: one that has `pending` may hold bytes that
        make no descriptor readable.  Without a session nothing takes the shortcut."""
    @property
    def unanswered(self) -> int: ...
    @property
    def in_flight(self) -> int:
        """Requests without an answer, and answers that have not left."""
    @property
    def unsent_bytes(self) -> int:
        """Of answers, without file slices: those take no memory."""

    def start(self) -> None: ...
    def drain(self) -> None:
        """No more requests; those that are under way are still answered."""

    @property
    def next_waits(self) -> bool:
        """Whether another request has arrived that is handed on when those before it are answered."""

    def hold(self, frame: int, waits: asyncio.Future[Any]) -> bool:
        """For the answer to the request that was number `frame` of this connection: it waits for `waits`, which is
        completed as soon as another request arrives.  False: one has, or is being held up, so it must not wait."""

    def pause(self) -> None:
        """No further request is handed on before `resume`: what comes later must not overtake the one under way."""

    def resume(self) -> None: ...
    def bound(self, frame_bytes_max: int, queued: QueuedBytes) -> None:
        """Larger or smaller frames are taken from now on, and what the connection holds counts in `queued`."""

    def mute(self) -> None:
        """As `pause`, and apart from it: only `unmute` ends it."""

    def unmute(self) -> None: ...
    def close(self) -> None: ...
    def frame_arrived(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int
    ) -> Answer | asyncio.Future[Any] | None: ...
    def refused(self, problem: BaseException) -> None: ...
    def connection_closed(self) -> None: ...
