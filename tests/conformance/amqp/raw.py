"""A client that sends bytes of its own."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from tidelog.gateways.amqp.wire.frames import PROTOCOL_HEADER, AmqpFrame, FrameCutter, method_frame
from tidelog.gateways.amqp.wire.methods import Method, decode_method, encode_method

SECONDS_MAX = 30.0


class Raw:
    def __init__(self, server: Any) -> None:
        self.socket = socket.create_connection((server.host, server.amqp_port), SECONDS_MAX)
        self._cutter = FrameCutter(1 << 20)
        self._frames: list[AmqpFrame] = []

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def method(self, channel: int, name: str, **fields: Any) -> None:
        self.send(method_frame(channel, encode_method(name, **fields)))

    def receive(self) -> AmqpFrame | None:
        """None: the server has closed the connection."""
        while not self._frames:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._frames = self._cutter.cut(data)
        return self._frames.pop(0)

    def expect(self, name: str) -> Method:
        while True:
            received = self.receive()
            assert received is not None, f"the connection was closed before {name}"
            if received.kind == 1:
                method = decode_method(received.payload)
                assert method.name == name, method
                return method

    def open(self, vhost: str = "/", login: bytes = b"\0guest\0guest", **tune: int) -> Raw:
        self.send(PROTOCOL_HEADER)
        self.expect("connection.start")
        capabilities = {"capabilities": {"authentication_failure_close": True}}
        self.method(
            0,
            "connection.start-ok",
            client_properties=capabilities,
            mechanism="PLAIN",
            response=login,
            locale="en_US",
        )
        self.expect("connection.tune")
        self.method(
            0, "connection.tune-ok", **{"channel_max": 100, "frame_max": 8192, "heartbeat": 0, **tune}
        )
        self.method(0, "connection.open", virtual_host=vhost)
        return self

    def opened(self, **tune: int) -> Raw:
        self.open(**tune)
        self.expect("connection.open-ok")
        self.method(1, "channel.open")
        self.expect("channel.open-ok")
        return self

    def closed(self) -> int:
        """The code that the server closes the connection with."""
        while True:
            received = self.receive()
            assert received is not None, "the connection was closed without a word"
            if received.kind == 1 and (method := decode_method(received.payload)).name == "connection.close":
                return int(method.fields["reply_code"])

    def ended(self) -> int | None:
        """The code, or None where the server says nothing."""
        with contextlib.suppress(AssertionError):
            return self.closed()
        return None
