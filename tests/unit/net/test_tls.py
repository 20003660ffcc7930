"""TLS over the in-memory network, whose segments are cut and whose sends are short."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tidelog.net.tls import TlsSocket
from tidelog.testing import VirtualNetwork, seeds

pytest.importorskip("cryptography")
from tests.conformance.certificates import make_certificates

pytestmark = pytest.mark.simulated


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


async def event(number: int, *, reading: bool) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_reader, loop.remove_reader) if reading else (loop.add_writer, loop.remove_writer)
    add(number, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        remove(number)


async def send_all(socket: Any, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[socket.send(left) :]
        except BlockingIOError:
            await event(socket.fileno(), reading=False)


async def read_all(socket: Any, size: int) -> bytes:
    received = bytearray()
    buffer = bytearray(1_000)
    while len(received) < size:
        try:
            count = socket.recv_into(buffer)
        except BlockingIOError:
            await event(socket.fileno(), reading=True)
            continue
        if not count:
            break
        received += buffer[:count]
    return bytes(received)


async def joined(random: Random, folder: Path, authority: str) -> tuple[TlsSocket, TlsSocket]:
    network = VirtualNetwork(random)
    network.split_chance, network.short_send_chance, network.buffer_bytes = 0.3, 0.3, 8 * 1024
    listener = network.host("server").listen("", 9092)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(folder / "broker.pem")
    client_context = ssl.create_default_context(cafile=str(folder / authority))
    inner = await network.host("client").connect("server", 9092)
    while True:
        try:
            accepted, _ = listener.accept()
            break
        except BlockingIOError:
            await event(listener.fileno(), reading=True)
    listener.close()
    client = TlsSocket(inner, client_context, "127.0.0.1")
    server = TlsSocket(accepted, server_context, None, server=True)
    outcome = await asyncio.gather(client.handshake(), server.handshake(), return_exceptions=True)
    for problem in outcome:
        if isinstance(problem, BaseException):
            client.close()
            server.close()
            raise problem
    return client, server


@pytest.mark.parametrize("seed", seeds(10))
async def test_what_is_sent_arrives_both_ways_at_once(random: Random, seed: int, certificates: Path) -> None:
    client, server = await joined(random, certificates, "ca.pem")
    sent, back = random.randbytes(150_000), random.randbytes(90_000)
    received = await asyncio.gather(
        send_all(client, sent),
        send_all(server, back),
        read_all(server, len(sent)),
        read_all(client, len(back)),
    )
    assert received[2] == sent and received[3] == back
    client.close()
    assert await read_all(server, 1) == b""
    server.close()


@pytest.mark.simulated(seed=1)
async def test_a_certificate_of_somebody_else_is_refused(random: Random, certificates: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await joined(random, certificates, "other-ca.pem")
