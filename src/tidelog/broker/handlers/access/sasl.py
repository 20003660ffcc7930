"""SaslHandshake (api 17), versions 0-1; SaslAuthenticate (api 36), versions 0-2.

A client that uses version 0 of the handshake sends its tokens without a request around them, which is not served: the
connection of such a client is closed.  A refused login is answered after
`connection.failed.authentication.delay.ms`, later after many refusals of its address, and the connection is closed."""

from __future__ import annotations

import asyncio

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def sasl_handshake(request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
    logins, session = context.services.logins, context.session
    offered = list(logins.security(session).mechanisms) if session.protocol.startswith("SASL") else []
    try:
        logins.begin(session, request.mechanism)
    except errors.TidelogError as problem:
        return SaslHandshakeResponse(error_code=problem.code, mechanisms=offered)
    return SaslHandshakeResponse(mechanisms=offered)


async def sasl_authenticate(request: SaslAuthenticateRequest, context: Context) -> SaslAuthenticateResponse:
    session = context.session
    try:
        answer, lifetime_ms = await context.services.logins.respond(session, request.auth_bytes)
    except errors.TidelogError as problem:
        session.login_refused = True
        await asyncio.sleep(context.services.logins.refusal_delay_s(session.host))
        return SaslAuthenticateResponse(error_code=problem.code, error_message=str(problem), auth_bytes=b"")
    return SaslAuthenticateResponse(error_message=None, auth_bytes=answer, session_lifetime_ms=lifetime_ms)
