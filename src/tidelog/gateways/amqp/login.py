"""The SASL exchange of a connection: PLAIN and AMQPLAIN, with the users that Kafka's listeners have.

Where nobody has to log in, any user name will do, and the client is anonymous, as on a PLAINTEXT listener."""

from __future__ import annotations

import asyncio

from tidelog import errors
from tidelog.broker.services import Services
from tidelog.broker.session import Session
from tidelog.gateways.amqp.wire.tables import SyntaxFault, decode_table, encode_long

MECHANISMS = ("PLAIN", "AMQPLAIN")
LOGIN_BYTES_MAX = 4096


class LoginRefused(Exception):
    """Why, for the log only: a client is told as little as possible."""


def parse_login(mechanism: str, response: bytes) -> tuple[str, str]:
    """(user, password); LoginRefused when the response has none."""
    if len(response) > LOGIN_BYTES_MAX:
        raise LoginRefused("the response is too long")
    try:
        if mechanism == "PLAIN":
            _, user, password = response.decode().split("\0")
            return user, password
        if mechanism == "AMQPLAIN":
            table, _ = decode_table(encode_long(response), 0)
            return str(table["LOGIN"]), str(table["PASSWORD"])
    except (ValueError, KeyError, SyntaxFault):
        raise LoginRefused("the response cannot be read") from None
    raise LoginRefused(f"mechanism {mechanism[:20]!r} is not offered")


async def log_in(
    services: Services, session: Session, mechanism: str, response: bytes, required: bool
) -> str:
    """The user's name; the session has the principal then.  Raises LoginRefused, after a delay."""
    user = ""
    try:
        user, password = parse_login(mechanism, response)
        if not required:
            return user
        exchange = services.logins.http_exchange("PLAIN", session.host)
        await exchange.respond(b"\0" + user.encode() + b"\0" + password.encode())
        assert exchange.principal is not None
        session.principal, session.groups = exchange.principal, exchange.groups
        services.gate.tenant_connections.took(session, services.gate.tenant(session))
    except (errors.TidelogError, LoginRefused) as problem:
        services.logins.failed += 1
        services.gate.audit.login_refused(session, mechanism, user or None, str(problem))
        await asyncio.sleep(services.logins.refusal_delay_s(session.host))
        raise LoginRefused(str(problem)) from None
    services.gate.admitted(session)
    services.logins.succeeded += 1
    services.gate.audit.logged_in(session, mechanism)
    return user
