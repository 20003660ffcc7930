"""Who a request is of, while it is handled: the `Session` that the guard found.

A context variable, as the id of the request is: what a handler starts belongs to the same user.  Tasks that outlive the
request, such as the console's poller, run `as_broker`."""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING

from tidelog.net.on_behalf import BROKER, Behalf

if TYPE_CHECKING:
    from tidelog.broker.session import Session

OF_BROKER = Behalf(BROKER, (), "127.0.0.1")
_session: ContextVar[Session | None] = ContextVar("http session", default=None)
_is_broker: ContextVar[bool] = ContextVar("the broker itself", default=False)


def identified(session: Session) -> None:
    """The request of this context is of this session."""
    _session.set(session)
    _is_broker.set(False)


def session() -> Session | None:
    """None where the broker neither authorizes nor asks for a login, and in what the broker does by itself."""
    return _session.get()


def behalf() -> Behalf | None:
    """On whose behalf this context asks other brokers; None if nobody has logged in here."""
    if _is_broker.get():
        return OF_BROKER
    session = _session.get()
    return None if session is None else Behalf(session.principal, tuple(session.groups), session.host)


def as_broker() -> Context:
    """The context for a task that the broker runs by itself, whoever the request was of that began it."""
    context = copy_context()
    context.run(_session.set, None)
    context.run(_is_broker.set, True)
    return context
