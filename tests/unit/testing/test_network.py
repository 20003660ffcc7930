"""The simulated network keeps TCP's promises and nothing more."""

from __future__ import annotations

import asyncio
import socket as system
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.net.network import Socket
from tidelog.testing import Process, VirtualLoop, VirtualNetwork, run
from tidelog.testing.network import CONNECT_TIMEOUT_S
from tidelog.testing.sockets import VirtualSocket

pytestmark = pytest.mark.simulated


async def readable(socket: VirtualSocket) -> None:
    await _ready(asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader, socket)


async def writable(socket: VirtualSocket) -> None:
    await _ready(asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer, socket)


async def _ready(add: Callable[..., None], remove: Callable[..., bool], socket: VirtualSocket) -> None:
    ready = asyncio.get_running_loop().create_future()
    add(socket.fileno(), lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        remove(socket.fileno())


async def receive(socket: VirtualSocket, most: int = 1 << 20) -> bytes:
    """The bytes of the next successful read."""
    buffer = bytearray(most)
    while True:
        try:
            return bytes(buffer[: socket.recv_into(buffer)])
        except BlockingIOError:
            await readable(socket)


async def receive_all(socket: VirtualSocket, at_once: int = 1 << 20) -> bytes:
    data = b""
    while piece := await receive(socket, at_once):
        data += piece
    return data


async def send_all(socket: VirtualSocket, data: bytes) -> None:
    while data:
        try:
            data = data[socket.send(data) :]
        except BlockingIOError:
            await writable(socket)


async def connected(network: VirtualNetwork) -> tuple[VirtualSocket, VirtualSocket]:
    """(on host "client", on host "server")"""
    server = network.host("server")
    listener = server.listeners.get(9) or server.listen("server", 9)
    near = await network.host("client").connect("server", 9)
    far, _ = listener.accept()
    return near, far


EACH_SEED = pytest.mark.parametrize("seed", range(5))


async def transferred(
    random: Random, pieces: list[bytes], buffer_bytes: int, read_bytes: int
) -> tuple[bytes, float]:
    """The bytes that arrived, and the time that this took."""
    network = VirtualNetwork(random)
    network.buffer_bytes = buffer_bytes
    near, far = await connected(network)
    arriving = asyncio.ensure_future(receive_all(far, read_bytes))
    for piece in pieces:
        await send_all(near, piece)
    near.close()
    return await arriving, asyncio.get_running_loop().time()


@settings(deadline=None, max_examples=50)
@given(
    st.integers(),
    st.lists(st.binary(min_size=1, max_size=3000), min_size=1, max_size=8),
    st.integers(1, 2000),
    st.integers(1, 100),
)
def test_what_arrives_is_what_was_sent_in_order_and_then_the_end(
    seed: int, pieces: list[bytes], buffer_bytes: int, read_bytes: int
) -> None:
    def transfer() -> tuple[bytes, float]:
        return run(lambda random: transferred(random, pieces, buffer_bytes, read_bytes), seed)

    first = transfer()
    assert first[0] == b"".join(pieces)
    assert transfer() == first, "the same seed took another course"


@EACH_SEED
async def test_segments_are_cut_and_joined_anywhere(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    near, far = await connected(network)
    sent = [b"request-%d" % number for number in range(200)]
    arriving = asyncio.ensure_future(_pieces(far))
    for piece in sent:
        await send_all(near, piece)
        await asyncio.sleep(0.000_5)
    near.close()
    pieces = await arriving
    assert b"".join(pieces) == b"".join(sent)
    assert any(not piece.startswith(b"request") for piece in pieces), "never cut"
    assert any(piece.count(b"request") > 1 for piece in pieces), "never joined"


async def _pieces(socket: VirtualSocket) -> list[bytes]:
    pieces = []
    while piece := await receive(socket):
        pieces.append(piece)
    return pieces


@EACH_SEED
async def test_a_sender_whose_peer_does_not_read_is_stopped(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    network.buffer_bytes = 1000
    near, far = await connected(network)
    sent = 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            while True:
                try:
                    sent += near.send(bytes(300))
                except BlockingIOError:
                    await writable(near)
    assert sent == 2000
    got = len(await receive(far))
    assert got == 1000
    await writable(near)
    assert near.send(bytes(300)) > 0


@EACH_SEED
async def test_a_smaller_send_buffer_can_be_asked_for(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    near, _ = await connected(network)
    near.setsockopt(system.SOL_SOCKET, system.SO_SNDBUF, 10)
    network.short_send_chance = 0
    assert near.send(bytes(100)) == 10
    assert near.sendmsg([]) == 0


@EACH_SEED
async def test_a_reset_breaks_both_ends(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    near, far = await connected(network)
    near.send(b"lost")
    assert network.reset("client") == 1
    for end in (near, far):
        await readable(end)
        with pytest.raises(ConnectionResetError):
            end.recv_into(bytearray(1))
        with pytest.raises(ConnectionResetError):
            end.send(b"x")
        end.close()
    assert network.reset() == 0


@EACH_SEED
async def test_closing_with_unread_bytes_resets_the_peer(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    near, far = await connected(network)
    near.send(b"never read")
    await readable(far)
    far.close()
    with pytest.raises(ConnectionResetError):
        await receive(near)


@EACH_SEED
async def test_sending_to_a_closed_peer_ends_in_a_reset(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    near, far = await connected(network)
    far.close()
    assert await receive(near) == b""
    near.send(b"too late")
    await asyncio.sleep(1)
    with pytest.raises(ConnectionResetError):
        near.send(b"x")


@EACH_SEED
async def test_a_cut_line_holds_bytes_back_until_it_is_healed(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    near, far = await connected(network)
    network.cut("client", "server", one_way=True)
    await send_all(near, b"held back")
    near.close()
    await asyncio.sleep(100)
    with pytest.raises(BlockingIOError):
        far.recv_into(bytearray(1))
    network.heal()
    assert await receive_all(far) == b"held back"


@EACH_SEED
async def test_one_way_means_one_way(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    near, far = await connected(network)
    network.cut("client", "server", one_way=True)
    far.send(b"passes")
    assert await receive(near) in [b"passes"[:count] for count in range(1, 7)]
    network.cut("client", "server")
    await asyncio.sleep(1)
    near.send(b"x")
    far.send(b"x")
    await asyncio.sleep(1)
    for end in (near, far):
        with pytest.raises(BlockingIOError):
            end.recv_into(bytearray(1 << 20))


async def order_of_service(random: Random) -> str:
    """The names of two sockets that are ready together, in the order in which the loop serves them."""
    network, served = VirtualNetwork(random), list[str]()
    (near, far), (other_near, other_far) = await connected(network), await connected(network)
    near.send(b"x")
    other_near.send(b"x")
    await asyncio.sleep(1)
    loop = asyncio.get_running_loop()
    for name, socket in (("a", far), ("b", other_far)):
        loop.add_reader(
            socket.fileno(), lambda n=name, s=socket: served.append(n) or s.recv_into(bytearray(9))
        )
    await asyncio.sleep(1)
    for socket in (far, other_far):
        loop.remove_reader(socket.fileno())
    return "".join(served)


def test_sockets_that_are_ready_together_are_served_in_any_order() -> None:
    assert {run(order_of_service, seed) for seed in range(20)} == {"ab", "ba"}


@EACH_SEED
async def test_bytes_sent_by_a_process_arrive_after_its_death(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    near, far = await connected(network)
    process = Process("sender")

    async def send_and_die() -> None:
        await send_all(far, b"last words")
        process.kill()
        network.host("server").kill_process()

    process.spawn(send_and_die())
    assert await receive_all(near) == b"last words"


@EACH_SEED
async def test_connecting_fails_as_it_does_on_a_real_network(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    client = network.host("client")
    with pytest.raises(ConnectionRefusedError, match="no host is called nobody"):
        await client.connect("nobody", 1)
    network.host("server")
    with pytest.raises(ConnectionRefusedError, match="no process listens"):
        await client.connect("server", 1)
    network.cut("client", "server")
    before = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError, match="does not answer"):
        await client.connect("server", 1)
    assert asyncio.get_running_loop().time() - before == pytest.approx(CONNECT_TIMEOUT_S)


@EACH_SEED
async def test_a_connection_attempt_goes_on_when_the_line_is_healed(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    network.host("server").listen("", 9)
    network.cut("client", "server")
    attempt = asyncio.ensure_future(network.host("client").connect("server", 9))
    await asyncio.sleep(5)
    assert not attempt.done()
    network.heal()
    (await attempt).close()


@EACH_SEED
async def test_the_network_itself_is_the_view_of_localhost(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    listener = network.listen("127.0.0.1", 0)
    near: Socket = await network.connect("localhost", listener.getsockname()[1])
    far, address = listener.accept()
    assert far.getpeername() == address == near.getsockname()
    with pytest.raises(BlockingIOError):
        listener.accept()
    with pytest.raises(OSError, match="taken"):
        network.listen("", listener.getsockname()[1])
    with pytest.raises(OSError, match="not an address"):
        network.host("other").listen("localhost.localdomain", 1)


@EACH_SEED
async def test_a_killed_process_leaves_its_sent_bytes_and_closed_connections(
    random: Random, seed: int
) -> None:
    network = VirtualNetwork(random)
    near, far = await connected(network)
    await send_all(far, b"last words")
    waiting = await network.host("client").connect("server", 9)
    network.host("server").kill_process()
    assert await receive_all(near) == b"last words"
    with pytest.raises(ConnectionResetError):
        await receive(waiting)
    with pytest.raises(ConnectionRefusedError):
        await network.host("client").connect("server", 9)
    with pytest.raises(OSError, match="closed"):
        far.send(b"x")


@EACH_SEED
async def test_a_machine_without_power_says_nothing_and_resets_old_peers_once_it_is_back(
    random: Random, seed: int
) -> None:
    network = VirtualNetwork(random)
    near, far = await connected(network)
    network.latency_s = (0.1, 0.1)
    far.send(b"in flight")
    server = network.host("server")
    server.power_off()
    near.send(b"anybody?")
    await asyncio.sleep(100)
    with pytest.raises(BlockingIOError):
        near.recv_into(bytearray(1))
    with pytest.raises(TimeoutError):
        await network.host("client").connect("server", 9)
    server.power_on()
    with pytest.raises(ConnectionResetError):
        await receive(near)


@EACH_SEED
async def test_closing_a_watched_socket_is_an_error(random: Random, seed: int) -> None:
    network = VirtualNetwork(random)
    near, far = await connected(network)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.add_reader(near.fileno(), print)
    with pytest.raises(RuntimeError, match="watches"):
        near.close()
    assert near.fileno() == -1
    far.close()
    far.close()


async def make_network() -> None:
    VirtualNetwork()


def test_a_network_needs_the_virtual_loop() -> None:
    with pytest.raises(RuntimeError, match=r"tidelog\.testing\.run"):
        asyncio.run(make_network())
