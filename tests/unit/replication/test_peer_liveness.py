"""When a broker is taken for gone before its lease says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from tidelog import errors
from tidelog.metadata import changes
from tidelog.metadata.records import CONTROLLER, BrokerRecord, Endpoint, broker_key
from tidelog.metadata.store import Put
from tidelog.net.requester import Requester, Unreachable
from tidelog.replication.peer_liveness import PeerLiveness
from tidelog.testing import VirtualMetadata
from tidelog.types import NodeId

pytestmark = pytest.mark.simulated

ME, OTHER = NodeId(1), NodeId(2)


class Connection:
    """As much of a requester as it uses."""

    def __init__(self) -> None:
        self._end = asyncio.Event()

    async def ended(self) -> None:
        await self._end.wait()

    def close(self) -> None:
        self._end.set()


class Peers:
    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.made: list[Connection] = []

    async def connect(self, node: NodeId) -> Requester:
        assert node == OTHER
        if self.problem is not None:
            raise self.problem
        self.made.append(Connection())
        return self.made[-1]  # type: ignore[return-value]


def refused() -> Exception:
    problem = Unreachable("nobody listens")
    problem.__cause__ = ConnectionRefusedError()
    return problem


def silent() -> Exception:
    problem = Unreachable("no answer")
    problem.__cause__ = TimeoutError()
    return problem


Act = Callable[[VirtualMetadata, Peers], Awaitable[None]]


async def watched(random: Random, act: Act, first: Exception | None = None) -> set[str]:
    """The keys that are left."""
    metadata, peers = VirtualMetadata(random), Peers()
    peers.problem = first
    store = metadata.connect("broker-1")
    await _register(metadata, "one")
    await metadata.connect("x").txn((), [Put(CONTROLLER, b"%d" % OTHER)])
    liveness = PeerLiveness(ME, peers, store)
    liveness.learned(changes.read(metadata.select("")))
    await asyncio.sleep(5)
    await act(metadata, peers)
    await asyncio.sleep(5)
    left = set(metadata.content())
    await liveness.stop()
    return left


async def _register(metadata: VirtualMetadata, incarnation: str) -> None:
    told = BrokerRecord((Endpoint("PLAINTEXT", "h", 1),), incarnation=incarnation)
    await metadata.connect("x").txn((), [Put(broker_key(OTHER), told.encode())])


BOTH = {broker_key(OTHER), CONTROLLER}


async def test_a_broker_whose_connection_breaks_and_whose_port_refuses_is_gone_and_controls_nothing(
    random: Random,
) -> None:
    async def dies(metadata: VirtualMetadata, peers: Peers) -> None:
        peers.problem = refused()
        peers.made[-1].close()

    assert await watched(random, dies) == set()


async def test_a_connection_that_breaks_alone_says_nothing(random: Random) -> None:
    async def resets(metadata: VirtualMetadata, peers: Peers) -> None:
        peers.made[-1].close()

    assert await watched(random, resets) == BOTH


@pytest.mark.parametrize("problem", [silent(), errors.BrokerNotAvailable("it is not registered")])
async def test_a_broker_that_does_not_answer_keeps_its_place(random: Random, problem: Exception) -> None:
    async def freezes(metadata: VirtualMetadata, peers: Peers) -> None:
        peers.problem = problem
        peers.made[-1].close()

    assert await watched(random, freezes) == BOTH


async def test_a_broker_that_was_never_reached_is_not_judged(random: Random) -> None:
    async def nothing(metadata: VirtualMetadata, peers: Peers) -> None:
        assert not peers.made

    assert await watched(random, nothing, first=refused()) == BOTH


async def test_one_that_is_back_already_is_left_alone(random: Random) -> None:
    async def comes_back(metadata: VirtualMetadata, peers: Peers) -> None:
        await _register(metadata, "two")
        peers.problem = refused()
        peers.made[-1].close()

    assert await watched(random, comes_back) == BOTH
