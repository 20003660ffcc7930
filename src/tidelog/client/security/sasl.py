"""SASL on a fresh connection: the handshake, then as many messages as the mechanism takes."""

from __future__ import annotations

import asyncio
import inspect
import secrets

from tidelog import errors
from tidelog.client.security.scram import HASHES, ScramClient
from tidelog.client.security.security import Security
from tidelog.net.requester import Requester
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NONCE_BYTES = 24


async def authenticate(connection: Requester, security: Security) -> None:
    """Raises `SaslAuthenticationFailed` or `UnsupportedSaslMechanism`; does nothing without a mechanism."""
    mechanism = security.mechanism
    if mechanism is None:
        return
    offered = await connection.ask(SaslHandshakeRequest(mechanism), SaslHandshakeResponse)
    if offered.error_code != errors.NONE:
        offered_names = ", ".join(offered.mechanisms or []) or "none"
        raise errors.by_code(offered.error_code)(
            f"{connection.peer} does not take {mechanism}: it offers {offered_names}"
        )
    if mechanism in HASHES:
        await _scram(connection, security, HASHES[mechanism])
    elif mechanism == "OAUTHBEARER":
        await _bearer(connection, security)
    else:
        await _exchange(connection, f"\0{security.username}\0{security.password}".encode())


async def _scram(connection: Requester, security: Security, hash_name: str) -> None:
    assert security.username is not None and security.password is not None
    nonce = secrets.token_urlsafe(NONCE_BYTES)
    client = ScramClient(hash_name, security.username, security.password, nonce)
    server_first = await _exchange(connection, client.first())
    # Thousands of rounds of hashing: not on the loop.
    proof = await asyncio.to_thread(client.final, server_first)
    client.check(await _exchange(connection, proof))


async def _bearer(connection: Requester, security: Security) -> None:
    assert security.token is not None
    # A plain function may block on the network.
    direct = inspect.iscoroutinefunction(security.token)
    token_or_future = security.token() if direct else await asyncio.to_thread(security.token)
    token = token_or_future if isinstance(token_or_future, str) else await token_or_future
    refused = await _exchange(connection, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if refused:
        # The reason is in JSON; the server waits for this before it says that it has failed.
        await _exchange(connection, b"\x01")
        raise errors.SaslAuthenticationFailed(f"{connection.peer} refused the token: {refused!r}")


async def _exchange(connection: Requester, message: bytes) -> bytes:
    answer = await connection.ask(SaslAuthenticateRequest(message), SaslAuthenticateResponse)
    if answer.error_code != errors.NONE:
        reason = answer.error_message or "check the user name and the password or token"
        raise errors.by_code(answer.error_code)(f"{connection.peer} did not let us in: {reason}")
    connection.lifetime_ms = answer.session_lifetime_ms or connection.lifetime_ms
    return answer.auth_bytes or b""
