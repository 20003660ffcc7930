"""Requests of every served API and version, good ones and mutilated ones, to a whole broker in memory: each is answered
or refused as the client's fault, and the broker stays sound."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.property.broker.inside import Inside, broker_inside
from tests.property.broker.requests import SERVED, bent_frame, frame
from tidelog.broker.routes import ROUTES
from tidelog.metadata.records import broker_key
from tidelog.metadata.registration import Registration
from tidelog.metadata.store import Delete
from tidelog.testing import seeds
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

pytestmark = pytest.mark.simulated

FOUND = Path(__file__).parents[2] / "data" / "fuzz"
REQUESTS = 300
FIND_COORDINATOR = 10
_ONE_KEY = FindCoordinatorRequest(key="group")


async def ask_at_random(inside: Inside, random: Random) -> None:
    for number in range(REQUESTS):
        if number % 20 == 0:
            await inside.restore()
        request = frame(random, *random.choice(SERVED), inside.known)
        if random.random() < 0.5:
            request = bent_frame(random, request)
        await ask(inside, request)


async def ask(inside: Inside, request: bytes) -> bytes | None:
    try:
        return await inside.ask(request)
    except BaseException as problem:
        problem.add_note(f"the request, to be kept in {FOUND.name}: {request.hex()}")
        raise


@pytest.mark.parametrize("seed", seeds(15))
async def test_every_request_is_answered_or_refused(random: Random, seed: int) -> None:
    async with broker_inside(random) as inside:
        await ask_at_random(inside, random)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(2000, start=1000))
async def test_every_request_is_answered_or_refused_for_longer(random: Random, seed: int) -> None:
    async with broker_inside(random) as inside:
        await ask_at_random(inside, random)


async def test_every_api_answers_a_sound_request_in_every_version(random: Random) -> None:
    """The fuzzer reaches the handlers, and does not only bounce off the decoders."""
    async with broker_inside(random) as inside:
        answered = set()
        for _ in range(8):
            await inside.restore()
            for api_key, version in SERVED:
                if await ask(inside, frame(random, api_key, version, inside.known)) is not None:
                    answered.add((api_key, version))
        missing = [(ROUTES[key].name, version) for key, version in SERVED if (key, version) not in answered]
        assert not missing


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.hex")), ids=lambda path: path.stem)
async def test_what_was_found_before_is_answered_or_refused(random: Random, path: Path) -> None:
    async with broker_inside(random) as inside:
        for line in path.read_text().splitlines():
            if not line.startswith("#"):
                await ask(inside, bytes.fromhex(line))


async def test_a_broker_that_lost_its_registration_asks_for_patience(
    random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is registered again, which takes long here."""

    async def slowly(_: Registration) -> int:
        return await asyncio.get_running_loop().create_future()

    async with broker_inside(random) as inside:
        monkeypatch.setattr(Registration, "register", slowly)
        await inside.change([Delete(broker_key(inside.node))])
        for version in (3, 6):
            request = FindCoordinatorRequest(coordinator_keys=["group"]) if version > 3 else _ONE_KEY
            body = await inside.call(FIND_COORDINATOR, version, request)
            answer = FindCoordinatorResponse.decode(body, version)
            codes = [each.error_code for each in answer.coordinators] or [answer.error_code]
            assert codes == [15]
