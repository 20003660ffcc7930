"""The suite's broker with security on: TLS and a log-in on every door, an authorizer, and a super user for the suite.

`CONFORMANCE=secured` runs every test against such a broker.  Tests know nothing of it: their clients connect in plain text
to a relay of this process, which logs in over TLS for each connection and then passes bytes both ways.  How each client
logs in by itself is in `test_secured_clients.py` and `test_http_tls.py`."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import re
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.conformance.certificates import make_certificates
from tests.conformance.process import free_port
from tests.conformance.raw import decode_response, encode_request
from tests.conformance.tidelog_broker import TidelogBroker

USER, PASSWORD = "suite", "of-the-suite"
MECHANISM = "PLAIN"
"""With a user of the settings, so that the metadata have no user whom a test did not make."""
PIECE_BYTES = 1 << 18
HEAD_BYTES_MAX = 1 << 20
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class SecuredSuiteBroker(TidelogBroker):
    """`port` and `http` are the relay's; the broker's own doors are behind it."""

    name = "tidelog with security on"

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        super().__init__(home, settings)
        self._kafka_port, self._brokers_port = free_port(), free_port()
        self._http = f"127.0.0.1:{free_port()}"
        self._relayed: set[str] = set()
        home.mkdir(parents=True, exist_ok=True)
        make_certificates(home)

    def start(self) -> None:
        self.port = self.port or free_port()
        kafka, http = self.bootstrap, self.http
        super().start()
        self.port, self.http = int(kafka.rpartition(":")[2]), http
        trust = ssl.create_default_context(cafile=str(self.home / "ca.pem"))
        for address, handler in (
            (kafka, functools.partial(_relay_kafka, self._kafka_port, trust)),
            (http, functools.partial(_relay_http, int(self._http.rpartition(":")[2]), trust)),
        ):
            if address not in self._relayed:
                self._relayed.add(address)
                relays().listen(address, handler)

    def command(self) -> list[str]:
        brokers = f"BROKERS://127.0.0.1:{self._brokers_port}"
        advertised = self.settings.get("advertised.listeners", f"PLAINTEXT://{self.bootstrap}")
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}"'
        secured = {
            # Named as where nothing is secured, so that settings of tests that name the listener fit.
            "listeners": f"PLAINTEXT://127.0.0.1:{self._kafka_port},{brokers}",
            "advertised.listeners": f"{advertised},{brokers}",
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,BROKERS:SASL_SSL",
            "inter.broker.listener.name": "BROKERS",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.jaas.config": f"{module} required {login};",
            "ssl.keystore.location": str(self.home / "broker.pem"),
            "ssl.truststore.location": str(self.home / "ca.pem"),
            "authorizer.class.name": "tidelog",
            "super.users": f"{self.settings.get('super.users', '')};User:{USER}".strip(";"),
            "tidelog.http.ssl": "true",
            "tidelog.http.trusted.proxies": "127.0.0.1",
            "tidelog.audit.topic": "",
        }
        command = super().command()
        del command[command.index("--listen") : command.index("--listen") + 2]
        command[command.index("--http") + 1] = self._http
        return command + [word for item in secured.items() for word in ("--set", "=".join(item))]


class Relays:
    """A thread with an event loop for all relays of this process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True, name="relays").start()

    def listen(self, address: str, handler: Handler) -> None:
        host, _, port = address.rpartition(":")
        started = asyncio.start_server(_closing(handler), host, int(port), limit=HEAD_BYTES_MAX)
        asyncio.run_coroutine_threadsafe(started, self._loop).result(10)


@functools.cache
def relays() -> Relays:
    return Relays()


def _closing(handler: Handler) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one side has gone: so does the other
        finally:
            writer.close()

    return handle


async def _relay_kafka(
    port: int, trust: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    from_broker, to_broker = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    try:
        await _log_in(from_broker, to_broker)
        await _pass_both_ways(reader, to_broker, from_broker, writer)
    finally:
        to_broker.close()


async def _log_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async def ask(api: str, version: int, **fields: object) -> None:
        writer.write(encode_request(api, version, 0, "relay", **fields))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        _, answer = decode_response(api, version, await reader.readexactly(size))
        assert answer.error_code == 0, answer

    await ask("sasl_handshake", 1, mechanism=MECHANISM)
    await ask("sasl_authenticate", 2, auth_bytes=f"\0{USER}\0{PASSWORD}".encode())


async def _relay_http(
    port: int, trust: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Each request gets the suite's log-in, unless it has one."""
    from_broker, to_broker = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    answers = asyncio.ensure_future(_pass(from_broker, writer))
    try:
        while head := await _head(reader):
            to_broker.write(_with_login(head))
            await _pass_body(head, reader, to_broker)
    finally:
        with contextlib.suppress(OSError):
            to_broker.write_eof() if to_broker.can_write_eof() else None
        await answers
        to_broker.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as ended:
        return ended.partial


def _with_login(head: bytes) -> bytes:
    if not head.endswith(b"\r\n\r\n"):
        return head
    more = b"X-Forwarded-Proto: http\r\n"  # so that links in answers lead to the relay
    if not re.search(rb"\r\nauthorization:", head, re.IGNORECASE):
        more += b"Authorization: Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()) + b"\r\n"
    return head[:-2] + more + b"\r\n"


async def _pass_body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    if length is not None:
        left = int(length[1])
        while left and (piece := await reader.read(min(left, PIECE_BYTES))):
            left -= len(piece)
            await _write(writer, piece)
    elif re.search(rb"\r\ntransfer-encoding: *chunked", head, re.IGNORECASE):
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            await _write(writer, line + await reader.readexactly(size + 2))
            if not size:
                return


async def _pass_both_ways(
    from_client: asyncio.StreamReader,
    to_broker: asyncio.StreamWriter,
    from_broker: asyncio.StreamReader,
    to_client: asyncio.StreamWriter,
) -> None:
    """Until one side ends; then both do."""
    ways = [
        asyncio.ensure_future(_pass(from_client, to_broker)),
        asyncio.ensure_future(_pass(from_broker, to_client)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE_BYTES):
        await _write(writer, piece)


async def _write(writer: asyncio.StreamWriter, piece: bytes) -> None:
    writer.write(piece)
    await writer.drain()
