"""A client's connection: frames, the handshake, heartbeats, channels, and how all of that ends.

Frames are served in the order they came.  While a method waits for something, frames after it wait too, and the socket is
not read once there are many: what a client can make the broker keep is bounded."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

from tidelog import errors
from tidelog.broker.session import Session
from tidelog.gateways.amqp.channel import Channel
from tidelog.gateways.amqp.connection_bounds import UnreadAnswers
from tidelog.gateways.amqp.handshake import Handshake
from tidelog.gateways.amqp.methods.publish import Content, begin, published
from tidelog.gateways.amqp.methods.table import HANDLERS
from tidelog.gateways.amqp.pacing import Pacing
from tidelog.gateways.amqp.replies import AmqpError, ConnectionFault, not_allowed
from tidelog.gateways.amqp.rights import Rights
from tidelog.gateways.amqp.services import AmqpServices
from tidelog.gateways.amqp.topology.declarations import Declarer
from tidelog.gateways.amqp.wire.frames import (
    BODY,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    PROTOCOL_HEADER,
    AmqpFrame,
    FrameCutter,
    FrameFault,
    content_header,
    method_frame,
)
from tidelog.gateways.amqp.wire.methods import Method, UnknownMethod, decode_method, encode_method
from tidelog.gateways.amqp.wire.tables import SyntaxFault
from tidelog.logs import SparingLog

if TYPE_CHECKING:
    from tidelog.gateways.amqp.server import AmqpServer

log = logging.getLogger("tidelog.amqp")
sparing = SparingLog(log)

HANDSHAKE_S_MAX = 10.0
CLOSING_S_MAX = 10.0
ENDING = "the end of an AMQP connection"
FIRST_FRAME_BYTES_MAX = 8192
UNSENT_BYTES_MAX = 1 << 20


class AmqpConnection(asyncio.Protocol):
    def __init__(self, server: AmqpServer, services: AmqpServices, listener: str, session_id: str) -> None:
        self.server = server
        self.services = services
        self.id = session_id
        self.listener = listener
        self.session: Session
        self.host = ""
        self.user = ""
        self.declarer = Declarer(session_id, "/", None)
        self.rights: Rights
        self.channels: dict[int, Channel] = {}
        self.frame_bytes_max = FIRST_FRAME_BYTES_MAX
        self.channels_max = 0
        self.heartbeat_s = 0
        self.client_properties: dict[str, Any] = {}
        self.writable = True
        self.opened = False
        self._transport: asyncio.Transport
        self._handshake: Handshake | None = None
        self._cutter: FrameCutter | None = None
        self._start = b""
        self._frames: deque[AmqpFrame] = deque()
        self._busy: asyncio.Task[None] | None = None
        self._contents: dict[int, Content] = {}
        self._closing = False
        self._resumed = asyncio.Event()
        self.pacing = Pacing(self)
        self._heard = self._spoken = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._unread: UnreadAnswers

    # The transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        self.host = str(host)
        self.session = self.server.open_session(self, f"{host}:{port}")
        loop = asyncio.get_running_loop()
        self._heard = self._spoken = loop.time()
        self._unread = UnreadAnswers(self, self._transport, self.server.stalled_ms)
        self._timer = loop.call_later(HANDSHAKE_S_MAX, self._too_slow)
        self.server.came(self, transport.get_extra_info("peername"))

    @property
    def shown(self) -> str:
        return f"{self.session.peer} ({self.session.principal}, listener {self.listener})"

    def write(self, data: bytes) -> None:
        self._spoken = asyncio.get_running_loop().time()
        self._unread.written += len(data)
        self._transport.write(data)

    def pause_writing(self) -> None:
        """The client does not read: neither does the broker, since most frames have an answer."""
        self.writable = False
        self._unread.wait()
        self.pacing.pace()
        for channel in self.channels.values():
            channel.consumers_blocked()

    def resume_writing(self) -> None:
        self.writable = True
        self._unread.end()
        self._serve()
        self.pacing.pace()
        self._resumed.set()
        self._resumed = asyncio.Event()
        for channel in self.channels.values():
            channel.wake()

    async def sent(self, size: int) -> None:
        quotas = self.services.broker.gate.quotas
        if quotas.active and size:
            throttle_ms = quotas.charge_fetch(self.session, size)
            if throttle_ms:
                await asyncio.sleep(throttle_ms / 1000)
        while not self.writable:
            await self._resumed.wait()

    @property
    def waiting_frames(self) -> int:
        return len(self._frames)

    def read(self, now: bool) -> bool:
        """Goes on reading, or stops; false when the connection ends anyway."""
        if self._transport.is_closing():
            return False
        (self._transport.resume_reading if now else self._transport.pause_reading)()
        return True

    def data_received(self, data: bytes) -> None:
        self._heard = asyncio.get_running_loop().time()
        if self._cutter is None:
            self._start += data
            if not self._begin():
                return
            data, self._start = self._start[len(PROTOCOL_HEADER) :], b""
        assert self._cutter is not None
        try:
            self._frames.extend(self._cutter.cut(data))
        except FrameFault as problem:
            self._frames.clear()
            self.fail(ConnectionFault(501, str(problem)))
            return
        quotas = self.services.broker.gate.quotas
        if quotas.active and self.opened:
            throttle_ms = quotas.charge_produce(self.session, len(data))
            if throttle_ms:
                self.pacing.throttled(throttle_ms)
        self._serve()
        self.pacing.pace()

    def _begin(self) -> bool:
        if not PROTOCOL_HEADER.startswith(self._start[: len(PROTOCOL_HEADER)]):
            # As the protocol says: what is served here, and goodbye.
            self._transport.write(PROTOCOL_HEADER)
            self._transport.close()
            return False
        if len(self._start) < len(PROTOCOL_HEADER):
            return False
        self._cutter = FrameCutter(FIRST_FRAME_BYTES_MAX)
        self._handshake = Handshake(self)
        self._handshake.start()
        return True

    # Frames

    def _serve(self) -> None:
        while self._frames and self._busy is None and self.writable:
            frame = self._frames.popleft()
            try:
                pending = self._handle(frame)
            except Exception as problem:
                self._refused(frame.channel, problem)
                continue
            if pending is not None:
                self._busy = asyncio.get_running_loop().create_task(self._finish(frame.channel, pending))

    async def _finish(self, number: int, pending: Awaitable[None]) -> None:
        try:
            await pending
        except Exception as problem:
            self._refused(number, problem)
        finally:
            self._busy = None
        self._serve()
        self.pacing.pace()

    def _refused(self, number: int, problem: Exception) -> None:
        if isinstance(problem, AmqpError):
            error = problem
        elif isinstance(problem, SyntaxFault | FrameFault):
            error = ConnectionFault(501, str(problem))
        elif isinstance(problem, errors.TidelogError):
            error = AmqpError(506 if number == 0 else 406, str(problem), hard=number == 0)
        else:
            log.error("a method of %s failed", self.shown, exc_info=problem)
            error = ConnectionFault(541, "the broker could not serve a method: see its log")
        channel = self.channels.get(number)
        if error.hard or channel is None:
            self.fail(error)
            return
        if (content := self._contents.pop(number, None)) is not None:
            self.server.unfinished.hold(self, -content.size)
        sparing.warning(self.host, "closing channel %d of %s: %s", number, self.shown, error.reply_text)
        class_id, method_id = self._at_fault
        channel.send(
            "channel.close",
            reply_code=error.code,
            reply_text=error.reply_text,
            class_id=class_id,
            method_id=method_id,
        )
        channel.closing = True
        self.server.spawn(channel.close())

    _at_fault = (0, 0)

    def _handle(self, frame: AmqpFrame) -> Awaitable[None] | None:
        if self._closing and not (frame.kind == METHOD and frame.channel == 0):
            return None
        if frame.kind == HEARTBEAT:
            if frame.channel:
                raise ConnectionFault(501, "a heartbeat is for channel 0")
            return None
        if frame.kind == METHOD:
            try:
                method = decode_method(frame.payload)
            except UnknownMethod as problem:
                self._at_fault = problem.class_id, problem.method_id
                raise ConnectionFault(540, str(problem)) from None
            self._at_fault = method.spec.class_id, method.spec.method_id
            if frame.channel == 0:
                return self._of_connection(method)
            return self._of_channel(frame.channel, method)
        if frame.kind not in (HEADER, BODY):
            raise ConnectionFault(501, f"frame type {frame.kind} is unknown")
        return self._content(frame)

    def _of_connection(self, method: Method) -> Awaitable[None] | None:
        if method.name == "connection.close":
            self.write(method_frame(0, encode_method("connection.close-ok")))
            self._transport.close()
            return None
        if method.name == "connection.close-ok":
            self._transport.close()
            return None
        if self._closing:
            return None
        if self._handshake is not None:
            return self._handshake.received(method)
        if method.name == "connection.update-secret":
            raise ConnectionFault(540, "connections log in with a password: there is no secret to update")
        raise ConnectionFault(503, f"{method.name} cannot be sent on channel 0 now")

    def _of_channel(self, number: int, method: Method) -> Awaitable[None] | None:
        if not self.opened:
            raise ConnectionFault(504, f"{method.name} came before the connection was open")
        channel = self.channels.get(number)
        name = method.name
        if number in self._contents:
            raise ConnectionFault(505, f"expected content header for class 60, got method {name} instead")
        if name == "channel.open":
            self._open_channel(number, channel)
            return None
        if channel is None:
            raise ConnectionFault(504, "expected 'channel.open'")
        if name in ("channel.close", "channel.close-ok"):
            return self._close_channel(channel, answer=name == "channel.close")
        if channel.closing:
            return None
        if name == "basic.publish":
            self._contents[number] = begin(channel, method.fields)
            self.pacing.publishes()
            return None
        handler = HANDLERS.get(name)
        if handler is None:
            raise ConnectionFault(503, f"{name} is not for clients to send")
        return handler(channel, method.fields)

    def _open_channel(self, number: int, channel: Channel | None) -> None:
        if channel is not None:
            raise ConnectionFault(504, "second 'channel.open' seen")
        if len(self.channels) >= self.channels_max:
            raise not_allowed(
                f"number of channels opened ({len(self.channels)}) has reached the negotiated channel_max "
                f"({self.channels_max})"
            )
        opened = self.channels[number] = Channel(number, self)
        opened.send("channel.open-ok")

    async def _close_channel(self, channel: Channel, answer: bool) -> None:
        if not channel.closing:
            await channel.close()
        self.channels.pop(channel.number, None)
        if answer:
            self.write(method_frame(channel.number, encode_method("channel.close-ok")))

    def _content(self, frame: AmqpFrame) -> Awaitable[None] | None:
        channel = self.channels.get(frame.channel)
        if channel is not None and channel.closing:
            return None
        content = self._contents.get(frame.channel)
        if content is None or channel is None:
            raise ConnectionFault(505, "expected method frame, got non method frame instead")
        if content.properties is None:
            if frame.kind != HEADER:
                raise ConnectionFault(
                    505, "expected content header for class 60, got non content header frame instead"
                )
            whole = content.header(*content_header(frame.payload))
        elif frame.kind != BODY:
            raise ConnectionFault(505, "expected content body, got non content body frame instead")
        else:
            whole = content.body(frame.payload)
            self.server.unfinished.hold(self, len(frame.payload))
            if self._closing:
                return None
        if whole:
            del self._contents[frame.channel]
            self.server.unfinished.hold(self, -content.size)
            published(channel, content)
        return None

    # The handshake's results

    def tuned(self, channels_max: int, frame_bytes_max: int, heartbeat_s: int) -> None:
        self.channels_max, self.frame_bytes_max, self.heartbeat_s = channels_max, frame_bytes_max, heartbeat_s
        assert self._cutter is not None
        self._cutter.frame_bytes_max = frame_bytes_max

    def open(self, vhost: str, tenant: str | None) -> None:
        self.declarer = Declarer(self.id, vhost, tenant)
        broker = self.services.broker
        self.rights = Rights(broker.gate, self.session, vhost, tenant, lambda: broker.image().topics)
        self.opened = True
        self.server.opened(self)
        self._handshake = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.heartbeat_s:
            self._beat()

    def has_capability(self, name: str) -> bool:
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(name) is True

    def _too_slow(self) -> None:
        sparing.warning(self.host, "closing the connection of %s: its handshake takes too long", self.shown)
        self._transport.abort()

    def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._heard > 2 * self.heartbeat_s and not self.pacing.paused:
            sparing.warning(
                self.host,
                "closing the connection of %s: no heartbeat for %d s",
                self.shown,
                2 * self.heartbeat_s,
            )
            self._transport.abort()
            return
        if now - self._spoken >= self.heartbeat_s / 2 - 0.05 and self.writable:
            self.write(HEARTBEAT_FRAME)
        self._timer = loop.call_later(self.heartbeat_s / 2, self._beat)

    # The end

    def fail(self, error: AmqpError) -> None:
        """Tells the client why the connection ends, and waits a while for its answer."""
        if self._closing or self._transport.is_closing():
            return
        self._closing = True
        self._contents.clear()
        self.server.unfinished.free(self)
        sparing.warning(self.host, "closing the connection of %s: %s", self.shown, error.reply_text)
        class_id, method_id = self._at_fault
        close = encode_method(
            "connection.close",
            reply_code=error.code,
            reply_text=error.reply_text,
            class_id=class_id,
            method_id=method_id,
        )
        self.write(method_frame(0, close))
        asyncio.get_running_loop().call_later(CLOSING_S_MAX, self._transport.abort)

    def abort(self) -> None:
        self._transport.abort()

    def drop(self) -> None:
        """Closes the socket without a word."""
        self._transport.close()

    def connection_lost(self, problem: Exception | None) -> None:
        self._closing = True
        self.writable = True
        self._resumed.set()
        self._unread.end()
        self.server.unfinished.free(self)
        self.pacing.ended()
        if self._timer is not None:
            self._timer.cancel()
        self._frames.clear()
        self.server.spawn(self._end(), ENDING)

    async def _end(self) -> None:
        if self._busy is not None:
            await asyncio.gather(self._busy, return_exceptions=True)
        for channel in list(self.channels.values()):
            await channel.close()
        self.channels.clear()
        await self.server.ended(self)
