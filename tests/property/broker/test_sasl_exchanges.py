"""Exchanges of each mechanism, bent: cut off, replayed, out of order, of another exchange, with another mechanism in the
middle.  Nobody is let in but by the whole exchange of a user who knows the secret, and nothing but a refusal comes back."""

from __future__ import annotations

from random import Random

import pytest

from tests.property.broker.inside import Inside, broker_inside
from tidelog import errors
from tidelog.broker.session import Session
from tidelog.metadata.access_records import CredentialName
from tidelog.net.scram import ScramCredential
from tidelog.net.scram_client import HASHES, ScramClient
from tidelog.testing import seeds

pytestmark = pytest.mark.simulated

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
UNKNOWN = ("GSSAPI", "EXTERNAL", "ANONYMOUS", "", "plain", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS")
USER, PASSWORD = "ann", "open, sesame=1"
ITERATIONS = 4_096
ROUNDS = 60
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere/jwks.json",
}


class Exchange:
    """One session, and what its client sends and is answered."""

    def __init__(self, inside: Inside) -> None:
        self._logins = inside._services.logins
        self.session: Session = inside._services.gate.open("PLAINTEXT", "10.0.0.1:1", "SASL_PLAINTEXT")

    def begin(self, mechanism: str) -> bool:
        try:
            self._logins.begin(self.session, mechanism)
        except (errors.UnsupportedSaslMechanism, errors.IllegalSaslState):
            return False
        return True

    async def say(self, message: bytes) -> bytes | None:
        """None for a refusal; anything else that is raised fails the test."""
        try:
            answer, _ = await self._logins.respond(self.session, message)
        except (errors.SaslAuthenticationFailed, errors.IllegalSaslState) as problem:
            assert PASSWORD not in str(problem) and USER not in str(problem)
            return None
        return bytes(answer)


async def add_user(inside: Inside) -> None:
    credentials = {
        CredentialName(name, USER): ScramCredential.of_password(name, PASSWORD, b"s" * 24, ITERATIONS)
        for name in HASHES
    }
    await inside._services.controller.access.alter_credentials(credentials, [])


async def transcript(inside: Inside, mechanism: str, random: Random) -> list[bytes]:
    """What the client said in an exchange that let it in."""
    exchange = Exchange(inside)
    assert exchange.begin(mechanism)
    if mechanism == "PLAIN":
        said = [f"\0{USER}\0{PASSWORD}".encode()]
        assert await exchange.say(said[0]) is not None
    else:
        client = ScramClient(HASHES[mechanism], USER, PASSWORD, f"nonce{random.getrandbits(64):x}")
        said = [client.first()]
        answer = await exchange.say(said[0])
        assert answer is not None
        said.append(client.final(answer))
        assert await exchange.say(said[1]) is not None
    assert exchange.session.admitted and exchange.session.principal == f"User:{USER}"
    return said


def bent(random: Random, message: bytes) -> bytes:
    kind = random.randrange(6)
    place = random.randrange(len(message))
    if kind == 0:
        return message[:place]
    if kind == 1:
        return message[:place] + bytes((message[place] ^ (1 << random.randrange(8)),)) + message[place + 1 :]
    if kind == 2:
        return message[:place] + random.randbytes(random.randrange(1, 40)) + message[place:]
    if kind == 3:
        return message[:place] + message[place + 1 :]
    if kind == 4:
        return message * random.randrange(2, 5)
    return random.randbytes(random.randrange(200))


@pytest.mark.parametrize("seed", seeds(5))
async def test_a_bent_exchange_lets_nobody_in(random: Random, seed: int) -> None:
    async with broker_inside(random, SETTINGS) as inside:
        await add_user(inside)
        recorded = {name: await transcript(inside, name, random) for name in MECHANISMS[:3]}
        replayed = [*recorded["SCRAM-SHA-256"], *recorded["SCRAM-SHA-512"]]
        said = [*replayed, *recorded["PLAIN"]]
        for _ in range(ROUNDS):
            exchange = Exchange(inside)
            for _ in range(random.randrange(1, 6)):
                if random.random() < 0.5:
                    exchange.begin(random.choice((*MECHANISMS, *UNKNOWN)))
                message = random.choice(said)
                # The one message of PLAIN is the secret itself: whoever has all of it gets in.
                replays = message in replayed and random.random() < 0.5
                await exchange.say(message if replays else bent(random, message))
                assert not exchange.session.admitted, (seed, message)
        for mechanism in MECHANISMS[:3]:
            await transcript(inside, mechanism, random)


@pytest.mark.parametrize("mechanism", MECHANISMS[1:3])
async def test_a_proof_for_one_mechanism_is_none_for_the_other(random: Random, mechanism: str) -> None:
    """The client proves with SHA-256, and the connection is changed to say SHA-512, or the other way round."""
    async with broker_inside(random, SETTINGS) as inside:
        other = next(name for name in MECHANISMS[1:3] if name != mechanism)

        await add_user(inside)
        exchange = Exchange(inside)
        assert exchange.begin(other)
        client = ScramClient(HASHES[mechanism], USER, PASSWORD, "nonce")
        answer = await exchange.say(client.first())
        assert answer is not None
        assert await exchange.say(client.final(answer)) is None
        assert not exchange.session.admitted


@pytest.mark.parametrize("mechanism", MECHANISMS[1:3])
async def test_another_password_or_user_is_refused_in_an_exchange_of_its_own(
    random: Random, mechanism: str
) -> None:
    async with broker_inside(random, SETTINGS) as inside:
        await add_user(inside)
        for user, password in ((USER, PASSWORD + "x"), (USER, ""), ("nobody", PASSWORD)):
            exchange = Exchange(inside)
            assert exchange.begin(mechanism)
            client = ScramClient(HASHES[mechanism], user, password, f"nonce{random.getrandbits(64):x}")
            answer = await exchange.say(client.first())
            assert answer is not None, "nobody learns here which users there are"
            assert await exchange.say(client.final(answer)) is None
            assert not exchange.session.admitted
