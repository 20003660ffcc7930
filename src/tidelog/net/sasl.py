"""SASL on a fresh connection, the asking side: the handshake, then as many messages as the mechanism takes."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable
from typing import Protocol

from tidelog import errors
from tidelog.net import on_behalf
from tidelog.net.kerberos_login import KerberosLogin
from tidelog.net.requester import Requester
from tidelog.net.scram_client import HASHES, ScramClient
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NONCE_BYTES = 24
Token = Callable[[], str | Awaitable[str]]


STEPS_MAX = 8
"""The most steps of one GSSAPI exchange."""


class Login(Protocol):
    """The credentials of a connection; a connection without a mechanism does not log in."""

    @property
    def mechanism(self) -> str | None: ...
    @property
    def username(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...
    @property
    def token(self) -> Token | None: ...
    @property
    def kerberos(self) -> KerberosLogin | None: ...


async def authenticate(connection: Requester, login: Login) -> None:
    """Raises `SaslAuthenticationFailed` or `UnsupportedSaslMechanism`; does nothing without a mechanism."""
    mechanism = login.mechanism
    if mechanism is None:
        return
    offered = await connection.ask(SaslHandshakeRequest(mechanism), SaslHandshakeResponse)
    if offered.error_code != errors.NONE:
        offered_names = ", ".join(offered.mechanisms or []) or "none"
        raise errors.by_code(offered.error_code)(
            f"{connection.peer} does not take {mechanism}: it offers {offered_names}"
        )
    if mechanism in HASHES:
        await _scram(connection, login, HASHES[mechanism])
    elif mechanism == "OAUTHBEARER":
        await _bearer(connection, login)
    elif mechanism == "GSSAPI":
        await _kerberos(connection, login)
    elif mechanism == on_behalf.MECHANISM:
        assert login.token is not None
        message = login.token()
        assert isinstance(message, str)
        await _exchange(connection, message.encode())
    else:
        await _exchange(connection, f"\0{login.username}\0{login.password}".encode())


async def _scram(connection: Requester, login: Login, hash_name: str) -> None:
    assert login.username is not None and login.password is not None
    nonce = secrets.token_urlsafe(NONCE_BYTES)
    client = ScramClient(hash_name, login.username, login.password, nonce)
    server_first = await _exchange(connection, client.first())
    # Thousands of rounds of hashing: not on the loop.
    proof = await asyncio.to_thread(client.final, server_first)
    client.check(await _exchange(connection, proof))


async def _bearer(connection: Requester, login: Login) -> None:
    assert login.token is not None
    # A plain function may block on the network.
    direct = inspect.iscoroutinefunction(login.token)
    token_or_future = login.token() if direct else await asyncio.to_thread(login.token)
    token = token_or_future if isinstance(token_or_future, str) else await token_or_future
    refused = await _exchange(connection, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if refused:
        # The reason is in JSON; the server waits for this before it says that it has failed.
        await _exchange(connection, b"\x01")
        raise errors.SaslAuthenticationFailed(f"{connection.peer} refused the token: {refused!r}")


async def _kerberos(connection: Requester, login: Login) -> None:
    from tidelog.net.gss import GssFailed, Initiator, client_credential

    kerberos = login.kerberos
    assert kerberos is not None
    host = connection.peer.rpartition(":")[0].strip("[]")

    def begin() -> tuple[Initiator, bytes]:
        credential = client_credential(kerberos.principal, kerberos.keytab)
        initiator = Initiator(kerberos.service_name, host, credential)
        return initiator, initiator.respond(b"")

    # Files are read, and the KDC is asked: not on the loop.
    initiator, message = await asyncio.to_thread(begin)
    for _ in range(STEPS_MAX):
        answer = await _exchange(connection, message)
        if initiator.complete:
            return
        message = await asyncio.to_thread(initiator.respond, answer)
    raise GssFailed(f"{connection.peer} does not end the exchange")


async def _exchange(connection: Requester, message: bytes) -> bytes:
    answer = await connection.ask(SaslAuthenticateRequest(message), SaslAuthenticateResponse)
    if answer.error_code != errors.NONE:
        reason = answer.error_message or "check the user name and the password or token"
        raise errors.by_code(answer.error_code)(f"{connection.peer} did not let us in: {reason}")
    connection.lifetime_ms = answer.session_lifetime_ms or connection.lifetime_ms
    return answer.auth_bytes or b""
